package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rota-dev/rota/internal/scenario"
	"github.com/rota-dev/rota/internal/sim"
)

// A Verdict is what became of a mutant.
type Verdict struct {
	N       int                `json:"n"`
	By      string             `json:"by,omitempty"` // scenario, directed, random, test or hang; "" if nobody noticed
	What    string             `json:"what,omitempty"`
	Quick   bool               `json:"quick,omitempty"`   // and not everything was played
	Differs int                `json:"differs"`           // schedules in which it makes any difference
	Played  int                `json:"played"`            // of those, until it was noticed
	Seconds map[string]float64 `json:"seconds,omitempty"` // of computing, by stage
	Failed  string             `json:"failed,omitempty"`  // this program's own mistake
}

// The stages, in their order.
const (
	byScenario = "scenario"
	byDirected = "directed"
	byRandom   = "random"
	byTest     = "test" // the core's own tests, asked of what is not noticed soon
	byHang     = "hang"
)

// oneSchedule is how many seconds of computing one schedule may take before it
// counts as a hang. The longest takes some tens of milliseconds.
const oneSchedule = 5.0

// mostMemory is how much more than at the start a mutant may use.
const mostMemory = 1 << 30

// A player plays mutants, one after the other.
type player struct {
	stories []*scenario.Scenario // by name
	shots   []shot
	kills   []int // by scenario: the best come first
	order   []int // of scenarios

	began  atomic.Uint64 // computing time when the schedule under way began, in µs
	limit  atomic.Uint64 // when the mutant has had enough
	memory uint64
	stage  atomic.Value
	now    atomic.Int64 // the mutant being played
	out    *json.Encoder
}

const idle = ^uint64(0)

// A shot is one directed schedule: a fault at a point of a scenario.
type shot struct {
	base   *sim.Base
	strike *sim.Strike
}

// newPlayer prepares all schedules with the core as it is. most is how many
// directed ones; 0 is all.
func newPlayer(most int) (*player, error) {
	choose(0)
	p := &player{}
	p.limit.Store(idle)
	p.began.Store(idle)
	var err error
	if p.stories, err = scenario.All(); err != nil {
		return nil, err
	}
	bases, err := sim.AllBases(sim.Options{})
	if err != nil {
		return nil, err
	}
	for _, b := range bases {
		strikes := b.Strikes()
		for i := range strikes {
			p.shots = append(p.shots, shot{b, &strikes[i]})
		}
	}
	// In any order, but always the same: points that lie together break together,
	// or not at all.
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(p.shots), func(i, j int) { p.shots[i], p.shots[j] = p.shots[j], p.shots[i] })
	if most > 0 {
		p.shots = slices.Clone(p.shots[:min(most, len(p.shots))])
	}
	p.kills = make([]int, len(p.stories))
	for i := range p.stories {
		p.order = append(p.order, i)
	}
	return p, nil
}

// The schedules: each plays one and says how it was noticed, if it was.

func (p *player) story(i int) (what string) {
	defer func() {
		if x := recover(); x != nil {
			what = fmt.Sprintf("%s: panic: %v", p.stories[i].Name, x)
		}
	}()
	if err := p.stories[i].Run(sim.NewStage(sim.Options{Partitions: 6})); err != nil {
		return firstLines(err.Error())
	}
	return ""
}

func (p *player) shot(i int) string {
	s := &p.shots[i]
	script := s.base.With(*s.strike)
	if bad := script.Play(options()).Violation; bad != nil {
		return firstLines(fmt.Sprintf("%s, %s %s at %v: %s: %s", s.base.Name, s.strike.Kind, s.strike.Host, s.strike.At, bad.Invariant, bad.Text))
	}
	return ""
}

func options() sim.Options { return sim.Options{Members: 4, Partitions: 6} }

func random(w *sim.World, seed uint64) string {
	if bad := w.Play(seed).Violation; bad != nil {
		return firstLines(fmt.Sprintf("seed %d: %s: %s", seed, bad.Invariant, bad.Text))
	}
	return ""
}

func firstLines(s string) string {
	lines := strings.SplitN(s, "\n", 4)
	return strings.Join(lines[:min(3, len(lines))], "\n")
}

// How a mutant is played.
const (
	wholly   = "whole"
	quickly  = "quick"
	checking = "check" // the baseline, not the mutant
)

// play plays one mutant until somebody notices it. Schedules in which it makes no
// difference are left out: they end as they do without it. If quick, it gives up
// early.
func (p *player) play(n int, quick bool, b *Baseline) (v Verdict) {
	v = Verdict{N: n, Quick: quick, Differs: b.count(n), Seconds: map[string]float64{}}
	p.now.Store(int64(n))
	p.limit.Store(computed() + uint64(b.limit()*1e6))
	if !choose(n) {
		v.Failed = "this program was built without mutants"
		return v
	}
	defer func() {
		choose(0)
		p.began.Store(idle)
		p.limit.Store(idle)
	}()
	for _, s := range []struct {
		name string
		play func(int, *Baseline, *Verdict)
	}{{byScenario, p.playStories}, {byDirected, p.playShots}, {byRandom, p.playRandom}} {
		p.stage.Store(s.name)
		from := computed()
		s.play(n, b, &v)
		v.Seconds[s.name] = float64(computed()-from) / 1e6
		if v.What != "" {
			v.By = s.name
			return v
		}
		if quick && v.Played >= fewSchedules {
			return v
		}
	}
	return v
}

// check plays just those schedules in which a mutant is said to make no
// difference. If one of them notices it the probe is wrong.
func (p *player) check(n int, b *Baseline) (v Verdict) {
	v = Verdict{N: n, Differs: b.count(n)}
	p.now.Store(int64(n))
	if !choose(n) {
		v.Failed = "this program was built without mutants"
		return v
	}
	defer func() {
		choose(0)
		p.began.Store(idle)
	}()
	w := sim.New(options())
	for i := range b.schedules() {
		if _, fails := slices.BinarySearch(b.Fails, i); fails || b.differs(n, i) {
			continue
		}
		p.next(&v)
		what := ""
		switch shot, seed := i-b.Stories, i-b.Stories-b.Shots; {
		case shot < 0:
			what = p.story(i)
		case seed < 0:
			what = p.shot(shot)
		default:
			was := marks(w)
			what = random(w, b.Seed+uint64(seed))
			if what == "" && !slices.Equal(sum(was, b.Marks[seed]), marks(w)) {
				what = fmt.Sprintf("seed %d: other marks", b.Seed+uint64(seed))
			}
		}
		if what != "" {
			v.Failed = "it should make no difference, and did: " + what
			return v
		}
	}
	return v
}

// fewSchedules is when a quick try gives up. Most mutants are noticed by then, so
// the others can be looked at while they are still being played.
const fewSchedules = 2000

// next begins one schedule.
func (p *player) next(v *Verdict) {
	v.Played++
	p.began.Store(computed())
}

func (p *player) playStories(n int, b *Baseline, v *Verdict) {
	slices.SortStableFunc(p.order, func(i, j int) int { return cmp.Or(cmp.Compare(p.kills[j], p.kills[i]), cmp.Compare(i, j)) })
	for _, i := range p.order {
		if !b.differs(n, i) {
			continue
		}
		p.next(v)
		if v.What = p.story(i); v.What != "" {
			p.kills[i]++
			return
		}
	}
}

func (p *player) playShots(n int, b *Baseline, v *Verdict) {
	for i := range p.shots {
		if !b.differs(n, len(p.stories)+i) {
			continue
		}
		p.next(v)
		if v.What = p.shot(i); v.What != "" || v.Quick && v.Played >= fewSchedules {
			return
		}
	}
}

func (p *player) playRandom(n int, b *Baseline, v *Verdict) {
	w := sim.New(options())
	var rest []int // marks of the schedules that need not be played
	for i := range b.Random {
		if !b.differs(n, len(p.stories)+len(p.shots)+i) {
			rest = sum(rest, b.Marks[i])
			continue
		}
		p.next(v)
		if v.What = random(w, b.Seed+uint64(i)); v.What != "" {
			return
		}
	}
	if lost := b.unreached(sum(rest, marks(w))); len(lost) > 0 {
		v.What = "not reached any more: " + strings.Join(lost, ", ")
	}
}

// child plays the mutants it is told on its standard input until that ends.
func child(baseline string) error {
	signal.Ignore(os.Interrupt)
	debug.SetGCPercent(400)
	debug.SetMaxStack(64 << 20)
	b, err := readBaseline(baseline)
	if err != nil {
		return err
	}
	p, err := newPlayer(b.Most)
	if err != nil {
		return err
	}
	if len(p.stories) != b.Stories || len(p.shots) != b.Shots {
		return fmt.Errorf("%s is of other schedules", baseline)
	}
	p.out = json.NewEncoder(os.Stdout)
	p.memory = kept()
	type job struct {
		n   int
		how string
	}
	jobs := make(chan job)
	go func() { // also while a mutant is being played: whoever started us may be gone
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			var j job
			if _, err := fmt.Sscan(in.Text(), &j.n, &j.how); err != nil {
				break
			}
			jobs <- j
		}
		os.Exit(0)
	}()
	go p.watch()
	for j := range jobs {
		var v Verdict
		if j.how == checking {
			v = p.check(j.n, b)
		} else {
			v = p.play(j.n, j.how == quickly, b)
		}
		if err := p.out.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the process when a mutant never comes to an end or takes all memory:
// nothing else could stop it.
func (p *player) watch() {
	for range time.Tick(100 * time.Millisecond) {
		now, began := computed(), p.began.Load()
		what := ""
		switch {
		case began != idle && now > began && now-began > uint64(oneSchedule*1e6):
			what = fmt.Sprintf("one schedule takes more than %v s", oneSchedule)
		case now > p.limit.Load():
			what = "all schedules together take too long"
		case inUse() > p.memory+mostMemory && kept() > p.memory+mostMemory:
			what = "it takes all memory"
		default:
			continue
		}
		stage, _ := p.stage.Load().(string)
		err := p.out.Encode(Verdict{N: int(p.now.Load()), By: byHang, What: stage + ": " + what})
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// computed is how long this process has computed, in µs. A busy machine does not
// make it longer.
func computed() uint64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(time.Duration(u.Utime.Nano()+u.Stime.Nano()) / time.Microsecond)
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// kept is what is left of it after a collection: of what the schedules take, most is garbage.
func kept() uint64 {
	runtime.GC()
	return inUse()
}
