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

// A History records what the clients of one store asked and heard, and judges
// whether a set of compare-and-set cells can have answered like that. It sees
// Get, Put and Delete; watches pass it by.
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
	over      bool // whatever came of it, nobody waits for it any more
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
	unknown          // may have happened, or still will
)

// forever is when a call without an answer returns.
const forever int64 = math.MaxInt64

// Wrap makes a store whose calls are recorded as those of one more client. Each
// value put into a cell must be new to it: values tell versions apart where a
// revision was never heard of.
func (h *History) Wrap(s rota.Store) rota.Store {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients++
	return &recorded{s, h, h.clients}
}

type recorded struct {
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
	switch {
	case err == nil:
		o.ret, o.end, o.rev, o.value = h.now, done, rev, value
	case errors.Is(err, rota.ErrConflict) && o.verb != get:
		o.ret, o.end = h.now, conflict
	case errors.Is(err, rota.ErrNotFound) && o.verb == get:
		o.ret, o.end = h.now, missing
	}
}

// Check returns what is wrong with the history, nil if nothing is. Call it when
// all calls have returned.
func (h *History) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(h.ops)) {
		if err := judge(h.ops[key]); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errors.Join(wrong...)
}

// Counts is how many calls have returned, and of how many nobody knows the
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
