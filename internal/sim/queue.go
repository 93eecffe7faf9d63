package sim

import (
	"github.com/rota-dev/rota/internal/core"
)

// evKind says what becomes of an item when its time comes.
type evKind uint8

const (
	evTick     evKind = iota // the node's own timer
	evCore                   // an event for the node
	evBegin                  // a process that starts has opened the store
	evApply                  // a store call reaches the store
	evAnswer                 // its answer reaches the caller
	evSeen                   // a watch shows something
	evListing                // the source answers
	evMeasured               // so does its meter
	evScaled                 // so does the Scaler
	evFleet                  // the platform does what a Scaler was asked for
	evStarted                // the source confirms a start
	evStopped                // a handler has returned
	evFailed                 // a source has failed
	evRetry                  // and is tried again
	evWork                   // a handler begins an effect
	evSend                   // it has checked its lease and sends it
	evLand                   // the effect reaches the sink
	evFault                  // something goes wrong
	evRestart                // a process is started again
	evResume                 // a pause ends
	evOverdue                // by now a death must have been planned for
)

// An item is something that will happen.
type item struct {
	kind    evKind
	epoch   uint32
	call    uint32
	fault   fault
	order   order
	host    *host
	run     hrun
	who     int32 // of an effect: whose it is
	due     int64 // of a call: when its caller stops waiting
	delayed bool  // of an answer: see backsOff
	ev      core.Event
}

// queue is a heap of instants over a pool of items, so that moving around in
// the heap is cheap. Items of one instant come in seeded order.
type queue struct {
	heap []slot
	pool []item
	free []int32
	seq  uint32
}

type slot struct {
	at  int64
	ord uint64
	ref int32
}

func (q *queue) reset() {
	clear(q.pool)
	q.heap, q.pool, q.free, q.seq = q.heap[:0], q.pool[:0], q.free[:0], 0
}

func (s slot) before(o slot) bool { return s.at < o.at || s.at == o.at && s.ord < o.ord }

func (w *World) push(at int64, it item) {
	q := &w.queue
	q.seq++
	// In calm weather things of one instant happen in the order they were
	// caused; otherwise in any.
	ord := uint64(q.seq)
	if !w.calm {
		ord |= uint64(w.rng.Uint32()) << 32
	}
	var ref int32
	if n := len(q.free); n > 0 {
		ref = q.free[n-1]
		q.free = q.free[:n-1]
		q.pool[ref] = it
	} else {
		ref = int32(len(q.pool))
		q.pool = append(q.pool, it)
	}
	q.heap = append(q.heap, slot{at, ord, ref})
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !h[i].before(h[p]) {
			break
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
}

// pop takes the earliest item out and copies it to it.
func (q *queue) pop(it *item) int64 {
	h := q.heap
	top := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	q.heap = h
	*it = q.pool[top.ref]
	q.free = append(q.free, top.ref)
	return top.at
}
