package main

import (
	"encoding/gob"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/rota-dev/rota/internal/sim"
)

// A Baseline is what all schedules come to without any mutant, and for some
// mutants in which of them they would make a difference.
type Baseline struct {
	Key     string // of what it was made
	Watch   []int  // mutants that were asked for
	Stories int
	Shots   int
	Random  int
	Seed    uint64
	Most    int              // directed schedules were limited to so many; 0 is all
	Differ  map[int][]uint64 // by mutant: a bit for each schedule
	Marks   [][]int          // by random schedule
	Seconds float64          // of computing
	Wrong   []string         // how schedules failed
	Fails   []int            // and which: they show nothing
}

func (b *Baseline) schedules() int { return b.Stories + b.Shots + b.Random }

// differs tells whether mutant n can make a difference in a schedule, if one that
// means something.
func (b *Baseline) differs(n, schedule int) bool {
	if _, fails := slices.BinarySearch(b.Fails, schedule); fails {
		return false
	}
	d, watched := b.Differ[n]
	return !watched || d[schedule/64]>>(schedule%64)&1 != 0
}

// count is in how many schedules, as far as is known.
func (b *Baseline) count(n int) int {
	d, watched := b.Differ[n]
	if !watched {
		return b.schedules()
	}
	sum := 0
	for _, w := range d {
		sum += bits.OnesCount64(w)
	}
	return sum
}

// limit is how many seconds of computing a mutant may take.
func (b *Baseline) limit() float64 { return 60 + 10*b.Seconds }

// certain is how often a mark must have been reached without a mutant, so that a
// mutant under which it never is has been noticed and not just been unlucky.
const certain = 20

// unreached names the marks that were certain and are not reached.
func (b *Baseline) unreached(with []int) []string {
	var all []int
	for _, m := range b.Marks {
		all = sum(all, m)
	}
	var out []string
	t := reflect.TypeFor[sim.Marks]()
	for i, n := range all {
		if n >= certain && with[i] == 0 {
			out = append(out, t.Field(i).Tag.Get("json"))
		}
	}
	return out
}

// marks are the counts of a world, in the order of their fields.
func marks(w *sim.World) []int {
	v := reflect.ValueOf(w.Marks())
	out := make([]int, v.NumField())
	for i := range out {
		out[i] = int(v.Field(i).Int())
	}
	return out
}

func sum(a, b []int) []int {
	if a == nil {
		a = make([]int, len(b))
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// probe plays everything without a mutant and writes the baseline to a file.
func probe(file string, b Baseline) error {
	debug.SetGCPercent(400)
	if !choose(1) || !choose(0) {
		return fmt.Errorf("this program was built without mutants")
	}
	watch(b.Watch)
	from := computed()
	p, err := newPlayer(b.Most)
	if err != nil {
		return err
	}
	b.Stories, b.Shots = len(p.stories), len(p.shots)
	b.Differ = map[int][]uint64{}
	for _, n := range b.Watch {
		b.Differ[n] = make([]uint64, (b.schedules()+63)/64)
	}
	progress := json.NewEncoder(os.Stdout)
	at := 0
	var always []int // what differs before a schedule has begun
	ended := func(what string) {
		for _, n := range append(differing(), always...) {
			b.Differ[n][at/64] |= 1 << (at % 64)
		}
		if what != "" {
			b.Wrong, b.Fails = append(b.Wrong, what), append(b.Fails, at)
		}
		at++
		if at%1000 == 0 {
			progress.Encode([]int{at, b.schedules()}) // for people: a lost line does no harm
		}
	}
	differing()
	for i := range p.stories {
		ended(p.story(i))
	}
	for i := range p.shots {
		ended(p.shot(i))
	}
	last := []int(nil)
	w := sim.New(options()) // it asks the core for the defaults, once for all
	always = differing()
	for i := range b.Random {
		ended(random(w, b.Seed+uint64(i)))
		m := marks(w)
		last = sum(last, make([]int, len(m)))
		gained := make([]int, len(m))
		for j := range m {
			gained[j] = m[j] - last[j]
		}
		b.Marks, last = append(b.Marks, gained), m
	}
	b.Seconds = float64(computed()-from) / 1e6
	out, err := os.Create(file + ".part")
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(out).Encode(&b); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

func readBaseline(file string) (*Baseline, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b := &Baseline{}
	if err := gob.NewDecoder(in).Decode(b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}
