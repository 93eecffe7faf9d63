// Package failover computes, from the event lines of a group's processes, how
// long partitions stay without an owner at work when members come and go. It
// starts nothing and reads no clock: whatever wrote the lines, the figures mean
// the same.
package failover

import (
	"slices"

	"github.com/rota-dev/rota/internal/line"
)

// A History is what the processes of one run have told so far.
type History struct {
	parts   map[string]*part
	holds   map[hold]*hold
	marks   []line.Line // all but those of single messages
	changed int64
	n       int // messages handled
}

// A hold is one ownership of one partition.
type hold struct {
	partition, session, member string
	token                      uint64
}

// An act is one call of a handler; to is zero if its end is not known.
type act struct {
	from, to int64
	by       *hold
}

type part struct {
	acts  []act
	open  map[*hold]int // act whose end has not come
	now   *hold         // who started last, unless it has stopped
	since int64
	last  int64 // when now handled something last
	done  int
}

func NewHistory() *History {
	return &History{parts: map[string]*part{}, holds: map[hold]*hold{}}
}

// Add takes a line. Those of one member come in order; of two, as they are read.
func (h *History) Add(l line.Line) {
	switch l.Event {
	case "settled", "refused", "work":
		return
	case "handle", "handled", "start", "stopped":
	default:
		h.marks = append(h.marks, l)
		return
	}
	p := h.parts[l.Partition]
	if p == nil {
		p = &part{open: map[*hold]int{}}
		h.parts[l.Partition] = p
	}
	by := h.hold(l)
	switch l.Event {
	case "handle":
		p.open[by] = len(p.acts)
		p.acts = append(p.acts, act{from: l.Boot, by: by})
		if by == p.now {
			p.last = l.Boot
		}
	case "handled":
		if i, ok := p.open[by]; ok {
			p.acts[i].to = l.Boot
			delete(p.open, by)
		}
		p.done++
		h.n++
	case "start":
		h.changed = max(h.changed, l.Boot)
		if l.Boot > p.since {
			p.now, p.since = by, l.Boot
		}
	case "stopped":
		h.changed = max(h.changed, l.Boot)
		if by == p.now {
			p.now = nil
		}
	}
}

func (h *History) hold(l line.Line) *hold {
	key := hold{l.Partition, l.Session, l.Member, l.Token}
	if h.holds[key] == nil {
		h.holds[key] = &key
	}
	return h.holds[key]
}

// Changed is when a partition was started or stopped last.
func (h *History) Changed() int64 { return h.changed }

// Handled is how many messages were handled, in all and of one partition.
func (h *History) Handled() int { return h.n }

func (h *History) Done(partition string) int {
	if p := h.parts[partition]; p != nil {
		return p.done
	}
	return 0
}

// Last is a member's newest line of a kind; false if there is none.
func (h *History) Last(event, member string) (line.Line, bool) {
	for i := len(h.marks) - 1; i >= 0; i-- {
		if l := h.marks[i]; l.Event == event && l.Member == member {
			return l, true
		}
	}
	return line.Line{}, false
}

// Leader is who said last that it leads; "" if nobody does.
func (h *History) Leader() string {
	var newest line.Line
	for _, l := range h.marks {
		if l.Event == "leader" && l.Boot >= newest.Boot {
			newest = l
		}
	}
	return newest.Member
}

// Shared tells whether the members named, and nobody else, share all partitions
// evenly, and each partition was handled by its owner after the given instant.
func (h *History) Shared(partitions int, members []string, after int64) bool {
	if len(h.parts) != partitions {
		return false
	}
	has := map[string]int{}
	for _, p := range h.parts {
		if p.now == nil || !slices.Contains(members, p.now.member) || p.last <= max(after, p.since) {
			return false
		}
		has[p.now.member]++
	}
	least := partitions / len(members)
	for _, m := range members {
		if has[m] < least || has[m] > least+1 {
			return false
		}
	}
	return true
}
