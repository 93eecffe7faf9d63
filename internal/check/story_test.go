package check

import (
	"fmt"
	"testing"

	"github.com/rota-dev/rota/internal/record"
)

const (
	c1, c2, c3, c4 int32 = 0, 1, 2, 3
	q0, q1, q2     int32 = 0, 1, 2
)

// A story is a small history that breaks one invariant with its last line and
// not before, or none at all.
type story struct {
	claim  string
	breaks string
	tell   func(h *history)
}

// A history is told verb by verb, each at the moment that the last "at" named.
type history struct {
	c     *Checker
	now   int64
	lines int
	line  int // the one that broke it
	found *Violation
}

// begin opens a history of four members and three partitions.
func begin(c *Checker) *history {
	c.Reset(4, 3)
	return &history{c: c}
}

// told is a story told to a checker that never heard another.
func told(tell func(h *history)) *history {
	h := begin(new(Checker))
	tell(h)
	return h
}

func hear(t *testing.T, stories []story) {
	for _, s := range stories {
		t.Run(s.claim, func(t *testing.T) {
			if got := told(s.tell).verdict(); got != s.breaks {
				t.Errorf("breaks %q, want %q", got, s.breaks)
			}
		})
	}
}

// verdict is the invariant that the last line broke, or "".
func (h *history) verdict() string {
	switch {
	case h.found == nil:
		return ""
	case h.line != h.lines || h.found.At != h.now:
		return fmt.Sprintf("%v (line %d of %d, at %d of %d)", h.found, h.line, h.lines, h.found.At, h.now)
	}
	return h.found.Invariant
}

func (h *history) heard(v *Violation) {
	h.lines++
	if h.found == nil && v != nil {
		h.found, h.line = v, h.lines
	}
}

func (h *history) see(e Event) {
	e.At = h.now
	h.heard(h.c.See(e))
}

func (h *history) row(s record.RowState, p, who int32, t record.Token) {
	h.see(Event{Kind: Row, State: s, Part: p, Who: who, Token: t})
}

func (h *history) at(t int64) { h.now = t }

// What members do.

func (h *history) lease(who int32, until int64) { h.see(Event{Kind: Lease, Who: who, Until: until}) }
func (h *history) resume(who int32)             { h.see(Event{Kind: Resume, Who: who}) }
func (h *history) gone(who int32)               { h.see(Event{Kind: Gone, Who: who}) }
func (h *history) stop(who, p int32)            { h.see(Event{Kind: Stop, Who: who, Part: p}) }
func (h *history) start(who, p int32, t record.Token) {
	h.see(Event{Kind: Start, Who: who, Part: p, Token: t})
}

func (h *history) act(who, p int32, t record.Token) {
	h.see(Event{Kind: Act, Who: who, Part: p, Token: t})
}

// What the store holds.

func (h *history) free(p int32, t record.Token)          { h.row(record.Free, p, Nobody, t) }
func (h *history) grant(p, who int32, t record.Token)    { h.row(record.Owned, p, who, t) }
func (h *history) revoking(p, who int32, t record.Token) { h.row(record.Revoking, p, who, t) }
func (h *history) grantEagerly(p, who int32, t record.Token) {
	h.see(Event{Kind: Row, State: record.Owned, Part: p, Who: who, Token: t, Eager: true})
}
func (h *history) plan()                { h.see(Event{Kind: Plan}) }
func (h *history) change()              { h.see(Event{Kind: Change}) }
func (h *history) burst(n int32)        { h.see(Event{Kind: Change, Burst: n}) }
func (h *history) rollback(until int64) { h.see(Event{Kind: Rollback, Until: until}) }

// What the sink lets pass.

func (h *history) accept(who, p int32, t record.Token) {
	h.see(Event{Kind: Accept, Who: who, Part: p, Token: t})
}
func (h *history) refuse(who, p int32, t record.Token) {
	h.see(Event{Kind: Refuse, Who: who, Part: p, Token: t})
}

// runs is the usual opening: p is granted to who, who trusts its lease until
// then and runs it.
func (h *history) runs(who, p int32, t record.Token, until int64) {
	h.grant(p, who, t)
	h.lease(who, until)
	h.start(who, p, t)
}

// rest ends a history: is all well, with these alive, planned and to be run?
func (h *history) rest(live, planned, parts []int32) {
	h.heard(h.c.Settled(Final{h.now, live, planned, parts}))
}
