package rotazk

import "testing"

func TestTheServerIsAskedOnce(t *testing.T) {
	in := newInterests()
	node, children := interest{"/n", false}, interest{"/n", true}
	asks := func(i interest, want bool, when string) *request {
		t.Helper()
		r := in.ask(i)
		if (r != nil) != want {
			t.Errorf("%s: a request is made: %v", when, r != nil)
		}
		return r
	}
	first := asks(node, true, "at first")
	second := asks(node, true, "while the first is not answered")
	in.answered(first, true)
	in.answered(second, false)
	asks(node, false, "when it was answered")
	in.answered(asks(children, true, "for the children"), true)
	in.reported("/other")
	asks(node, false, "after a change of another node")
	in.reported("/n")
	in.answered(asks(node, true, "after a change"), false)
	early := asks(children, true, "after a refusal")
	in.reported("/n")
	in.answered(early, true)
	asks(children, true, "if the change came before the answer")
	if len(in.asking) != 1 {
		t.Errorf("%d requests are left, want the last one", len(in.asking))
	}
}
