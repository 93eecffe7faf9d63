// Package speed turns the counters of a source into speeds: what arrives at each
// partition, per second. It is a pure function of readings and their times.
package speed

import (
	"fmt"
	"math"
	"time"
)

// A Reading is what a source says of one partition.
type Reading struct {
	Partition string
	Arrived   uint64 // since the counter began
	Bytes     uint64 // of what arrived; it counts if the Gauge counts bytes
	Handled   uint64 // by members, since the group began; it counts if Unknown
	Unknown   bool   // the source does not count arrivals
	Backlog   int64
	Epoch     string // changes when the counter restarts
}

// A Load is what is known about one partition, in thousandths: of units per second, and
// of units.
type Load struct {
	Speed   uint64
	Backlog uint64
}

// State says how much is known.
type State uint8

const (
	NotYet  State = iota // the second reading is still to come
	Known                // at least one speed is known
	Unknown              // nothing has been read for long
)

const (
	// rise is the time in which the speed follows 63 % of a step: 90 % take 7 s, and the
	// step is noticed with the next reading.
	rise = 3 * time.Second

	// Fresh is how long a speed counts without a new reading.
	Fresh = 30 * time.Second

	// least is the shortest time between two readings that a speed is computed of: over
	// less, a burst of a few messages would look like a flood.
	least = 200 * time.Millisecond
)

// A Gauge keeps the speeds of partitions. Its zero value is ready.
type Gauge struct {
	Bytes bool // speeds are of bytes, not of messages

	parts map[string]*part
	began time.Duration // when loads were first asked for
	asked bool
}

type part struct {
	last  Reading
	at    time.Duration // of the last reading
	speed float64
	size  float64 // bytes of a message, if they are counted; otherwise 1
	known bool    // speed was measured
	lied  bool    // the last reading was refused
}

// Observe takes the answer of a source that was asked for the partitions at a time of a
// clock that never goes back. It returns what is wrong with the readings, one sentence
// for each. A reading that is refused changes nothing but this: the next one is a new
// beginning.
func (g *Gauge) Observe(at time.Duration, asked []string, readings []Reading) (wrong []string) {
	wanted := make(map[string]bool, len(asked))
	for _, name := range asked {
		wanted[name] = true
	}
	if g.parts == nil {
		g.parts = map[string]*part{}
	}
	seen := make(map[string]bool, len(readings))
	for i := range readings {
		r := &readings[i]
		switch {
		case !wanted[r.Partition]:
			wrong = append(wrong, fmt.Sprintf("%.80q was read, and nobody asked for it", r.Partition))
			continue
		case seen[r.Partition]:
			wrong = append(wrong, fmt.Sprintf("%s was read twice at once", r.Partition))
			continue
		}
		seen[r.Partition] = true
		if why := g.observe(at, r); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", r.Partition, why))
		}
	}
	for _, name := range asked {
		if !seen[name] {
			wrong = append(wrong, name+" was not read")
		}
	}
	for name := range g.parts {
		if !wanted[name] {
			delete(g.parts, name)
		}
	}
	return wrong
}

func (g *Gauge) observe(at time.Duration, r *Reading) (wrong string) {
	p := g.parts[r.Partition]
	if p == nil {
		p = &part{}
		g.parts[r.Partition] = p
	}
	first := p.last.Partition == "" || p.lied
	if wrong = p.check(r, first, g.Bytes); wrong != "" {
		p.lied = true
		return wrong
	}
	p.lied = false
	// A new counter says nothing about the time before it: the speed stays as it was.
	if first || r.Epoch != p.last.Epoch || r.Unknown != p.last.Unknown {
		p.last, p.at = *r, at
		return ""
	}
	passed := at - p.at
	if passed < least {
		return ""
	}
	share := 1 - math.Exp(-float64(passed)/float64(rise))
	n := max(0, arrived(&p.last, r))
	if !g.Bytes {
		p.size = 1
	} else if bytes := float64(r.Bytes - p.last.Bytes); n > 0 && p.size == 0 {
		p.size = bytes / n
	} else if n > 0 {
		p.size += (bytes/n - p.size) * share
	}
	now := n * p.size / passed.Seconds()
	if p.known {
		now = p.speed + (now-p.speed)*share
	}
	p.speed, p.known = now, true
	p.last, p.at = *r, at
	return ""
}

// check tells what is wrong with a reading.
func (p *part) check(r *Reading, first, bytes bool) string {
	switch {
	case bytes && r.Unknown:
		return "the source counts no arrivals, so it cannot count bytes"
	case bytes && r.Bytes == 0 && r.Arrived > 0:
		return "the source counts no bytes"
	case bytes && r.Bytes > math.MaxInt64:
		return fmt.Sprintf("%d bytes are more than anybody can count", r.Bytes)
	case r.Backlog < 0:
		return fmt.Sprintf("a backlog of %d", r.Backlog)
	case r.Arrived > math.MaxInt64:
		return fmt.Sprintf("%d arrivals are more than anybody can count", r.Arrived)
	case first || r.Epoch != p.last.Epoch:
		return ""
	case r.Unknown && !p.last.Unknown, !r.Unknown && p.last.Unknown:
		return ""
	case !r.Unknown && r.Arrived < p.last.Arrived:
		return fmt.Sprintf("its arrivals went back from %d to %d without a new epoch", p.last.Arrived, r.Arrived)
	case bytes && r.Bytes < p.last.Bytes:
		return fmt.Sprintf("its bytes went back from %d to %d without a new epoch", p.last.Bytes, r.Bytes)
	}
	return ""
}

// arrived is how many messages have arrived between two readings. Where the source does
// not count them, it is by how much the backlog has grown, and what was handled
// meanwhile. What members handled is reported later than what the backlog shows, so the
// sum may be negative for a moment.
func arrived(last, now *Reading) float64 {
	if now.Unknown {
		return float64(now.Backlog-last.Backlog) + float64(int64(now.Handled-min(last.Handled, now.Handled)))
	}
	return float64(now.Arrived - last.Arrived)
}

// Loads returns what is known about partitions at a time, in their order. One that is not
// known counts as an average one.
func (g *Gauge) Loads(at time.Duration, names []string) ([]Load, State) {
	if !g.asked {
		g.asked, g.began = true, at
	}
	out := make([]Load, len(names))
	sum, n := 0.0, 0
	for _, name := range names {
		if p := g.known(at, name); p != nil {
			sum += p.speed
			n++
		}
	}
	switch {
	case n > 0:
	case at-g.began < Fresh:
		return nil, NotYet
	default:
		return nil, Unknown
	}
	average := thousandths(sum / float64(n))
	for i, name := range names {
		out[i].Speed = average
		if p := g.known(at, name); p != nil {
			out[i] = Load{thousandths(p.speed), thousandths(float64(p.last.Backlog) * p.size)}
		}
	}
	return out, Known
}

// Size returns how many units a message of these partitions has on the average, by what
// arrives; 0 if that is not known.
func (g *Gauge) Size(names []string) float64 {
	if !g.Bytes {
		return 1
	}
	units, messages := 0.0, 0.0
	for _, name := range names {
		if p := g.parts[name]; p != nil && p.size > 0 {
			units += p.speed
			messages += p.speed / p.size
		}
	}
	if messages == 0 {
		return 0
	}
	return units / messages
}

// known returns what is known about a partition; nil if nothing is, or nothing since
// Fresh.
func (g *Gauge) known(at time.Duration, name string) *part {
	p := g.parts[name]
	if p == nil || !p.known || at-p.at > Fresh {
		return nil
	}
	return p
}

// thousandths rounds to whole numbers. What is larger than anybody's capacity is cut.
func thousandths(v float64) uint64 { return uint64(min(v, most) * 1000) }

const most = 1e15
