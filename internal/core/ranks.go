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
	order []numbers // of which the order matters
	alike []numbers // of which only equality matters
	done  bool
}

// A domain is a set of numbers that are compared with each other.
type domain struct {
	kind byte
	of   uint64
}

// numbers are those of one domain. There are few of either, so looking through
// them is quicker than a map.
type numbers struct {
	domain
	all  []uint64
	rank []uint64 // of the number at the same place, once settled
}

// NewRanks returns ranks that have collected nothing.
func NewRanks() *Ranks { return &Ranks{} }

// Reset forgets everything but the memory.
func (r *Ranks) Reset() {
	for i := range r.order {
		r.order[i].all = r.order[i].all[:0]
	}
	for i := range r.alike {
		r.alike[i].all = r.alike[i].all[:0]
	}
	r.done = false
}

// in finds the numbers of a domain, or makes room for them.
func in(all *[]numbers, d domain) *numbers {
	for i := range *all {
		if (*all)[i].domain == d {
			return &(*all)[i]
		}
	}
	*all = append(*all, numbers{domain: d})
	return &(*all)[len(*all)-1]
}

// Settle ends the collecting. Neighbours stay neighbours; any wider gap becomes
// a gap of two. Zero stays zero.
func (r *Ranks) Settle() {
	for i := range r.order {
		n := &r.order[i]
		slices.Sort(n.all)
		n.all = slices.Compact(n.all)
		n.rank = n.rank[:0]
		last, rank := uint64(0), uint64(0)
		for _, v := range n.all {
			rank += min(v-last, 2)
			last = v
			n.rank = append(n.rank, rank)
		}
	}
	r.done = true
}

// Token adds a token of partition id.
func (r *Ranks) Token(id record.ID, t record.Token) { (&encoder{r: r}).token(id, t) }

// AppendToken appends a token of partition id.
func (r *Ranks) AppendToken(dst []byte, id record.ID, t record.Token) []byte {
	e := &encoder{dst: dst, r: r}
	e.token(id, t)
	return e.dst
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
	if v == 0 {
		e.num(0)
		return
	}
	n := in(&e.r.order, domain{kind, of})
	if !e.r.done {
		n.all = append(n.all, v)
		return
	}
	i, _ := slices.BinarySearch(n.all, v)
	e.num(n.rank[i])
}

// named writes a number of which only equality matters: the how manieth it is.
func (e *encoder) named(kind byte, of, v uint64) {
	if v == 0 || !e.r.done {
		e.num(0)
		return
	}
	n := in(&e.r.alike, domain{kind, of})
	i := slices.Index(n.all, v)
	if i < 0 {
		i = len(n.all)
		n.all = append(n.all, v)
	}
	e.num(uint64(i + 1))
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
