package core

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// A Shape is the canonical encoding of a node, an event, an action or an entry,
// without the numbers that are only compared: generations, tokens, sequence
// numbers, revisions. Those are kept apart, because Ranks names them by all the
// shapes of a state together.
type Shape struct {
	bytes   []byte
	numbers []number
}

// A number belongs to a domain, the set of numbers it is compared with.
type number struct {
	kind  byte // upper case: only equality matters
	of    uint64
	value uint64
}

// Shape returns everything that can make a difference to the node's decisions, and
// nothing else. Times are relative to now.
func (n *Node) Shape(now Time) *Shape { return shape(now, n.encode) }

// Shape returns the shape of an event, for instance of one in flight.
func (ev *Event) Shape(now Time) *Shape { return shape(now, ev.encode) }

// Shape returns the shape of an action.
func (a *Action) Shape(now Time) *Shape { return shape(now, a.encode) }

// Shape returns the shape of an entry of the store.
func (x *Entry) Shape() *Shape { return shape(0, x.encode) }

// A Grant is a token of a partition.
type Grant struct {
	ID    record.ID
	Token record.Token
}

// SetGrants makes s the shape of these grants.
func (s *Shape) SetGrants(all []Grant) {
	e := encoder{Shape: Shape{s.bytes[:0], s.numbers[:0]}}
	for _, g := range all {
		e.token(g.ID, g.Token)
	}
	*s = e.Shape
}

func shape(now Time, encode func(*encoder)) *Shape {
	e := encoder{now: now, Shape: Shape{make([]byte, 0, 256), make([]number, 0, 48)}}
	encode(&e)
	return &e.Shape
}

// Ranks renames the numbers in shapes that share them, so that states that differ
// in nothing else become equal. Where order matters, the new names keep the order
// and tell which numbers follow directly on each other (a writer takes the next
// one); elsewhere they keep only equality.
type Ranks struct {
	domains []numbers
	at      [256]uint8 // where a domain was found last, by its hash
}

// numbers are the numbers of one domain.
type numbers struct {
	kind byte
	of   uint64
	all  []uint64
	rank []uint64 // of the number at the same place
}

// Append appends the encoding of all the shapes together.
func (r *Ranks) Append(dst []byte, shapes ...*Shape) []byte {
	for i := range r.domains {
		r.domains[i].all = r.domains[i].all[:0]
	}
	for _, s := range shapes {
		for i := range s.numbers {
			x := &s.numbers[i]
			n := r.domain(x)
			if x.value != 0 && (x.kind > 'Z' || !slices.Contains(n.all, x.value)) {
				n.all = append(n.all, x.value)
			}
		}
	}
	for i := range r.domains {
		r.domains[i].rankAll()
	}
	for _, s := range shapes {
		dst = append(dst, s.bytes...)
		for i := range s.numbers {
			dst = binary.AppendUvarint(dst, r.name(&s.numbers[i]))
		}
	}
	return dst
}

// domain finds the numbers that x is compared with.
func (r *Ranks) domain(x *number) *numbers {
	h := uint8(x.of)*31 + x.kind
	if i := int(r.at[h]); i < len(r.domains) && r.domains[i].kind == x.kind && r.domains[i].of == x.of {
		return &r.domains[i]
	}
	i := slices.IndexFunc(r.domains, func(n numbers) bool { return n.kind == x.kind && n.of == x.of })
	if i < 0 {
		i = len(r.domains)
		r.domains = append(r.domains, numbers{kind: x.kind, of: x.of})
	}
	r.at[h] = uint8(i)
	return &r.domains[i]
}

// rankAll ranks the numbers. Neighbours stay neighbours; any wider gap becomes a
// gap of two. Zero stays zero.
func (n *numbers) rankAll() {
	if n.kind <= 'Z' {
		return // they are named in order of appearance
	}
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

func (r *Ranks) name(x *number) uint64 {
	if x.value == 0 {
		return 0
	}
	n := r.domain(x)
	if x.kind <= 'Z' {
		return uint64(slices.Index(n.all, x.value) + 1)
	}
	for i, v := range n.all { // there are few: a plain loop is faster than a search
		if v == x.value {
			return n.rank[i]
		}
	}
	panic("core: a number that was not collected")
}

// An encoder walks over a state and makes its shape.
type encoder struct {
	Shape
	now Time
}

func (e *encoder) num(v uint64) {
	if v < 0x80 {
		e.bytes = append(e.bytes, byte(v))
		return
	}
	e.bytes = binary.AppendUvarint(e.bytes, v)
}

func (e *encoder) flag(v bool) {
	if v {
		e.num(1)
	} else {
		e.num(0)
	}
}

func (e *encoder) str(s string) {
	e.num(uint64(len(s)))
	e.bytes = append(e.bytes, s...)
}

// ranked writes a number whose order matters.
func (e *encoder) ranked(kind byte, of, v uint64) {
	e.numbers = append(e.numbers, number{kind, of, v})
}

// named writes a number of which only equality matters.
func (e *encoder) named(kind byte, of, v uint64) {
	e.numbers = append(e.numbers, number{kind, of, v})
}

// until writes a deadline as the time that remains; all deadlines that have passed
// are equal.
func (e *encoder) until(t Time) {
	if t == Never {
		e.num(0)
		return
	}
	e.num(1 + uint64(max(t-e.now, 0)))
}

// since writes an instant in the past as its age; all ages from most on, the
// longest duration that it is compared with, are equal.
func (e *encoder) since(t Time, most time.Duration) {
	if t == Never {
		e.num(0)
		return
	}
	if t > e.now { // the end of a lease may be in the future
		e.num(1<<62 | uint64(t-e.now))
		return
	}
	e.num(1 + uint64(min(e.now-t, Time(most))))
}

func (e *encoder) gen(v uint64)                   { e.ranked('g', 0, v) }
func (e *encoder) inc(v uint32)                   { e.ranked('i', 0, uint64(v)) }
func (e *encoder) seq(s record.Session, v uint64) { e.ranked('s', uint64(s), v) }
func (e *encoder) rev(k Key, v Rev)               { e.named('A'+byte(k.Cell), uint64(k.Session), uint64(v)) }
func (e *encoder) session(s record.Session)       { e.num(uint64(s)) }

func (e *encoder) token(id record.ID, t record.Token) {
	e.inc(t.Incarnation())
	e.ranked('t', uint64(id), uint64(t.Counter()))
}
