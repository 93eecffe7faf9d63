package core

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// Ranks renames numbers that are only compared, so that states which differ in
// nothing else become the same state: generations, tokens and sequence numbers
// keep their order and which of them follow directly on each other (a writer
// takes the next one); revisions, write ids and the like keep only which are
// equal. Collect from everything that shares the numbers, then Settle, then
// append.
type Ranks struct {
	order map[domain][]uint64
	rank  map[domain]map[uint64]uint64
	alike map[domain]map[uint64]uint64
	done  bool
}

// A domain is a set of numbers that are compared with each other.
type domain struct {
	kind byte
	of   uint64
}

// NewRanks returns ranks that have collected nothing.
func NewRanks() *Ranks {
	return &Ranks{order: map[domain][]uint64{}, rank: map[domain]map[uint64]uint64{}, alike: map[domain]map[uint64]uint64{}}
}

// Settle ends the collecting. Neighbours stay neighbours; any wider gap becomes
// a gap of two. Zero stays zero.
func (r *Ranks) Settle() {
	for d, all := range r.order {
		slices.Sort(all)
		ranks := map[uint64]uint64{0: 0}
		last, rank := uint64(0), uint64(0)
		for _, v := range all {
			if v != last {
				rank += min(v-last, 2)
				last = v
				ranks[v] = rank
			}
		}
		r.rank[d] = ranks
	}
	r.done = true
}

// An encoder walks over a state twice: once to collect numbers, once to write.
type encoder struct {
	dst []byte
	now Time
	r   *Ranks
}

func (e *encoder) num(v uint64) {
	if e.r.done {
		e.dst = binary.AppendUvarint(e.dst, v)
	}
}

func (e *encoder) flag(v bool) {
	if v {
		e.num(1)
	} else {
		e.num(0)
	}
}

func (e *encoder) str(s string) {
	if e.r.done {
		e.num(uint64(len(s)))
		e.dst = append(e.dst, s...)
	}
}

// ranked writes a number whose order matters.
func (e *encoder) ranked(kind byte, of, v uint64) {
	d := domain{kind, of}
	if !e.r.done {
		e.r.order[d] = append(e.r.order[d], v)
		return
	}
	e.num(e.r.rank[d][v])
}

// named writes a number of which only equality matters.
func (e *encoder) named(kind byte, of, v uint64) {
	if !e.r.done {
		return
	}
	d := domain{kind, of}
	m := e.r.alike[d]
	if m == nil {
		m = map[uint64]uint64{0: 0}
		e.r.alike[d] = m
	}
	if _, ok := m[v]; !ok {
		m[v] = uint64(len(m))
	}
	e.num(m[v])
}

// until writes a deadline: how far off it is, nothing more once it has passed.
func (e *encoder) until(t Time) {
	if t == Never {
		e.num(0)
		return
	}
	e.num(1 + uint64(max(t-e.now, 0)))
}

// since writes an instant in the past: its age, nothing more once it is older
// than whatever it is compared with.
func (e *encoder) since(t Time, most time.Duration) {
	if t == Never {
		e.num(0)
		return
	}
	if t > e.now { // the end of a lease, for one, may be ahead
		e.num(1<<62 | uint64(t-e.now))
		return
	}
	e.num(1 + uint64(min(e.now-t, Time(most))))
}

func (e *encoder) gen(v uint64)                   { e.ranked('g', 0, v) }
func (e *encoder) inc(v uint32)                   { e.ranked('i', 0, uint64(v)) }
func (e *encoder) seq(s record.Session, v uint64) { e.ranked('s', uint64(s), v) }
func (e *encoder) rev(k Key, v Rev)               { e.named('r'+byte(k.Cell), uint64(k.Session), uint64(v)) }
func (e *encoder) session(s record.Session)       { e.num(uint64(s)) }

func (e *encoder) token(id record.ID, t record.Token) {
	e.inc(t.Incarnation())
	e.ranked('t', uint64(id), uint64(t.Counter()))
}
