package sim

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/rota-dev/rota/internal/check"
)

// A Batch is a number of schedules to be played.
type Batch struct {
	Options
	Schedules int
	Seed      uint64 // of the first; the others follow
	Cores     int    // 0 means all
	Most      int    // stop after so many violations; 0 means 10

	// Progress, if set, is called now and then with the figures so far.
	Progress func(Report)
}

// A Report tells what a batch came to.
type Report struct {
	Schedules       int            `json:"schedules"`
	Steps           int64          `json:"steps"`
	StepsPerS       float64        `json:"steps_per_s"`
	SchedulesPerS   float64        `json:"schedules_per_s"`
	SchedulesPerCPU float64        `json:"schedules_per_s_and_core"`
	Cores           int            `json:"cores"`
	MinSteps        int            `json:"min_steps"`
	MinLiveFaults   int            `json:"min_live_faults"`
	Faults          map[string]int `json:"faults"`
	Violations      []Failure      `json:"violations"`
	Marks           Marks          `json:"marks"`
	Missing         []string       `json:"missing"` // marks that a batch like this must reach and did not
	Seed            uint64         `json:"seed"`
	Members         int            `json:"members"`
	Partitions      int            `json:"partitions"`
	Seconds         float64        `json:"seconds"`
}

// A Failure is a schedule that broke a promise.
type Failure struct {
	Seed      uint64 `json:"seed"`
	Invariant string `json:"invariant"`
	Text      string `json:"text"`
}

// Telling says whether the batch is so large and so free that it must have met
// every situation there are marks for. One that has not proves too little.
func (b *Batch) Telling() bool {
	return b.Schedules >= 20_000 && len(b.Only) == 0 && b.Members >= 4 && b.Partitions >= 4
}

// Play plays the batch on all cores. When ctx ends it stops and reports what has
// been played.
func (b Batch) Play(ctx context.Context) Report {
	if b.Cores <= 0 {
		b.Cores = runtime.GOMAXPROCS(0)
	}
	if b.Most == 0 {
		b.Most = 10
	}
	// A world throws much away and keeps little: collect seldom.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	p := &playing{b: b, began: time.Now()}
	p.total = Report{Cores: b.Cores, Seed: b.Seed, Members: b.Members, Partitions: b.Partitions,
		MinSteps: -1, MinLiveFaults: -1, Faults: map[string]int{}, Violations: []Failure{}, Missing: []string{}}
	var wg sync.WaitGroup
	for range b.Cores {
		wg.Go(func() { p.work(ctx) })
	}
	wg.Wait()
	r := p.report()
	if b.Telling() && r.Schedules == b.Schedules {
		r.Missing = append(r.Missing, r.Marks.Missing()...)
	}
	return r
}

// playing is a batch being played: the parts that its goroutines share.
type playing struct {
	b     Batch
	began time.Time
	mu    sync.Mutex
	next  int
	total Report
	shown time.Time
}

// chunk is how many schedules a goroutine takes at a time.
const chunk = 256

// take hands out the next seeds.
func (p *playing) take() (from uint64, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(chunk, p.b.Schedules-p.next)
	if len(p.total.Violations) >= p.b.Most {
		n = 0
	}
	from = p.b.Seed + uint64(p.next)
	p.next += max(n, 0)
	return from, n
}

func (p *playing) work(ctx context.Context) {
	w := New(p.b.Options)
	for {
		from, n := p.take()
		if n <= 0 || ctx.Err() != nil {
			return
		}
		*w.marks = Marks{}
		clear(w.stats.Faults[:])
		part := Report{MinSteps: -1, MinLiveFaults: -1}
		for i := range uint64(n) {
			if ctx.Err() != nil {
				break
			}
			part.count(w.Play(from + i))
		}
		p.add(part, w)
	}
}

func (r *Report) count(res Result) {
	r.Schedules++
	r.Steps += int64(res.Steps)
	if res.Violation != nil {
		r.Violations = append(r.Violations, Failure{res.Seed, res.Violation.Invariant, res.Violation.Text})
		return // cut short, so it says nothing about lengths
	}
	r.MinSteps = atLeast(r.MinSteps, res.Steps)
	r.MinLiveFaults = atLeast(r.MinLiveFaults, res.Faults)
}

func atLeast(have, v int) int {
	if have < 0 || v >= 0 && v < have {
		return v
	}
	return have
}

func (p *playing) add(part Report, w *World) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &p.total
	t.Schedules += part.Schedules
	t.Steps += part.Steps
	t.MinSteps = atLeast(t.MinSteps, part.MinSteps)
	t.MinLiveFaults = atLeast(t.MinLiveFaults, part.MinLiveFaults)
	t.Violations = append(t.Violations, part.Violations...)
	t.Marks.add(w.marks)
	for name, n := range w.Faults() {
		t.Faults[name] += n
	}
	if now := time.Now(); p.b.Progress != nil && now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		p.b.Progress(p.report())
	}
}

func (p *playing) report() Report {
	r := p.total
	r.Faults = maps.Clone(r.Faults)
	r.Violations = slices.Clone(r.Violations)
	r.Seconds = time.Since(p.began).Seconds()
	r.StepsPerS = float64(r.Steps) / r.Seconds
	r.SchedulesPerS = float64(r.Schedules) / r.Seconds
	r.SchedulesPerCPU = r.SchedulesPerS / float64(r.Cores)
	return r
}

// Play plays one schedule; a core that panics has broken a promise too.
func (w *World) Play(seed uint64) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			res = Result{Seed: seed, Violation: &check.Violation{Invariant: "bug", At: w.now, Text: fmt.Sprintf("%v\n%s", p, debug.Stack())}}
		}
	}()
	return w.Run(seed)
}

// Replay plays one schedule again and calls say for every line of its
// transcript.
func Replay(o Options, seed uint64, say func(line string)) Result {
	w := New(o)
	w.log = func(t int64, line string) { say(at(t) + "  " + line) }
	return w.Play(seed)
}
