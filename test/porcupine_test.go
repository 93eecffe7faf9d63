package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/rotatest"
)

// A cell as porcupine is told about it. At revision zero it is at one that nobody
// has heard of, and so nobody can name.
type cell struct {
	there bool
	rev   rota.Rev
	value string
}

var cellModel = porcupine.Model{
	Init: func() any { return cell{} },
	Step: func(state, input, _ any) (bool, any) { return step(state.(cell), input.(rotatest.Call)) },
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range all {
			key := o.Input.(rotatest.Call).Key
			byKey[key] = append(byKey[key], o)
		}
		return slices.Collect(maps.Values(byKey))
	},
}

// step tells whether a cell can have answered a call like that, and what the cell
// is after it. A call of unknown outcome happens if it can: it never returns, so
// one that did not happen is one that came after all others.
func step(at cell, c rotatest.Call) (bool, cell) {
	known := c.Err == nil || errors.Is(c.Err, rota.ErrConflict) || errors.Is(c.Err, rota.ErrNotFound)
	if c.Verb == "get" {
		switch {
		case !known:
			return true, at
		case c.Err != nil:
			return !at.there, at
		}
		return at.there && c.Rev != 0 && at.rev == c.Rev && at.value == c.Value, at
	}
	meant := at.there && c.Prev != 0 && at.rev == c.Prev || c.Verb == "put" && c.Prev == 0 && !at.there
	after := cell{}
	if c.Verb == "put" {
		after = cell{true, c.Rev, c.Value}
	}
	switch {
	case !known && meant:
		return true, after
	case !known:
		return true, at
	case c.Err != nil:
		return !meant, at
	}
	return meant && (c.Verb != "put" || c.Rev != 0), after
}

// possible is porcupine's verdict.
func possible(t testing.TB, calls []rotatest.Call) bool {
	t.Helper()
	type name struct{ key, text string }
	read := map[name]rota.Rev{} // values are written once: whoever reads one tells at which revision it is
	for _, c := range calls {
		if c.Verb == "get" && c.Err == nil {
			read[name{c.Key, c.Value}] = c.Rev
		}
	}
	type version struct {
		key string
		rev rota.Rev
	}
	given := map[version]bool{}
	var ops []porcupine.Operation
	for _, c := range calls {
		if unknown(c) && c.Verb == "get" {
			continue // it permits everything, and a server that starts slowly leaves hundreds of them to try
		}
		o := porcupine.Operation{Input: c, Call: c.Called, Return: c.Returned}
		if unknown(c) {
			o.Return = math.MaxInt64
			c.Rev = read[name{c.Key, c.Value}]
			o.Input = c
		}
		if c.Verb == "put" && !errors.Is(c.Err, rota.ErrConflict) && c.Rev != 0 {
			if given[version{c.Key, c.Rev}] {
				return false // twice, and no order of calls makes up for that
			}
			given[version{c.Key, c.Rev}] = true
		}
		ops = append(ops, o)
	}
	verdict := porcupine.CheckOperationsTimeout(cellModel, ops, time.Minute)
	if verdict == porcupine.Unknown {
		t.Fatalf("porcupine has come to no verdict on %d calls", len(calls))
	}
	return verdict == porcupine.Ok
}

func unknown(c rotatest.Call) bool {
	return c.Err != nil && !errors.Is(c.Err, rota.ErrConflict) && !errors.Is(c.Err, rota.ErrNotFound)
}

// agree has a history judged by both. If they disagree it fails with the smallest
// part of it that they still disagree on.
func agree(t testing.TB, calls []rotatest.Call) (good bool) {
	t.Helper()
	disagree := func(calls []rotatest.Call) bool { return (rotatest.Judge(calls) == nil) != possible(t, calls) }
	if !disagree(calls) {
		return rotatest.Judge(calls) == nil
	}
	for i := 0; i < len(calls); {
		if less := slices.Delete(slices.Clone(calls), i, i+1); disagree(less) {
			calls, i = less, 0
		} else {
			i++
		}
	}
	t.Fatalf("rotatest says: %v; porcupine says that it is possible: %v\n%s", rotatest.Judge(calls), possible(t, calls), notation(calls))
	return false
}

// notation writes a history as rotatest.TestHistories reads it.
func notation(calls []rotatest.Call) string {
	var lines []string
	for _, c := range slices.SortedFunc(slices.Values(calls), func(a, b rotatest.Call) int { return cmp.Compare(a.Called, b.Called) }) {
		line := fmt.Sprintf("%d-%d %s", c.Called, c.Returned, c.Verb)
		if unknown(c) {
			line = fmt.Sprintf("%d- %s", c.Called, c.Verb)
		}
		end := map[bool]string{errors.Is(c.Err, rota.ErrConflict): "!", unknown(c): "?"}[true]
		switch {
		case c.Verb == "put" && end == "":
			line += fmt.Sprintf(" %s %d>%d", c.Value, c.Prev, c.Rev)
		case c.Verb == "put":
			line += fmt.Sprintf(" %s %d>%s", c.Value, c.Prev, end)
		case c.Verb == "delete":
			line += fmt.Sprintf(" %d%s", c.Prev, end)
		case c.Err == nil:
			line += fmt.Sprintf(" %s@%d", c.Value, c.Rev)
		default:
			line += " -" + end
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// TestPorcupineConfirmsTheChecker has porcupine judge what rotatest's checker of
// histories judges: the verdicts must agree on every one, whatever it is.
func TestPorcupineConfirmsTheChecker(t *testing.T) {
	tell := func(t *testing.T, good, bad, least int) {
		t.Logf("%d good and %d bad histories", good, bad)
		if good < least || bad < least {
			t.Errorf("%d good and %d bad ones: too few of a kind to mean anything", good, bad)
		}
	}
	t.Run("calls that overlap at random", func(t *testing.T) {
		count := map[bool]int{}
		for seed := range uint64(25_000) {
			r := rand.New(rand.NewPCG(seed, 1))
			calls := overlapping(r, 2+r.IntN(9))
			for range r.IntN(3) {
				lies[r.IntN(len(lies))].tell(r, calls)
			}
			count[agree(t, calls)]++
		}
		tell(t, count[true], count[false], 5000)
	})
	t.Run("a faulty store", func(t *testing.T) {
		count := map[bool]int{}
		for seed := range uint64(300) {
			count[agree(t, faultyHistory(t, seed, false))]++
		}
		if count[false] > 0 {
			t.Errorf("%d histories of a good store are bad", count[false])
		}
		for seed := range uint64(400) {
			count[agree(t, faultyHistory(t, seed, true))]++
		}
		tell(t, count[true], count[false], 100)
	})
	t.Run("a history in which one thing is a lie", func(t *testing.T) {
		noticed := map[string]int{}
		for seed := range uint64(200) {
			truth := faultyHistory(t, seed, false)
			for i, lie := range lies {
				calls := slices.Clone(truth)
				if lie.tell(rand.New(rand.NewPCG(seed, uint64(i))), calls) && !agree(t, calls) {
					noticed[lie.name]++
				}
			}
		}
		for _, lie := range lies {
			t.Logf("%s: %d bad histories", lie.name, noticed[lie.name])
			if noticed[lie.name] < 3 {
				t.Errorf("%s: %d bad histories are too few to mean anything", lie.name, noticed[lie.name])
			}
		}
	})
}

// TestPorcupineConfirmsTheCheckerOnRealStores does the same with what clients of
// a real store have heard, and with that and one lie.
func TestPorcupineConfirmsTheCheckerOnRealStores(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "data")
		confirmReal(t, func() rota.Store { return embedded.Store("embed:" + dir) }, func() {})
	})
	t.Run("a server that is killed", func(t *testing.T) {
		t.Parallel()
		s := rotatest.StartNATS(t)
		confirmReal(t, func() rota.Store { return rotanats.Store(s.URL()) }, func() {
			if err := errors.Join(s.Kill(), s.Start(t.Context())); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestNATSHistories has porcupine judge what clients of NATS hear while the server is
// killed and frozen.
func TestNATSHistories(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	checkReal(t, histories(20), func() rota.Store { return rotanats.Store(s.URL() + "?sync=always") }, []*rotatest.RealServer{s})
}

// histories is how many of 20 histories of a store a test makes. ROTA_HISTORIES, which is
// 200 in make matrix, is for all tests of a store together.
func histories(of20 int) int {
	text := os.Getenv("ROTA_HISTORIES")
	if text == "" {
		return of20
	}
	all, err := strconv.Atoi(text)
	if err != nil {
		panic("ROTA_HISTORIES: want a number: " + text)
	}
	return max(of20*all/20, 1)
}

func confirmReal(t *testing.T, open func() rota.Store, trouble func()) {
	const clients, calls = 5, 40
	var h rotatest.History
	var wg, half sync.WaitGroup
	half.Add(clients)
	over := make(chan struct{})
	for i := range clients {
		s := open()
		t.Cleanup(func() { s.Close() })
		f := rotatest.Faulty(s, uint64(i))
		f.Chance(rotatest.LostRequest, 0.02)
		f.Chance(rotatest.LostAnswer, 0.05)
		c := &caller{Store: h.Wrap(f), r: rand.New(rand.NewPCG(uint64(i), 2)), name: fmt.Sprint("c", i), keys: []string{"x", "y"}, patience: time.Second}
		wg.Go(func() {
			c.calls(calls / 2)
			half.Done()
			for n := 0; n < 4*calls; n++ { // each must be in the midst of it, and nobody for ever
				select {
				case <-over:
					c.calls(calls / 2)
					return
				default:
					c.call()
				}
			}
		})
	}
	half.Wait()
	trouble()
	close(over)
	wg.Wait()
	truth := h.Calls()
	if !agree(t, truth) {
		t.Errorf("the store has answered what no store may: %v", h.Check())
	}
	good, bad := 1, 0
	for seed := range uint64(10) {
		for i, lie := range lies {
			calls := slices.Clone(truth)
			if !lie.tell(rand.New(rand.NewPCG(seed, uint64(i))), calls) {
				continue
			}
			if agree(t, calls) {
				good++
			} else {
				bad++
			}
		}
	}
	n, unknowns := h.Counts()
	t.Logf("%d calls, %d of unknown outcome; %d good and %d bad histories", n, unknowns, good, bad)
	if unknowns == 0 || bad < 50 {
		t.Error("too few to mean anything")
	}
}

// A caller reads and writes as it likes, with the revisions it has heard of.
type caller struct {
	rota.Store
	r        *rand.Rand
	name     string
	keys     []string
	patience time.Duration
	made     int
	heard    map[string][]rota.Rev
}

func (c *caller) calls(n int) {
	for range n {
		c.call()
	}
}

func (c *caller) call() {
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	c.made++
	if c.heard == nil {
		c.heard = map[string][]rota.Rev{}
	}
	key := c.keys[c.r.IntN(len(c.keys))]
	heard := append([]rota.Rev{0}, c.heard[key]...)
	prev := heard[len(heard)-1]
	if c.r.IntN(6) == 0 {
		prev = heard[c.r.IntN(len(heard))]
	}
	switch k := c.r.IntN(10); {
	case k < 4:
		e, err := c.Get(ctx, key)
		if err == nil || errors.Is(err, rota.ErrNotFound) {
			c.heard[key] = append(c.heard[key], e.Rev)
		}
	case k < 6:
		if err := c.Delete(ctx, key, prev); err == nil {
			c.heard[key] = append(c.heard[key], 0)
		}
	default:
		if rev, err := c.Put(ctx, key, fmt.Append(nil, c.name, "-", c.made), prev); err == nil {
			c.heard[key] = append(c.heard[key], rev)
		}
	}
}

// faultyHistory is what a few clients hear from a store in memory while requests
// and answers get lost and writes arrive when nobody waits any more. A store that
// lies reads what is old now and then, and does things twice.
func faultyHistory(t *testing.T, seed uint64, liar bool) (calls []rotatest.Call) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 3))
		var h rotatest.History
		mem := rotatest.NewMemStore()
		var wires []*rotatest.FaultyStore
		var wg sync.WaitGroup
		for i := range 2 + r.IntN(3) {
			f := rotatest.Faulty(mem.Open(), seed<<8+uint64(i))
			f.Delay(10 * time.Millisecond)
			f.Chance(rotatest.LostRequest, 0.05)
			f.Chance(rotatest.LostAnswer, 0.1)
			f.Chance(rotatest.LateWrite, 0.5)
			if liar {
				f.Chance(rotatest.StaleRead, 0.2)
				f.Chance(rotatest.Repeated, 0.05)
			}
			wires = append(wires, f)
			c := &caller{Store: h.Wrap(f), r: rand.New(rand.NewPCG(seed, uint64(i))), name: fmt.Sprint("c", i), keys: []string{"k"}, patience: 30 * time.Millisecond}
			wg.Go(func() { c.calls(8) })
		}
		wg.Go(func() {
			for range 2 {
				f := wires[r.IntN(len(wires))]
				time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
				f.Cut()
				time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
				f.Heal()
			}
		})
		wg.Wait()
		last := &caller{Store: h.Wrap(mem), r: r, name: "last", keys: []string{"k"}, patience: time.Second}
		last.calls(3)
		calls = h.Calls()
	})
	return calls
}

// overlapping is a history of a right cell whose calls take so long that most are
// under way together.
func overlapping(r *rand.Rand, n int) (calls []rotatest.Call) {
	var at cell
	newest := rota.Rev(0)
	heard := []rota.Rev{0}
	for i := range n {
		now := int64(100 * (i + 1))
		c := rotatest.Call{Client: i, Key: "k", Called: now - r.Int64N(300), Returned: now + r.Int64N(300), Prev: at.rev}
		if r.IntN(3) == 0 {
			c.Prev = heard[r.IntN(len(heard))]
		}
		lost := r.IntN(6) == 0
		switch k := r.IntN(10); {
		case k < 3:
			c.Verb, c.Prev = "get", 0
			if c.Rev, c.Value = at.rev, at.value; !at.there {
				c.Err = rota.ErrNotFound
			}
		case k < 5:
			c.Verb = "delete"
			if c.Prev != at.rev || c.Prev == 0 {
				c.Err = rota.ErrConflict
			} else if !lost || r.IntN(2) == 0 {
				at = cell{}
			}
		default:
			c.Verb, c.Value = "put", fmt.Sprint("v", i)
			if c.Prev != at.rev {
				c.Err = rota.ErrConflict
			} else if !lost || r.IntN(2) == 0 {
				newest++
				heard = append(heard, newest)
				c.Rev, at = newest, cell{true, newest, c.Value}
			}
		}
		if lost {
			c.Err, c.Rev = errLost, 0
			if c.Verb == "get" {
				c.Value = ""
			}
		}
		calls = append(calls, c)
	}
	return calls
}

var errLost = errors.New("nobody heard the answer")

// A lie changes one thing in a history, if there is something to change. Most make
// it impossible, and none does so always.
type lie struct {
	name string
	tell func(*rand.Rand, []rotatest.Call) bool
}

// pick is any call that matches, nil if none does.
func pick(r *rand.Rand, calls []rotatest.Call, match func(c *rotatest.Call) bool) *rotatest.Call {
	for _, i := range r.Perm(len(calls)) {
		if match(&calls[i]) {
			return &calls[i]
		}
	}
	return nil
}

// done are calls of a verb that succeeded.
func done(verb string) func(*rotatest.Call) bool {
	return func(c *rotatest.Call) bool { return c.Verb == verb && c.Err == nil }
}

func refused(c *rotatest.Call) bool { return errors.Is(c.Err, rota.ErrConflict) }

// both picks one call and then another of the same cell to go with it.
func both(one, other func(*rotatest.Call) bool, tell func(a, b *rotatest.Call)) func(*rand.Rand, []rotatest.Call) bool {
	return func(r *rand.Rand, calls []rotatest.Call) bool {
		a := pick(r, calls, one)
		if a == nil {
			return false
		}
		b := pick(r, calls, func(c *rotatest.Call) bool { return c != a && c.Key == a.Key && other(c) })
		if b != nil {
			tell(a, b)
		}
		return b != nil
	}
}

func alone(match func(*rotatest.Call) bool, tell func(*rotatest.Call)) func(*rand.Rand, []rotatest.Call) bool {
	return func(r *rand.Rand, calls []rotatest.Call) bool {
		c := pick(r, calls, match)
		if c != nil {
			tell(c)
		}
		return c != nil
	}
}

func anyCall(*rotatest.Call) bool { return true }

var lies = []lie{
	{"a read finds another version", both(done("get"), done("put"), func(g, p *rotatest.Call) { g.Rev, g.Value = p.Rev, p.Value })},
	{"a read finds nothing", alone(done("get"), func(g *rotatest.Call) { g.Rev, g.Value, g.Err = 0, "", rota.ErrNotFound })},
	{"what was deleted is back", both(func(c *rotatest.Call) bool { return c.Verb == "get" && errors.Is(c.Err, rota.ErrNotFound) }, done("put"),
		func(g, p *rotatest.Call) { g.Rev, g.Value, g.Err = p.Rev, p.Value, nil })},
	{"a read finds what nobody wrote", alone(done("get"), func(g *rotatest.Call) { g.Value += "x" })},
	{"a read finds a value at another revision", both(done("get"), done("put"), func(g, p *rotatest.Call) { g.Rev = p.Rev + 1 })},
	{"a read finds what was refused", both(done("get"), func(c *rotatest.Call) bool { return c.Verb == "put" && refused(c) },
		func(g, p *rotatest.Call) { g.Rev, g.Value = 1<<40, p.Value })},
	{"a read finds what may have been written", both(done("get"), func(c *rotatest.Call) bool { return c.Verb == "put" && unknown(*c) },
		func(g, p *rotatest.Call) { g.Rev, g.Value = 1<<40, p.Value })},
	{"two writes over one revision", both(done("put"), func(c *rotatest.Call) bool { return c.Verb != "get" && c.Err == nil }, func(a, b *rotatest.Call) { b.Prev = a.Prev })},
	{"one revision for two writes", both(done("put"), done("put"), func(a, b *rotatest.Call) { b.Rev = a.Rev })},
	{"a write was refused and has happened", alone(done("put"), func(p *rotatest.Call) { p.Rev, p.Err = 0, rota.ErrConflict })},
	{"a deletion was refused and has happened", alone(done("delete"), func(d *rotatest.Call) { d.Err = rota.ErrConflict })},
	{"a refused write was acknowledged", alone(func(c *rotatest.Call) bool { return c.Verb == "put" && refused(c) }, func(p *rotatest.Call) { p.Rev, p.Err = 1<<40, nil })},
	{"a refused deletion was acknowledged", alone(func(c *rotatest.Call) bool { return c.Verb == "delete" && refused(c) }, func(d *rotatest.Call) { d.Err = nil })},
	{"a lost write was acknowledged", alone(func(c *rotatest.Call) bool { return c.Verb == "put" && unknown(*c) },
		func(p *rotatest.Call) { p.Rev, p.Err, p.Returned = 1<<40, nil, p.Called+1 })},
	{"a lost write was refused", alone(func(c *rotatest.Call) bool { return c.Verb == "put" && unknown(*c) },
		func(p *rotatest.Call) { p.Err, p.Returned = rota.ErrConflict, p.Called+1 })},
	{"a refusal of what was the newest", both(refused, done("put"), func(x, p *rotatest.Call) { x.Prev = p.Rev })},
	{"a refusal of nothing", alone(func(c *rotatest.Call) bool { return c.Verb == "put" && refused(c) }, func(p *rotatest.Call) { p.Prev = 0 })},
	{"two calls change places", both(anyCall, anyCall, func(a, b *rotatest.Call) {
		a.Called, b.Called = b.Called, a.Called
		a.Returned, b.Returned = b.Returned, a.Returned
		for _, c := range []*rotatest.Call{a, b} {
			if c.Returned == math.MaxInt64 && !unknown(*c) {
				c.Returned = c.Called + 1
			}
		}
	})},
	{"a call was over sooner", alone(func(c *rotatest.Call) bool { return !unknown(*c) }, func(c *rotatest.Call) { c.Returned = c.Called + 1 })},
	{"a call came later", both(func(c *rotatest.Call) bool { return !unknown(*c) }, anyCall, func(a, b *rotatest.Call) {
		if b.Called > a.Called {
			a.Called, a.Returned = b.Called, max(a.Returned, b.Called+1)
		}
	})},
}
