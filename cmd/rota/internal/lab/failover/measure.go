package failover

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/line"
)

// An Episode is one thing that was done to a group, from the instant before it
// until all was quiet again.
type Episode struct {
	Event    string
	From, To int64
	Joined   []string      // members that came,
	Left     []string      // that were asked to leave,
	Killed   []string      // that were killed
	Lease    time.Duration // what a heartbeat is good for
	Wait     time.Duration // W: silence after which others may act
}

// A Sample is what one episode came to. Times are in seconds, gaps in
// milliseconds.
type Sample struct {
	System   string    `json:"system"`
	Event    string    `json:"event"`
	Run      int       `json:"run"`
	Phase    int       `json:"phase"` // tenths of a heartbeat between it and the kill
	Seconds  float64   `json:"seconds"`
	Floor    float64   `json:"floor_s,omitempty"` // of a kill: W − age of the last heartbeat
	Age      float64   `json:"age_s,omitempty"`
	Plans    int       `json:"plans"`
	Moved    int       `json:"moved"`
	Idle     []float64 `json:"idle_ms"`    // of each partition that changed hands
	Before   Gaps      `json:"gap_before"` // of those that did not: in the time of a lease before
	During   Gaps      `json:"gap_during"` // and until all was consumed again
	Overlaps int       `json:"overlaps"`
}

// Measure computes the figures of an episode:
//
//   - joined: from the last `joined` until every partition was handled under the
//     newest plan by its owner
//   - left: from the signal until the process has ended and every partition that
//     moved was handled by its new owner
//   - killed: from the first kill until every partition that moved was handled by
//     its new owner; the floor is W minus the age of the victim's last heartbeat,
//     and of several the latest. A heartbeat counts from when it was sent, which
//     is its lease's end minus the lease: a survivor cannot know it earlier.
func (h *History) Measure(e Episode) (Sample, error) {
	s := Sample{Event: e.Event}
	begin, plan, err := h.clock(e, &s)
	if err != nil {
		return s, err
	}
	end := begin
	if len(e.Left) > 0 {
		for _, name := range e.Left {
			gone, ok := h.Last(line.Gone, name)
			if !ok {
				return s, fmt.Errorf("%s: no line tells that %s has ended", e.Event, name)
			}
			end = max(end, gone.Boot)
		}
	}
	var still []*part
	for _, name := range slices.Sorted(maps.Keys(h.parts)) {
		p := &part{acts: slices.Clone(h.parts[name].acts)}
		slices.SortStableFunc(p.acts, func(a, b act) int { return cmp.Compare(a.from, b.from) })
		first, moved, err := p.change(e, max(begin, plan))
		if err != nil {
			return s, fmt.Errorf("%s: %s: %w", e.Event, name, err)
		}
		if moved {
			s.Moved++
		} else {
			still = append(still, p)
		}
		if moved || len(e.Joined) > 0 {
			end = max(end, first)
		}
		s.Idle = append(s.Idle, p.idle(e)...)
		s.Overlaps += p.overlaps(e.From, e.To)
	}
	s.Seconds = seconds(end - begin)
	s.Before, s.During = Gaps{}, Gaps{}
	for _, p := range still {
		p.gaps(s.Before, e.From-int64(e.Lease), e.From)
		p.gaps(s.During, begin, end)
	}
	return s, nil
}

// clock finds when the clock begins, and the newest plan.
func (h *History) clock(e Episode, s *Sample) (begin, plan int64, err error) {
	for _, l := range h.marks {
		if l.Event == "plan" && l.Boot > e.From && l.Boot <= e.To {
			s.Plans++
			plan = max(plan, l.Boot)
		}
	}
	kind := map[bool]string{true: line.Kill, false: line.Term}[len(e.Killed) > 0]
	for _, name := range slices.Concat(e.Left, e.Killed) {
		l, ok := h.Last(kind, name)
		if !ok {
			return 0, 0, fmt.Errorf("%s: no line tells when %s got its signal", e.Event, name)
		}
		if begin == 0 || l.Boot < begin {
			begin = l.Boot
		}
	}
	for _, name := range e.Joined {
		l, ok := h.Last("joined", name)
		if !ok {
			return 0, 0, fmt.Errorf("%s: no line tells that %s has joined", e.Event, name)
		}
		begin = max(begin, l.Boot)
	}
	for _, name := range e.Killed {
		l, ok := h.beat(name, begin)
		if !ok {
			return 0, 0, fmt.Errorf("%s: no line tells of a heartbeat of %s", e.Event, name)
		}
		age := begin - (l - int64(e.Lease))
		if floor := seconds(int64(e.Wait) - age); floor > s.Floor || s.Floor == 0 {
			s.Floor, s.Age = floor, seconds(age)
		}
	}
	return begin, plan, nil
}

// beat is the latest lease end of a member that is known at an instant.
func (h *History) beat(member string, at int64) (end int64, ok bool) {
	for _, l := range h.marks {
		if l.Event == "lease" && l.Member == member && l.Boot <= at && l.Lease > end {
			end, ok = l.Lease, true
		}
	}
	return end, ok
}

// change finds who handles the partition at the end, whether that is somebody
// new, and when it handled something for the first time, after the plan unless it
// is new.
func (p *part) change(e Episode, plan int64) (first int64, moved bool, err error) {
	var before, after *hold
	for _, a := range p.acts {
		if a.from <= e.From {
			before = a.by
		}
		if a.from <= e.To {
			after = a.by
		}
	}
	if before == nil || after == nil {
		return 0, false, fmt.Errorf("nothing was handled before")
	}
	moved = before != after
	for _, a := range p.acts {
		if a.by == after && a.from > e.From && (moved || a.from > plan) {
			return a.from, moved, nil
		}
	}
	return 0, moved, fmt.Errorf("nothing was handled afterwards")
}

// idle is how long the partition was without a handler at work, each time that it
// changed hands.
func (p *part) idle(e Episode) (out []float64) {
	var last act
	for _, a := range p.acts {
		if last.by != nil && a.by != last.by && a.from > e.From && a.from <= e.To {
			out = append(out, float64(a.from-max(last.from, last.to))/1e6)
		}
		if last.by != a.by || a.to > last.to {
			last = a
		}
	}
	return out
}

// overlaps counts pairs of owners that both were at work on the partition in the
// time asked for: each from its first message to its last.
func (p *part) overlaps(from, to int64) (n int) {
	type stretch struct{ from, to int64 }
	of := map[*hold]*stretch{}
	var order []*stretch
	for _, a := range p.acts {
		if a.from > to {
			break
		}
		s := of[a.by]
		if s == nil {
			s = &stretch{from: a.from}
			of[a.by], order = s, append(order, s)
		}
		s.to = max(s.to, a.from, a.to)
	}
	for i, a := range order {
		for _, b := range order[i+1:] {
			if max(a.from, b.from) < min(a.to, b.to) || a.from < b.from && b.to < a.to { // a single message may have no end
				if min(a.to, b.to) > from {
					n++
				}
			}
		}
	}
	return n
}

// gaps notes the time between one message and the next of the same owner, of
// those that touch the time asked for.
func (p *part) gaps(into Gaps, from, to int64) {
	for i := 1; i < len(p.acts); i++ {
		a, b := p.acts[i-1], p.acts[i]
		if a.by == b.by && a.to != 0 && b.from > from && a.to <= to {
			into.add(b.from - a.to)
		}
	}
}

// Gaps counts times by size, in steps of 2 %, so that runs can be pooled.
type Gaps map[int]int

const step = 1.02

func (g Gaps) add(ns int64) {
	g[int(math.Floor(math.Log(float64(max(ns, 1000)))/math.Log(step)))]++
}

// Pool adds those of another run.
func (g Gaps) Pool(more Gaps) {
	for k, n := range more {
		g[k] += n
	}
}

// At is the gap in milliseconds that a part q of all does not exceed.
func (g Gaps) At(q float64) float64 {
	total := 0
	for _, n := range g {
		total += n
	}
	if total == 0 {
		return 0
	}
	want, sum := int(math.Ceil(q*float64(total))), 0
	for _, k := range slices.Sorted(maps.Keys(g)) {
		if sum += g[k]; sum >= want {
			return math.Pow(step, float64(k)+0.5) / 1e6
		}
	}
	return math.Inf(1) // q is more than all
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
