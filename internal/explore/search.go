package explore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A Result is what the exploration of one configuration came to.
type Result struct {
	Config      string     `json:"config"`
	States      int        `json:"states"`
	Transitions int        `json:"transitions"`
	Depth       int        `json:"depth"` // moves from the beginning to the furthest state
	Exhausted   bool       `json:"exhausted"`
	Seconds     float64    `json:"seconds"`
	Violation   *Violation `json:"violation,omitempty"`
	Trace       []string   `json:"trace,omitempty"` // the moves that lead to it, the shortest there are
}

// Options bound an exploration.
type Options struct {
	Cores    int // 0 means all
	Most     int // states; 0 means no bound
	Progress func(Result)
}

// info is what is kept of each state.
type info struct {
	parent uint32
	fair   uint32 // the state that the fair schedule makes of it
	move   move
	rest   bool
}

// pageSize is how many infos are allocated at once.
const pageSize = 1 << 16

// A search is one exploration under way.
type search struct {
	cfg   *Config
	bins  [64]bin
	pages atomic.Pointer[[]*[pageSize]info]
	grow  sync.Mutex
	count atomic.Uint32
	moved atomic.Int64
	start *world
	found atomic.Pointer[found]
}

type bin struct {
	mu  sync.Mutex
	ids map[key]uint32
}

// found is a broken promise and the way to it.
type found struct {
	v    *Violation
	from uint32
	last move
	rest bool // a promise of L1: the state from is where it never comes to rest
}

// node is a state that is still to be expanded.
type node struct {
	id uint32
	w  *world
}

// Explore tries everything that can happen in a configuration, nearest first.
func Explore(ctx context.Context, cfg *Config, opt Options) Result {
	if opt.Cores <= 0 {
		opt.Cores = runtime.GOMAXPROCS(0)
	}
	begun := time.Now()
	s := &search{cfg: cfg, start: cfg.begin()}
	for i := range s.bins {
		s.bins[i].ids = map[key]uint32{}
	}
	s.pages.Store(&[]*[pageSize]info{})
	res := Result{Config: cfg.Name}
	report := func() {
		res.States, res.Transitions, res.Seconds = int(s.count.Load()), int(s.moved.Load()), time.Since(begun).Seconds()
	}
	var enc encoder
	id, _ := s.add(enc.key(s.start), s.start, 0, move{})
	front := []node{{id, s.start}}
	if s.start.bad != nil {
		s.found.Store(&found{v: s.start.bad})
	}
	for len(front) > 0 && s.found.Load() == nil {
		front = s.level(ctx, front, opt.Cores)
		if len(front) > 0 {
			res.Depth++
		}
		report()
		if opt.Progress != nil {
			opt.Progress(res)
		}
		if ctx.Err() != nil || opt.Most > 0 && res.States > opt.Most {
			break
		}
	}
	res.Exhausted = len(front) == 0 && s.found.Load() == nil && ctx.Err() == nil
	if res.Exhausted {
		s.liveness()
	}
	if f := s.found.Load(); f != nil {
		res.Violation, res.Exhausted = f.v, false
		res.Trace, res.Depth = s.trace(f)
	}
	report()
	return res
}

// level expands every state of a level and returns the next one.
func (s *search) level(ctx context.Context, front []node, cores int) []node {
	var next []node
	var mu sync.Mutex
	var at atomic.Int64
	var wg sync.WaitGroup
	const chunk = 64
	for range min(cores, (len(front)+chunk-1)/chunk) {
		wg.Go(func() {
			var enc encoder
			var moves []move
			var mine []node
			n := 0
			for s.found.Load() == nil && ctx.Err() == nil {
				from := int(at.Add(chunk)) - chunk
				if from >= len(front) {
					break
				}
				for i := from; i < min(from+chunk, len(front)); i++ {
					moves = front[i].w.moves(moves)
					n += len(moves)
					mine = s.expand(&enc, front[i], moves, mine)
					front[i].w = nil // its successors share what they need of it
				}
			}
			s.moved.Add(int64(n))
			mu.Lock()
			next = append(next, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return next
}

func (s *search) expand(enc *encoder, x node, moves []move, next []node) []node {
	best := never
	fair := x.id
	for _, m := range moves {
		w := x.w.do(m)
		if w.bad != nil {
			s.found.CompareAndSwap(nil, &found{v: w.bad, from: x.id, last: m})
			return next
		}
		if w.over() {
			s.info(x.id).rest = true // nothing is asked from here on
			continue
		}
		id, isNew := s.add(enc.key(w), w, x.id, m)
		if m.urge < best {
			best, fair = m.urge, id
		}
		if isNew {
			next = append(next, node{id, w})
		}
	}
	s.info(x.id).fair = fair
	return next
}

// add remembers a state, if it is new.
func (s *search) add(k key, w *world, parent uint32, m move) (id uint32, isNew bool) {
	sh := &s.bins[k[0]%64]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if id, ok := sh.ids[k]; ok {
		return id, false
	}
	id = s.count.Add(1) - 1
	sh.ids[k] = id
	*s.room(id) = info{parent: parent, fair: id, move: m, rest: w.rest()}
	return id, true
}

func (s *search) info(id uint32) *info { return &(*s.pages.Load())[id/pageSize][id%pageSize] }

// room returns where to put the info of a new state.
func (s *search) room(id uint32) *info {
	if pages := *s.pages.Load(); int(id/pageSize) < len(pages) {
		return &pages[id/pageSize][id%pageSize]
	}
	s.grow.Lock()
	pages := slices.Clone(*s.pages.Load())
	for int(id/pageSize) >= len(pages) {
		pages = append(pages, new([pageSize]info))
	}
	s.pages.Store(&pages)
	s.grow.Unlock()
	return s.info(id)
}

// liveness is L1: from every state, once nothing goes wrong any more, all comes
// to rest. Each state has one successor in the fair schedule, so following it
// either reaches a state at rest or goes round in a circle.
func (s *search) liveness() {
	const (
		unknown = iota
		onPath
		good
	)
	n := s.count.Load()
	mark := make([]uint8, n)
	var path []uint32
	for i := range n {
		path = path[:0]
		id := i
		for mark[id] == unknown && !s.info(id).rest {
			mark[id] = onPath
			path = append(path, id)
			id = s.info(id).fair
		}
		if mark[id] == onPath {
			s.found.Store(&found{v: &Violation{"L1", "it never comes to rest, though nothing goes wrong any more"}, from: i, rest: true})
			return
		}
		mark[id] = good
		for _, p := range path {
			mark[p] = good
		}
	}
}

// trace tells the way to a broken promise, and how long it is.
func (s *search) trace(f *found) (lines []string, steps int) {
	var moves []move
	for id := f.from; id != 0; id = s.info(id).parent {
		moves = append(moves, s.info(id).move)
	}
	slices.Reverse(moves)
	if !f.rest {
		moves = append(moves, f.last)
	}
	w := s.start
	for _, m := range moves {
		line := w.tell(m)
		w = w.do(m)
		lines = append(lines, line+w.tellChange())
	}
	if f.rest {
		lines = append(lines, "and from here on:")
		lines = append(lines, w.fairly(30)...)
	}
	return lines, len(moves)
}

// fairly tells how the fair schedule goes on.
func (w *world) fairly(n int) []string {
	var lines []string
	for range n {
		m, ok := w.fair()
		if !ok {
			return lines
		}
		line := w.tell(m)
		w = w.do(m)
		lines = append(lines, line+w.tellChange())
	}
	return lines
}

// fair is what the fair schedule does next.
func (w *world) fair() (best move, ok bool) {
	best.urge = never
	for _, m := range w.moves(nil) {
		if m.urge < best.urge {
			best, ok = m, true
		}
	}
	return best, ok
}

// begin is the state from which a configuration is explored: an empty store, or
// the group at rest.
func (c *Config) begin() *world {
	w := &world{cfg: c, now: core.Time(tick), procs: make([]proc, len(c.Members)), sinks: make([]sink, len(c.Parts))}
	w.high = make([]record.Token, len(c.Parts))
	for i, m := range c.Members {
		if !m.Joins {
			w.join(i)
		}
	}
	if !c.Begin {
		calm := *c // nothing that takes time: that is explored from here on
		calm.Prompt, calm.Split = All, false
		w.cfg = &calm
		w = w.stabilize()
		w.cfg = c
	}
	for i := range w.store.members { // nothing of before can come back
		w.store.members[i].old = core.Entry{}
	}
	if c.Backup {
		w.store.plan.old, w.store.plan.oldShape = w.store.plan.cur, nil
	}
	for f, n := range c.Faults {
		w.budget[f] = n
	}
	if c.Setup != nil {
		w = c.Setup(w)
	}
	w.counts = true
	return w
}

// stabilize follows the fair schedule until everything is at rest.
func (w *world) stabilize() *world {
	for range 10_000 {
		if w.rest() || w.bad != nil {
			return w
		}
		m, _ := w.fair()
		w = w.do(m)
	}
	w.fail("L1", "the group does not come to rest at the beginning")
	return w
}

// ticks follows the fair schedule for n ticks.
func (w *world) ticks(n int) *world {
	for until := w.now.Add(time.Duration(n) * tick); w.now < until && w.bad == nil; {
		m, _ := w.fair()
		w = w.do(m)
	}
	return w
}

// after lets fault f strike who, and everything come to rest.
func (w *world) after(f Fault, who uint8) *world { return w.do(move{opStrike, who, uint8(f), never}) }

// joinFrozen: the second member starts, its first write is lost, and it freezes.
func (w *world) joinFrozen() *world {
	w = w.clone()
	w.join(1)
	for i := len(w.mail) - 1; i >= 0; i-- {
		if m := w.mail[i]; m.who == 1 && m.kind == request {
			w.giveUp(w.unpost(i))
		}
	}
	w.procs[1].state = paused
	return w
}
