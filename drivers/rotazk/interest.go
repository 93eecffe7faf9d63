package rotazk

// An interest is something that the server reports once: the next change of a node, or
// of the list of its children.
type interest struct {
	node     string
	children bool
}

// interests remembers what the server will report, so that nothing is asked for twice.
// The client keeps a channel for each time, until there is a change: a program that lists
// a quiet group again and again would collect them. It has no lock of its own.
type interests struct {
	asked  map[interest]bool // the server will report it
	asking map[*request]bool // requests in flight
}

// A request asks the server to report something. The report may be here before the
// answer to the request.
type request struct {
	interest
	reported bool
}

func newInterests() interests {
	return interests{asked: map[interest]bool{}, asking: map[*request]bool{}}
}

// ask returns a request to make, or nil if the server will report it anyway.
func (in *interests) ask(i interest) *request {
	if in.asked[i] {
		return nil
	}
	r := &request{interest: i}
	in.asking[r] = true
	return r
}

// answered notes how a request ended. One that was reported already has to be made again.
func (in *interests) answered(r *request, ok bool) {
	delete(in.asking, r)
	if ok && !r.reported {
		in.asked[r.interest] = true
	}
}

// reported notes that a node, or the list of its children, has changed. Which of both it
// was does not matter: to ask once too often is harmless.
func (in *interests) reported(node string) {
	delete(in.asked, interest{node, false})
	delete(in.asked, interest{node, true})
	for r := range in.asking {
		if r.node == node {
			r.reported = true
		}
	}
}
