package rotatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/rota-dev/rota"
)

// A History records the calls of the clients of one store with their answers, and
// judges whether a set of compare-and-set cells can have given them: whether they are
// linearizable. It records Get, Put and Delete, and no watches.
type History struct {
	mu      sync.Mutex
	now     int64
	clients int
	ops     map[string][]*op
}

type op struct {
	verb      verb
	client    int
	call, ret int64 // on a clock that counts calls and returns
	prev, rev rota.Rev
	value     string
	end       outcome
	over      bool // the call has returned, with or without a known outcome
}

type verb string

const (
	get verb = "get"
	put verb = "put"
	del verb = "delete"
)

type outcome byte

const (
	done     outcome = iota
	conflict         // of a put or delete
	missing          // of a get
	unknown          // may have happened, or may still happen
)

// forever is the return time of a call with an unknown outcome: it may still happen.
const forever int64 = math.MaxInt64

// Wrap makes a store whose calls are recorded as those of one more client. Each value
// put into a cell must be new to it: after an unknown outcome only the value tells
// which write a read has found.
func (h *History) Wrap(s rota.Store) rota.Store {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients++
	return &recorded{optional{s}, s, h, h.clients}
}

type recorded struct {
	optional
	inner  rota.Store
	h      *History
	client int
}

func (r *recorded) Get(ctx context.Context, key string) (rota.Entry, error) {
	o := r.h.begin(key, op{verb: get, client: r.client})
	e, err := r.inner.Get(ctx, key)
	r.h.finish(o, e.Rev, string(e.Value), err)
	return e, err
}

func (r *recorded) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	o := r.h.begin(key, op{verb: put, client: r.client, prev: prev, value: string(value)})
	rev, err := r.inner.Put(ctx, key, value, prev)
	r.h.finish(o, rev, o.value, err)
	return rev, err
}

func (r *recorded) Delete(ctx context.Context, key string, prev rota.Rev) error {
	o := r.h.begin(key, op{verb: del, client: r.client, prev: prev})
	err := r.inner.Delete(ctx, key, prev)
	r.h.finish(o, 0, "", err)
	return err
}

func (r *recorded) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return r.inner.Watch(ctx, prefix)
}

func (r *recorded) Close() error { return r.inner.Close() }

func (h *History) begin(key string, o op) *op {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ops == nil {
		h.ops = map[string][]*op{}
	}
	h.now++
	o.call, o.ret, o.end = h.now, forever, unknown
	h.ops[key] = append(h.ops[key], &o)
	return &o
}

func (h *History) finish(o *op, rev rota.Rev, value string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	o.over = true
	if o.end = o.outcome(err); o.end != unknown {
		o.ret = h.now
	}
	if o.end == done {
		o.rev, o.value = rev, value
	}
}

// outcome is the outcome that an error stands for.
func (o *op) outcome(err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, rota.ErrConflict) && o.verb != get:
		return conflict
	case errors.Is(err, rota.ErrNotFound) && o.verb == get:
		return missing
	}
	return unknown
}

// Check judges the history. Call it when all calls have returned.
func (h *History) Check() error { return Judge(h.Calls()) }

// A Call is one call of a history.
type Call struct {
	Client           int
	Verb             string   // "get", "put" or "delete"
	Key, Value       string   // Value: that a put wrote or a get found
	Prev, Rev        rota.Rev // Rev: that a put made or a get found
	Called, Returned int64    // instants of one clock
	Err              error    // nil, ErrConflict of a put or delete, ErrNotFound of a get; any other means an unknown outcome
}

var errUnknown = errors.New("rotatest: the outcome is unknown")

// Calls are the recorded calls, by key and in their order: to be shown, or judged by
// another checker.
func (h *History) Calls() (calls []Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(h.ops)) {
		for _, o := range h.ops[key] {
			err := map[outcome]error{conflict: rota.ErrConflict, missing: rota.ErrNotFound, unknown: errUnknown}[o.end]
			calls = append(calls, Call{o.client, string(o.verb), key, o.value, o.prev, o.rev, o.call, o.ret, err})
		}
	}
	return calls
}

// Judge returns an error that says why a history is not linearizable, or nil. Each
// value put into a cell must be new to it, and a call may only name revisions that a
// Get or a Put of the history has returned.
func Judge(calls []Call) error {
	cells := map[string][]*op{}
	for _, c := range calls {
		o := &op{verb: verb(c.Verb), client: c.Client, call: c.Called, ret: c.Returned, prev: c.Prev, rev: c.Rev, value: c.Value}
		if o.verb != get && o.verb != put && o.verb != del {
			return fmt.Errorf("rotatest: no verb %q: say get, put or delete", c.Verb)
		}
		if o.end = o.outcome(c.Err); o.end == unknown {
			o.ret = forever
		}
		if o.end != done {
			o.rev = 0
		}
		cells[c.Key] = append(cells[c.Key], o)
	}
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(cells)) {
		if err := judgeCell(cells[key]); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errors.Join(wrong...)
}

// Counts is how many calls have returned, and how many of them have an unknown
// outcome.
func (h *History) Counts() (calls, unknowns int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ops := range h.ops {
		for _, o := range ops {
			if o.over {
				calls++
			}
			if o.over && o.end == unknown {
				unknowns++
			}
		}
	}
	return calls, unknowns
}

func (o *op) String() string {
	s := fmt.Sprintf("client %d: %s", o.client, o.verb)
	if o.verb == put {
		s += fmt.Sprintf(" %.20q", o.value)
	}
	if o.verb != get {
		s += fmt.Sprintf(" over %d", o.prev)
	}
	switch {
	case o.end == conflict:
		s += ", refused"
	case o.end == missing:
		s += ", found nothing"
	case o.end == unknown:
		s += ", outcome unknown"
	case o.verb == get:
		s += fmt.Sprintf(", found %.20q at %d", o.value, o.rev)
	case o.verb == put:
		s += fmt.Sprintf(", now at %d", o.rev)
	}
	if o.ret == forever {
		return fmt.Sprintf("[%d–] %s", o.call, s)
	}
	return fmt.Sprintf("[%d–%d] %s", o.call, o.ret, s)
}
