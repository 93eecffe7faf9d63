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
		h := fnv.New64()
		h.Write([]byte(a.Name)) // each shuffles by itself, whoever runs beside it
		r := &runner{owners: make([]int32, e.Partitions), after: make([]int32, e.Partitions)}
		r.place = a.New(e.Capacity, rand.New(rand.NewPCG(seed^h.Sum64(), uint64(delta))))
		for p := range r.owners {
			r.owners[p] = plan.None
		}
		r.step(e, speeds)
		runners[i] = r
	}
	out := make([]result, len(runners))
	var g Gauge
	troughs := 0.0
	for range e.Steps {
		trough := next()
		if trough {
			troughs++
		}
		bound := float64(max(1, g.L2(speeds, e.Capacity)))
		fewest, fewestAll := math.MaxInt, math.MaxInt
		for i, r := range runners {
			r.step(e, speeds)
			fewestAll = min(fewestAll, r.Members)
			if e.Algorithms[i].Price == 0 {
				fewest = min(fewest, r.Members)
			}
		}
		if fewest == math.MaxInt {
			fewest = fewestAll
		}
		for i, r := range runners {
			o, members := &out[i], float64(r.Members)
			o.cbs += over(r.Members, fewest)
			o.cbsAll += over(r.Members, fewestAll)
			o.er += r.R
			o.moves += float64(r.Moves)
			o.members += members
			o.gap += members/bound - 1
			if r.Over > 0 {
				o.overloaded++
			}
			if trough {
				o.trough += members
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if e.Progress != nil {
			e.Progress()
		}
	}
	for i, r := range runners {
		o := &out[i]
		for _, v := range []*float64{&o.cbs, &o.cbsAll, &o.er, &o.moves, &o.members, &o.gap, &o.overloaded} {
			*v /= float64(e.Steps)
		}
		o.trough /= max(1, troughs)
		o.us = r.median()
	}
	return out
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
	Step
}

func (r *runner) step(e *Experiment, speeds []float64) {
	began := time.Now()
	r.place(speeds, r.owners, r.after)
	r.took = append(r.took, time.Since(began))
	r.Step = r.gauge.Measure(speeds, r.owners, r.after, e.Capacity, e.Capacity)
	r.owners, r.after = r.after, r.owners
}

// median is how long a placement takes, in microseconds, the first left out.
func (r *runner) median() float64 {
	took := r.took[1:]
	slices.Sort(took)
	return float64(took[len(took)/2]) / float64(time.Microsecond)
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
