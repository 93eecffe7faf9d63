package rotatest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rota-dev/rota"
)

// search looks for one order of all calls that explains every answer. The checks
// before it give better messages, and without refusals they are complete. With
// refusals they are not: each refusal alone may have an explanation, and all of them
// together none. The search is small: a call that changes nothing is added as soon as
// it fits, and a revision is replaced by one write. It branches only for concurrent
// creations, and for writes of unknown outcome that would end a chain.
type search struct {
	ops      []*op             // by the instant of their call
	replaced map[rota.Rev]bool // by a write that has certainly happened
	tried    map[string]bool
	best     config // with the most calls
}

// A config is a configuration of the search: the calls that are in the order so far,
// and the cell after them.
type config struct {
	come []byte // a bit per call
	n    int
	rev  rota.Rev // zero: the cell does not exist
	lost bool     // at a revision that no client knows: no call can name it
}

// searchLimit is far above the need of a few clients' histories.
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
	todo := []config{{come: make([]byte, (len(s.ops)+7)/8)}}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open := s.addIdle(&p)
		if p.n > s.best.n || s.best.come == nil {
			s.best = p
		}
		if !slices.ContainsFunc(open, func(i int) bool { return s.ops[i].end != unknown }) {
			return nil // the remaining calls have an unknown outcome and need not happen
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
	return fmt.Errorf("no order of all calls is possible: at most %d of %d fit into one, and then it is too late for %v",
		s.best.n, len(s.ops), stuck)
}

func (p *config) key() string {
	key := binary.LittleEndian.AppendUint64(slices.Clone(p.come), uint64(p.rev))
	if p.lost {
		key = append(key, 1)
	}
	return string(key)
}

func (p *config) has(i int) bool { return p.come[i/8]&(1<<(i%8)) != 0 }

func (p *config) add(i int) {
	p.come[i/8] |= 1 << (i % 8)
	p.n++
}

// open are the calls that may come next: those that began before any other remaining
// call returned.
func (s *search) open(p config) (open []int) {
	first := forever // first return of a remaining call
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

// addIdle adds the calls that change nothing and fit here, and returns the calls that
// may come next.
func (s *search) addIdle(p *config) []int {
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

// fits tells whether a call that changed nothing would get its answer at p.
func (o *op) fits(p *config) bool {
	switch {
	case o.end == conflict:
		return p.lost || p.rev != o.prev || o.verb == del && o.prev == 0
	case o.verb == get:
		return !p.lost && p.rev == o.rev // a read that found nothing has revision zero
	}
	return false
}

// changes are the configurations after one more call that changes the cell.
func (s *search) changes(p config, open []int) (next []config) {
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
			continue // another write has replaced it
		}
		q := config{come: slices.Clone(p.come), n: p.n}
		q.add(i)
		switch {
		case o.verb == put:
			q.rev, q.lost = o.rev, o.rev == 0
		case o.end == unknown && deleted:
			continue // a second deletion of unknown outcome would lead to the same
		case o.end == unknown:
			deleted = true
		}
		next = append(next, q)
	}
	return next
}
