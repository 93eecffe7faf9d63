package rotatest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rota-dev/rota"
)

// search looks for an order of all calls. The steps before it say better what is
// wrong, and without refusals they miss nothing; but each refusal can have its
// reason and all of them together none. Little has to be tried: what changes
// nothing may come as soon as it fits, and a revision is replaced by one write.
// What is tried nevertheless are creations side by side, and the writes of
// unknown outcome that would end a chain.
type search struct {
	ops      []*op             // by the instant of their call
	replaced map[rota.Rev]bool // by a write that has certainly happened
	tried    map[string]bool
	best     place // where most calls had found their place
}

// A place is somewhere in an order: which calls have come, and what they left.
type place struct {
	come []byte // a bit per call
	n    int
	rev  rota.Rev // zero: there is nothing
	lost bool     // at a revision that nobody has heard of: no call can name it
}

// searchLimit is far above what histories of a few clients need.
const searchLimit = 200_000

func (c *cell) search() error {
	if !slices.ContainsFunc(c.ops, func(o *op) bool { return o.end == conflict }) {
		return nil
	}
	s := &search{replaced: map[rota.Rev]bool{}, tried: map[string]bool{}}
	for _, o := range c.ops {
		if o.verb != get || o.end != unknown {
			s.ops = append(s.ops, o)
		}
		if o.verb != get && o.happened() {
			s.replaced[o.prev] = true
		}
	}
	slices.SortStableFunc(s.ops, func(a, b *op) int { return cmp.Compare(a.call, b.call) })
	return s.run()
}

func (s *search) run() error {
	todo := []place{{come: make([]byte, (len(s.ops)+7)/8)}}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open := s.addIdle(&p)
		if p.n > s.best.n || s.best.come == nil {
			s.best = p
		}
		if !slices.ContainsFunc(open, func(i int) bool { return s.ops[i].end != unknown }) {
			return nil // what is open may never happen
		}
		if key := p.key(); !s.tried[key] {
			s.tried[key] = true
			todo = append(todo, s.changes(p, open)...)
		}
		if len(s.tried) > searchLimit {
			return fmt.Errorf("%d calls cannot be judged: too many orders are possible", len(s.ops))
		}
	}
	open := s.open(s.best)
	stuck := s.ops[slices.MinFunc(open, func(i, j int) int { return cmp.Compare(s.ops[i].ret, s.ops[j].ret) })]
	return fmt.Errorf("no order of all calls is possible: at best %d of %d find their place, and then it is too late for %v",
		s.best.n, len(s.ops), stuck)
}

func (p *place) key() string {
	key := binary.LittleEndian.AppendUint64(slices.Clone(p.come), uint64(p.rev))
	if p.lost {
		key = append(key, 1)
	}
	return string(key)
}

func (p *place) has(i int) bool { return p.come[i/8]&(1<<(i%8)) != 0 }

func (p *place) add(i int) {
	p.come[i/8] |= 1 << (i % 8)
	p.n++
}

// open are the calls that may come next: none that is left had returned before
// they were made.
func (s *search) open(p place) (open []int) {
	first := forever // return of what is left
	for i, o := range s.ops {
		if o.call > first {
			break
		}
		if !p.has(i) {
			open = append(open, i)
			first = min(first, o.ret)
		}
	}
	return slices.DeleteFunc(open, func(i int) bool { return s.ops[i].call > first })
}

// addIdle adds what changes nothing and fits here, and returns what may come next.
func (s *search) addIdle(p *place) []int {
	for {
		open, before := s.open(*p), p.n
		for _, i := range open {
			if s.ops[i].fits(p) {
				p.add(i)
			}
		}
		if p.n == before {
			return open
		}
	}
}

// fits: the answer of a call that has changed nothing is right here.
func (o *op) fits(p *place) bool {
	switch {
	case o.end == conflict:
		return p.lost || p.rev != o.prev || o.verb == del && o.prev == 0
	case o.verb == get:
		return !p.lost && p.rev == o.rev // a read that found nothing has revision zero
	}
	return false
}

// changes are the places that one more call can lead to.
func (s *search) changes(p place, open []int) (next []place) {
	if p.lost {
		return nil
	}
	deleted := false
	for _, i := range open {
		o := s.ops[i]
		if o.verb == get || o.end == conflict || o.prev != p.rev || o.verb == del && o.prev == 0 {
			continue
		}
		if !o.happened() && o.prev != 0 && s.replaced[o.prev] {
			continue // by another
		}
		q := place{come: slices.Clone(p.come), n: p.n}
		q.add(i)
		switch {
		case o.verb == put:
			q.rev, q.lost = o.rev, o.rev == 0
		case o.end == unknown && deleted:
			continue // one is as good as the other
		case o.end == unknown:
			deleted = true
		}
		next = append(next, q)
	}
	return next
}
