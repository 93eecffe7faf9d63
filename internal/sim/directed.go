package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

// Directed plays every fault at every point of some scenarios: one fault at a
// time, and all of them.
type Directed struct {
	Options
	Bases []*Base
	Kinds []string // only these; none means all
	Cores int      // 0 means all
	Most  int      // stop after so many violations; 0 means 10

	// Progress, if set, is called now and then with the figures so far.
	Progress func(done, violations int, perSecond float64)
}

// Total is how many schedules there are.
func (d *Directed) Total() int { return len(d.shots()) }

// A DirectedReport tells what a directed batch came to.
type DirectedReport struct {
	Schedules  int               `json:"schedules"`
	Total      int               `json:"total"`
	Steps      int64             `json:"steps"`
	Bases      map[string]int    `json:"bases"`
	Faults     map[string]int    `json:"faults"`
	Violations []DirectedFailure `json:"violations"`
	Marks      Marks             `json:"marks"`
	Missing    []string          `json:"missing"` // marks that all scenarios together must reach and did not
	Seconds    float64           `json:"seconds"`
	Cores      int               `json:"cores"`
}

// A DirectedFailure is a script that broke a promise.
type DirectedFailure struct {
	Base      string        `json:"scenario"`
	Fault     string        `json:"fault"`
	Host      string        `json:"member,omitempty"`
	At        time.Duration `json:"at_ns"`
	Invariant string        `json:"invariant"`
	Text      string        `json:"text"`
	Script    Script        `json:"-"`
}

func (f *DirectedFailure) String() string {
	return fmt.Sprintf("%s, %s %s at %v", f.Base, f.Fault, f.Host, f.At)
}

// AllBases makes a base of every scenario whose name begins with one of
// prefixes; without any, of all.
func AllBases(o Options, prefixes ...string) ([]*Base, error) {
	all, err := scenario.All()
	if err != nil {
		return nil, err
	}
	if o.Partitions == 0 {
		o.Partitions = 6
	}
	var out []*Base
	for _, s := range all {
		if s.AsIs != "" || len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s.Name, p) }) {
			continue
		}
		b, err := NewBase(s, o)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// A shot is one script to be played.
type shot struct {
	base   *Base
	strike Strike
}

func (d *Directed) shots() []shot {
	var all []shot
	for _, b := range d.Bases {
		for _, k := range b.Strikes() {
			if len(d.Kinds) == 0 || slices.Contains(d.Kinds, k.Kind) {
				all = append(all, shot{b, k})
			}
		}
	}
	return all
}

// Play plays them all. When ctx ends it stops and reports what has been played.
func (d Directed) Play(ctx context.Context) DirectedReport {
	if d.Cores <= 0 {
		d.Cores = runtime.GOMAXPROCS(0)
	}
	if d.Most == 0 {
		d.Most = 10
	}
	if d.Partitions == 0 {
		d.Partitions = 6
	}
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	all := d.shots()
	began := time.Now()
	r := DirectedReport{Total: len(all), Cores: d.Cores, Bases: map[string]int{}, Faults: map[string]int{}, Violations: []DirectedFailure{}, Missing: []string{}}
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range d.Cores {
		wg.Go(func() {
			for ctx.Err() == nil {
				from := int(next.Add(64)) - 64
				if from >= len(all) {
					return
				}
				part := d.playSome(ctx, all[from:min(from+64, len(all))])
				mu.Lock()
				r.add(&part)
				done, bad := r.Schedules, len(r.Violations)
				if d.Progress != nil {
					d.Progress(done, bad, float64(done)/time.Since(began).Seconds())
				}
				mu.Unlock()
				if bad >= d.Most {
					return
				}
			}
		})
	}
	wg.Wait()
	r.Seconds = time.Since(began).Seconds()
	if len(d.Bases) >= 60 && len(d.Kinds) == 0 && r.Schedules == r.Total {
		r.Missing = append(r.Missing, r.Marks.Missing()...)
	}
	return r
}

func (d *Directed) playSome(ctx context.Context, some []shot) DirectedReport {
	r := DirectedReport{Bases: map[string]int{}, Faults: map[string]int{}}
	for _, x := range some {
		if ctx.Err() != nil {
			break
		}
		s := x.base.With(x.strike)
		p := s.play(d.Options, &r.Marks)
		r.Schedules++
		r.Steps += int64(p.Steps)
		r.Bases[x.base.Name]++
		r.Faults[x.strike.Kind]++
		if v := p.Violation; v != nil {
			r.Violations = append(r.Violations, DirectedFailure{x.base.Name, x.strike.Kind, x.strike.Host, x.strike.At, v.Invariant, v.Text, s})
		}
	}
	return r
}

func (r *DirectedReport) add(o *DirectedReport) {
	r.Schedules += o.Schedules
	r.Steps += o.Steps
	r.Violations = append(r.Violations, o.Violations...)
	r.Marks.add(&o.Marks)
	for k, n := range o.Bases {
		r.Bases[k] += n
	}
	for k, n := range o.Faults {
		r.Faults[k] += n
	}
}

// A Hunt looks for the lack of a rule: with bare scenarios first, then with directed
// faults of all of them and random schedules in turns, until one promise is
// broken.
type Hunt struct {
	Rule  rule.Rule // taken out
	Bases []*Base   // made with it
	Limit int       // of schedules
	// Scripted: directed schedules only. They are scenarios, so that what they
	// find can be shrunk and kept as a file.
	Scripted bool
}

// A Catch is what a hunt came to.
type Catch struct {
	Schedules int              // played, the one that caught it included
	Failure   *Failure         // a random schedule broke a promise
	Directed  *DirectedFailure // or a directed one
}

// Caught: one of them did.
func (c *Catch) Caught() bool { return c.Failure != nil || c.Directed != nil }

// Invariant is what it broke.
func (c *Catch) Invariant() string {
	switch {
	case c.Failure != nil:
		return c.Failure.Invariant
	case c.Directed != nil:
		return c.Directed.Invariant
	}
	return ""
}

// What says which schedule it was.
func (c *Catch) What() string {
	switch {
	case c.Failure != nil:
		return fmt.Sprintf("seed %d: %s", c.Failure.Seed, c.Failure.Text)
	case c.Directed != nil:
		return c.Directed.String() + ": " + c.Directed.Text
	}
	return ""
}

// Play hunts. A schedule counts as a catch only if it breaks no promise with
// the rule in. ok is false if this build cannot take rules out.
func (h Hunt) Play(ctx context.Context) (c Catch, ok bool) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	intact := Options{Members: 4, Partitions: 6}
	d := Directed{Options: intact, Bases: h.Bases}
	undo, ok := rule.Take(h.Rule)
	if !ok {
		return c, false
	}
	defer func() { undo() }()
	intactly := func(f func()) {
		undo()
		f()
		undo, _ = rule.Take(h.Rule)
	}
	all := h.shots(&d)
	w := New(d.Options)
	for seed := uint64(1); c.Schedules < h.Limit && ctx.Err() == nil && (len(all) > 0 || !h.Scripted); seed++ {
		if len(all) > 0 {
			c.Schedules++
			r := d.playSome(ctx, all[:1])
			all = all[1:]
			if len(r.Violations) > 0 {
				x := &r.Violations[0]
				intactly(func() {
					if x.Script.Play(intact).Violation == nil {
						c.Directed = x
					}
				})
			}
		}
		if c.Directed != nil {
			return c, true
		}
		if h.Scripted || c.Schedules >= h.Limit {
			continue
		}
		c.Schedules++
		if r := w.Play(seed); r.Violation != nil {
			intactly(func() {
				if New(intact).Play(seed).Violation == nil {
					c.Failure = &Failure{seed, r.Violation.Invariant, r.Violation.Text}
				}
			})
			if c.Failure != nil {
				return c, true
			}
		}
	}
	return c, true
}

// shots are the directed schedules of a hunt, one of each kind in turns. Points
// that lie together break together, or not at all, so those of a kind come in
// any order. Scenarios that were written for this very rule come last: to
// find it by them is no find.
func (h *Hunt) shots(d *Directed) []shot {
	kinds := map[string][]shot{}
	var own []shot
	for _, s := range d.shots() {
		if slices.Contains(s.base.Catches, h.Rule) {
			own = append(own, s)
		} else {
			kinds[s.strike.Kind] = append(kinds[s.strike.Kind], s)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range DirectedKinds {
		rng.Shuffle(len(kinds[k]), func(i, j int) { kinds[k][i], kinds[k][j] = kinds[k][j], kinds[k][i] })
	}
	var all []shot
	for more := true; more; {
		more = false
		for _, k := range DirectedKinds {
			if l := kinds[k]; len(l) > 0 {
				all, kinds[k], more = append(all, l[0]), l[1:], true
			}
		}
	}
	return append(all, own...)
}
