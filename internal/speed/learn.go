package speed

import (
	"math"
	"time"
)

// A Member is a member as the leader sees it.
type Member struct {
	ID      uint64
	Handled uint64  // messages, since its session began
	Busy    uint32  // share of the time that its handlers worked, in thousandths
	Backlog uint64  // of its partitions, in thousandths
	Size    float64 // units of a message of its partitions; 0 if it is not known
}

// A Learner learns what members sustain. A member's capacity is the rate at which it works
// while it is saturated: its handlers are busy, and its backlog grows all the same. Until
// then nothing is known. Its zero value is ready.
type Learner struct {
	members map[uint64]*learnt
}

type learnt struct {
	last     Member
	at       time.Duration
	capacity float64 // units per second; 0: not known
}

const (
	// saturated is the busy share, in thousandths, from which on a member has no time left.
	saturated = 900

	// lesson is the shortest time that a rate is taken from, and steady the one in which a
	// capacity follows 63 % of a change.
	lesson = 4 * time.Second
	steady = 20 * time.Second
)

// See takes what a member reports and returns its capacity, in thousandths of a unit per
// second; zero if it is not known.
func (l *Learner) See(at time.Duration, w *Member) uint64 {
	if l.members == nil {
		l.members = map[uint64]*learnt{}
	}
	x := l.members[w.ID]
	switch {
	case x == nil || w.Handled < x.last.Handled:
		x = &learnt{last: *w, at: at}
		l.members[w.ID] = x
	case at-x.at < lesson:
	default:
		passed := at - x.at
		rate := float64(w.Handled-x.last.Handled) * w.Size / passed.Seconds()
		full := w.Busy >= saturated && x.last.Busy >= saturated && w.Backlog > x.last.Backlog
		switch {
		case rate <= 0:
		case full && x.capacity == 0:
			x.capacity = rate
		case full:
			x.capacity += (rate - x.capacity) * (1 - math.Exp(-float64(passed)/float64(steady)))
		case x.capacity > 0 && rate > x.capacity:
			x.capacity = rate // it was seen to do more
		}
		x.last, x.at = *w, at
	}
	l.forget(at)
	return thousandths(x.capacity)
}

// forget drops members that have not been seen for long.
func (l *Learner) forget(at time.Duration) {
	for id, x := range l.members {
		if at-x.at > 10*Fresh {
			delete(l.members, id)
		}
	}
}
