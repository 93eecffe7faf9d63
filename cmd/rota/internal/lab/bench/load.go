package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// A Load makes up how the speeds of partitions change, step by step.
type Load struct {
	Name string
	Help string
	// Start returns the first speeds and what turns them into the next ones.
	// Trough says whether the present step is one of the lowest of its day.
	start func(e *Experiment, delta int, rng *rand.Rand) (speeds []float64, next func() (trough bool))
}

// Loads are the kinds of load there are.
var Loads = []Load{
	{"walk", "the papers' own: each speed starts anywhere from 0 to the capacity and changes by up to delta percent of it in each step", walk},
	{"day", "skewed and small: log-normal speeds (sigma 1.2), about 20 partitions per member, all swinging by half over a day of 250 steps; each wanders by up to delta percent of itself in each step", day},
}

// FindLoad finds a kind of load by its name.
func FindLoad(name string) (Load, bool) {
	for _, l := range Loads {
		if l.Name == name {
			return l, true
		}
	}
	return Load{}, false
}

// walk is the experiment of the papers: whole percents of the capacity, clamped
// at none and all of it.
func walk(e *Experiment, delta int, rng *rand.Rand) ([]float64, func() bool) {
	unit := e.Capacity / 100
	at := make([]int, e.Partitions)
	speeds := make([]float64, e.Partitions)
	for i := range at {
		at[i] = rng.IntN(101)
		speeds[i] = float64(at[i]) * unit
	}
	return speeds, func() bool {
		for i := range at {
			at[i] = min(max(at[i]+rng.IntN(2*delta+1)-delta, 0), 100)
			speeds[i] = float64(at[i]) * unit
		}
		return false
	}
}

const (
	daySteps  = 250  // two days in the papers' 500 steps
	daySwing  = 0.5  // how far the day takes a speed up and down
	daySigma  = 1.2  // of the logarithms of the speeds
	dayShare  = 20.  // partitions per member at the mean of the day
	dayTrough = -0.9 // of the sine: below it is the trough, a seventh of the day
)

// day is many small partitions, a few large ones, and a night. None asks for
// more than a whole member.
func day(e *Experiment, delta int, rng *rand.Rand) ([]float64, func() bool) {
	base := make([]float64, e.Partitions)
	wander := make([]float64, e.Partitions)
	mean := math.Exp(daySigma * daySigma / 2)
	for i := range base {
		base[i] = e.Capacity / dayShare * math.Exp(daySigma*rng.NormFloat64()) / mean
		wander[i] = 1
	}
	speeds := make([]float64, e.Partitions)
	step := 0
	set := func() bool {
		hour := math.Sin(2 * math.Pi * float64(step) / daySteps)
		for i := range speeds {
			speeds[i] = min(base[i]*wander[i]*(1+daySwing*hour), e.Capacity)
		}
		return hour < dayTrough
	}
	set()
	return speeds, func() bool {
		step++
		for i := range wander {
			wander[i] += (2*rng.Float64() - 1) * float64(delta) / 100
			wander[i] = min(max(wander[i], 0.5), 1.5)
		}
		return set()
	}
}

func (l Load) String() string { return fmt.Sprintf("%s: %s", l.Name, l.Help) }
