package bench

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rota-dev/rota/internal/plan"
)

// An Experiment lets algorithms place the same partitions again and again while
// their speeds change.
type Experiment struct {
	Algorithms []Algorithm
	Load       Load
	Partitions int
	Capacity   float64
	Steps      int // placements that are measured; the first, which moves nothing, is not
	Deltas     []int
	Seed       uint64 // the first; the others follow
	Seeds      int
	Cores      int    // 0 is all there are
	Progress   func() // called after each step of a run, by several at once
}

// A Row is what one algorithm came to at one delta: means over all steps and
// seeds, and how far the means of the seeds lie apart.
type Row struct {
	Algorithm  string  `json:"algorithm"`
	Delta      int     `json:"delta"`
	CBS        float64 `json:"cbs"`     // members beyond the fewest of the papers' algorithms in the same step, as a share of these
	CBSAll     float64 `json:"cbs_all"` // the same against the fewest of all that were run
	ER         float64 `json:"er"`
	Moves      float64 `json:"moves"`
	Members    float64 `json:"members"`
	L2Gap      float64 `json:"l2_gap"`  // members beyond the lower bound, as a share of it
	PlanUS     float64 `json:"plan_us"` // median of the steps, mean over seeds
	Price      float64 `json:"price,omitempty"`
	Trough     float64 `json:"members_trough,omitempty"` // members in the trough of the day
	Overloaded float64 `json:"overloaded"`               // share of the steps that leave a member with more than its capacity
	Load       string  `json:"load"`
	Partitions int     `json:"partitions"`
	Steps      int     `json:"steps"`
	Seeds      int     `json:"seeds"`  // that were finished
	CBSSD      float64 `json:"cbs_sd"` // standard deviations between seeds
	ERSD       float64 `json:"er_sd"`
	MovesSD    float64 `json:"moves_sd"`
	MembersSD  float64 `json:"members_sd"`
}

// Run plays every seed at every delta and returns a row for each algorithm at
// each delta, in their order. Rows leave out what was not finished when ctx
// ended; then it returns its error too.
func (e *Experiment) Run(ctx context.Context) ([]Row, error) {
	type job struct{ delta, seed int }
	jobs := make(chan job)
	runs := make([][][]result, len(e.Deltas)) // by delta, seed and algorithm
	for i := range runs {
		runs[i] = make([][]result, e.Seeds)
	}
	cores := e.Cores
	if cores == 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for range cores {
		wg.Go(func() {
			for j := range jobs {
				runs[j.delta][j.seed] = e.play(ctx, e.Deltas[j.delta], e.Seed+uint64(j.seed))
			}
		})
	}
	for seed := range e.Seeds {
		for delta := range e.Deltas {
			select {
			case jobs <- job{delta, seed}:
			case <-ctx.Done():
			}
		}
	}
	close(jobs)
	wg.Wait()
	return e.rows(runs), ctx.Err()
}

// result is what one algorithm came to on one trace.
type result struct {
	cbs, cbsAll, er, moves, members, gap, us, trough, overloaded float64
}

// play lets all algorithms place the partitions of one trace, each from its own
// placement before. It returns nothing if ctx ends.
func (e *Experiment) play(ctx context.Context, delta int, seed uint64) []result {
	speeds, next := e.Load.start(e, delta, rand.New(rand.NewPCG(seed, uint64(delta))))
	runners := make([]*runner, len(e.Algorithms))
	for i, a := range e.Algorithms {
		runners[i] = e.runner(a, delta, seed)
		runners[i].step(e, speeds)
	}
	var g Gauge
	troughs := 0.0
	for range e.Steps {
		trough := next()
		if trough {
			troughs++
		}
		for _, r := range runners {
			r.step(e, speeds)
		}
		e.note(runners, g.L2(speeds, e.Capacity), trough)
		if ctx.Err() != nil {
			return nil
		}
		if e.Progress != nil {
			e.Progress()
		}
	}
	out := make([]result, len(runners))
	for i, r := range runners {
		out[i] = r.mean(float64(e.Steps), max(1, troughs))
	}
	return out
}

// note adds up what the placements of one step came to, beside each other.
func (e *Experiment) note(runners []*runner, bound int, trough bool) {
	fewest, fewestAll := math.MaxInt, math.MaxInt
	for i, r := range runners {
		fewestAll = min(fewestAll, r.Members)
		if e.Algorithms[i].Price == 0 {
			fewest = min(fewest, r.Members)
		}
	}
	if fewest == math.MaxInt {
		fewest = fewestAll
	}
	for _, r := range runners {
		r.sum.cbs += over(r.Members, fewest)
		r.sum.cbsAll += over(r.Members, fewestAll)
		r.sum.gap += over(r.Members, bound)
		r.sum.er += r.R
		r.sum.moves += float64(r.Moves)
		r.sum.members += float64(r.Members)
		if r.Over > 0 {
			r.sum.overloaded++
		}
		if trough {
			r.sum.trough += float64(r.Members)
		}
	}
}

// over is how much more a is than the fewest, as a share of these.
func over(a, fewest int) float64 {
	return float64(a-fewest) / float64(max(1, fewest))
}

// runner is one algorithm at work on one trace.
type runner struct {
	place         Place
	owners, after []int32
	took          []time.Duration
	gauge         Gauge
	sum           result // over the steps
	Step                 // the last one
}

func (e *Experiment) runner(a Algorithm, delta int, seed uint64) *runner {
	h := fnv.New64()
	h.Write([]byte(a.Name)) // each shuffles by itself, whoever runs beside it
	r := &runner{owners: make([]int32, e.Partitions), after: make([]int32, e.Partitions)}
	r.place = a.New(e.Capacity, rand.New(rand.NewPCG(seed^h.Sum64(), uint64(delta))))
	for p := range r.owners {
		r.owners[p] = plan.None
	}
	return r
}

func (r *runner) step(e *Experiment, speeds []float64) {
	began := time.Now()
	r.place(speeds, r.owners, r.after)
	r.took = append(r.took, time.Since(began))
	r.Step = r.gauge.Measure(speeds, r.owners, r.after, e.Capacity, e.Capacity)
	r.owners, r.after = r.after, r.owners
}

// mean turns sums into means.
func (r *runner) mean(steps, troughs float64) result {
	m := r.sum
	for _, v := range []*float64{&m.cbs, &m.cbsAll, &m.er, &m.moves, &m.members, &m.gap, &m.overloaded} {
		*v /= steps
	}
	m.trough /= troughs
	took := r.took[1:] // the first placement is another task
	slices.Sort(took)
	m.us = float64(took[len(took)/2]) / float64(time.Microsecond)
	return m
}

// rows sums up over the seeds that were finished.
func (e *Experiment) rows(runs [][][]result) []Row {
	var rows []Row
	for d, delta := range e.Deltas {
		for a, algorithm := range e.Algorithms {
			var s []result
			for _, r := range runs[d] {
				if r != nil {
					s = append(s, r[a])
				}
			}
			if len(s) == 0 {
				continue
			}
			row := Row{Algorithm: algorithm.Name, Delta: delta, Price: algorithm.Price, Load: e.Load.Name, Partitions: e.Partitions, Steps: e.Steps, Seeds: len(s)}
			row.CBS, row.CBSSD = spread(s, func(r result) float64 { return r.cbs })
			row.CBSAll, _ = spread(s, func(r result) float64 { return r.cbsAll })
			row.ER, row.ERSD = spread(s, func(r result) float64 { return r.er })
			row.Moves, row.MovesSD = spread(s, func(r result) float64 { return r.moves })
			row.Members, row.MembersSD = spread(s, func(r result) float64 { return r.members })
			row.L2Gap, _ = spread(s, func(r result) float64 { return r.gap })
			row.PlanUS, _ = spread(s, func(r result) float64 { return r.us })
			row.Trough, _ = spread(s, func(r result) float64 { return r.trough })
			row.Overloaded, _ = spread(s, func(r result) float64 { return r.overloaded })
			rows = append(rows, row)
		}
	}
	return rows
}

// spread is the mean over seeds and the standard deviation between them.
func spread(s []result, of func(result) float64) (mean, sd float64) {
	for _, r := range s {
		mean += of(r) / float64(len(s))
	}
	for _, r := range s {
		sd += (of(r) - mean) * (of(r) - mean)
	}
	return mean, math.Sqrt(sd / float64(max(1, len(s)-1)))
}
