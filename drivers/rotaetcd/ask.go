package rotaetcd

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

type callOption = grpc.CallOption

// A question is one request to the cluster. It goes to the node whose turn it is; if that
// does not answer for a while, to the next as well, and so on. The first answer counts.
//
// So a write may reach two nodes. It is a compare-and-set: of two with the same revision
// at most one succeeds, since revisions never come again. A conflict counts only if no
// other node may have written: that one may be the cause of the conflict. A creation is
// different: after a deletion it would succeed a second time. It is asked once.
type question[T any] struct {
	ask func(context.Context, *node, callOption) (T, error)
	// settles tells whether an answer ends the question whatever other nodes may say;
	// nil if all do.
	settles func(T) bool
	once    bool // ask no second node, unless the first has certainly got nothing
}

// Timeouts of calls.
const (
	callTime  = 10 * time.Second       // of calls whose ctx has no deadline
	hedgeTime = 500 * time.Millisecond // until another node is asked too, at most
	probeTime = 5 * time.Second
)

// hedge is the time until another node is asked too. A heartbeat by default has 1.25 s:
// a second node must have enough of that.
func hedge(ctx context.Context) time.Duration {
	end, _ := ctx.Deadline()
	return min(hedgeTime, time.Until(end)/3)
}

// try is one question to one node.
type try[T any] struct {
	node   *node
	cancel context.CancelFunc
	value  T
	err    error
}

// race is the state of a question.
type race[T any] struct {
	question[T]
	l       *link
	turn    *turn
	left    []*node // not asked yet
	flying  []*try[T]
	results chan *try[T]
	lost    *T   // an answer that does not settle the question
	doubt   bool // a node that gave no answer may have done what was asked
}

// ask returns the answer of the cluster. After an error nobody knows what was done.
func ask[T any](ctx context.Context, l *link, q question[T]) (none T, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return none, l.silent(ctx.Err())
	}
	nodes, turn, err := l.connect()
	if err != nil {
		return none, err
	}
	r := &race[T]{question: q, l: l, turn: turn, left: nodes, results: make(chan *try[T], len(nodes))}
	wait := hedge(ctx)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	r.start(ctx)
	for {
		select {
		case t := <-r.results:
			if value, err, over := r.hear(ctx, t); over {
				return value, err
			}
		case <-timer.C:
			r.widen(ctx)
			wait *= 2
			timer.Reset(wait)
		case <-ctx.Done():
			return none, l.silent(ctx.Err())
		}
	}
}

// within adds callTime as a timeout to a ctx without a deadline.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTime)
}

// start asks the next node.
func (r *race[T]) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	t := &try[T]{node: r.left[0], cancel: cancel}
	r.left = r.left[1:]
	r.flying = append(r.flying, t)
	go func() {
		defer cancel()
		var to peer.Peer // of the connection that the request was sent on
		t.err = t.node.ask(ctx, func(ctx context.Context) (err error) {
			to = peer.Peer{}
			t.value, err = r.ask(ctx, t.node, grpc.Peer(&to))
			return err
		})
		if t.err != nil && to.Addr == nil {
			t.err = notSent{t.err}
		}
		r.results <- t
	}()
}

// widen asks one more node, because those asked are silent.
func (r *race[T]) widen(ctx context.Context) {
	switch {
	case len(r.left) == 0 || r.lost != nil:
	case !r.once:
		r.start(ctx)
	case !r.flying[0].node.connected():
		r.flying[0].cancel() // if it was not sent, the next node is asked
	default:
		r.l.goProbe() // so that the next call does not meet the silent node
	}
}

// hear handles the answer of one node, and tells whether the question is over.
func (r *race[T]) hear(ctx context.Context, t *try[T]) (value T, err error, over bool) {
	for i, f := range r.flying {
		if f == t {
			r.flying = append(r.flying[:i], r.flying[i+1:]...)
			break
		}
	}
	v := sort(t.err)
	switch {
	case v == done || v == refused:
		r.l.answered(t.node, r.turn)
	case ctx.Err() == nil:
		t.node.note(t.err)
	}
	switch {
	case v == done && (r.settles == nil || r.settles(t.value)):
		return t.value, nil, true
	case v == done:
		r.lost = &t.value
	case v == refused:
		return value, r.l.refusal(t.node, t.err), true
	case v == unclear:
		r.doubt = true
	}
	if len(r.flying) > 0 {
		return value, nil, false
	}
	switch {
	case r.lost != nil && !r.doubt:
		return *r.lost, nil, true
	case r.lost != nil:
		return value, errDoubt, true
	case len(r.left) == 0 || r.once && r.doubt || ctx.Err() != nil:
		return value, r.l.silent(ctx.Err()), true
	}
	r.start(ctx)
	return value, nil, false
}
