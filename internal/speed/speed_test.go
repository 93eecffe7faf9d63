package speed

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var q = []string{"q"}

// A counter reads one partition at a rate, every two seconds.
type counter struct {
	t     *testing.T
	g     Gauge
	at    time.Duration
	n     float64
	epoch string
}

func (c *counter) pass(d time.Duration, rate float64) {
	c.t.Helper()
	for end := c.at + d; c.at < end; {
		c.at += 2 * time.Second
		c.n += 2 * rate
		if wrong := c.g.Observe(c.at, q, []Reading{{Partition: "q", Arrived: uint64(c.n), Epoch: c.epoch}}); wrong != nil {
			c.t.Fatal(wrong)
		}
	}
}

func (c *counter) speed() float64 {
	c.t.Helper()
	v, ok := speedOf(&c.g, c.at)
	if !ok {
		c.t.Fatal("no speed is known")
	}
	return v
}

// speedOf is what the gauge knows about q.
func speedOf(g *Gauge, at time.Duration) (perSecond float64, ok bool) {
	l, state := g.Loads(at, q)
	if state != Known {
		return 0, false
	}
	return float64(l[0].Speed) / 1000, true
}

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

// A step is followed by 90 % within 10 s, up and down, also if it comes just after a
// reading, and a steady speed stays.
func TestAStepIsFollowed(t *testing.T) {
	c := counter{t: t}
	c.pass(20*time.Second, 100)
	if s := c.speed(); !near(s, 100, 0.002) {
		t.Errorf("a steady 100 is measured as %v", s)
	}
	c.pass(8*time.Second, 1000) // and up to 2 s until the first of these readings
	if s := c.speed(); s < 0.9*900+100 || s > 1000 {
		t.Errorf("10 s after a step to 1000 the speed is %v", s)
	}
	c.pass(8*time.Second, 0)
	if s := c.speed(); s > 100 || s < 0 {
		t.Errorf("10 s after the end of all arrivals the speed is %v", s)
	}
}

// A new owner's counter begins at 0: the speed neither jumps nor falls.
func TestANewEpochChangesNothing(t *testing.T) {
	c := counter{t: t, epoch: "a"}
	c.pass(20*time.Second, 100)
	for range 10 {
		c.epoch += "+"
		c.n = 0
		c.pass(2*time.Second, 100)
		if s := c.speed(); !near(s, 100, 0.002) {
			t.Fatalf("after a new epoch the speed is %v", s)
		}
	}
}

// Arrivals that nobody counts are the change of the backlog and what was handled. The
// report of what was handled is late: the speed is never negative.
func TestArrivalsThatNobodyCounts(t *testing.T) {
	var g Gauge
	at, backlog, handled := time.Duration(0), 500.0, 0.0
	for i := range 20 {
		at += 2 * time.Second
		backlog, handled = backlog+200-240, handled+240 // 100 a second arrive, 120 are handled
		told := handled
		if i%2 == 1 {
			told -= 240 // a report is late
		}
		if wrong := g.Observe(at, q, []Reading{{Partition: "q", Unknown: true, Backlog: int64(max(backlog, 0) + 1000), Handled: uint64(told)}}); wrong != nil {
			t.Fatal(wrong)
		}
		if v, ok := speedOf(&g, at); ok && v > 1000 {
			t.Fatalf("speed %v", v)
		}
	}
	if v, ok := speedOf(&g, at); !ok || v < 60 || v > 200 {
		t.Errorf("100 a second are measured as %v, %v", v, ok)
	}
}

func TestBadReadingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		asked []string
		bad   []Reading
		want  string
	}{
		{q, []Reading{{Partition: "q", Arrived: 100, Backlog: -1}}, "q: a backlog of -1"},
		{q, []Reading{{Partition: "q", Arrived: 3}}, "q: its arrivals went back from 200 to 3 without a new epoch"},
		{q, []Reading{{Partition: "q", Arrived: 1 << 63}}, "q: 9223372036854775808 arrivals are more than anybody can count"},
		{q, nil, "q was not read"},
		{q, []Reading{{Partition: "q", Arrived: 400}, {Partition: "x"}}, `"x" was read, and nobody asked for it`},
		{q, []Reading{{Partition: "q", Arrived: 400}, {Partition: "q", Arrived: 500}}, "q was read twice at once"},
	} {
		k := counter{t: t}
		k.pass(2*time.Second, 0)
		k.pass(2*time.Second, 100)
		if s := k.speed(); s != 100 {
			t.Fatalf("speed %v", s)
		}
		wrong := k.g.Observe(k.at+2*time.Second, c.asked, c.bad)
		if !slices.Equal(wrong, []string{c.want}) {
			t.Errorf("wrong is %q, want %q", wrong, c.want)
		}
		if v, ok := speedOf(&k.g, k.at+2*time.Second); !ok || !near(v, 100, 0.002) {
			t.Errorf("after %q the speed is %v, %v", c.want, v, ok)
		}
	}
}

// After a refused reading the next is a new beginning: what came between is not counted
// as having come since.
func TestTheNextReadingIsANewBeginning(t *testing.T) {
	c := counter{t: t}
	c.pass(20*time.Second, 100)
	c.g.Observe(c.at+2*time.Second, q, []Reading{{Partition: "q", Arrived: 5}})
	c.g.Observe(c.at+4*time.Second, q, []Reading{{Partition: "q", Arrived: 1_000_000}})
	c.g.Observe(c.at+6*time.Second, q, []Reading{{Partition: "q", Arrived: 1_000_200}})
	c.at += 6 * time.Second
	if s := c.speed(); !near(s, 100, 0.002) {
		t.Errorf("speed %v", s)
	}
}

// Nothing is known before the second reading, and nothing counts for ever.
func TestASpeedGrowsOld(t *testing.T) {
	var g Gauge
	known := func(at time.Duration) bool { _, ok := speedOf(&g, at); return ok }
	g.Observe(0, q, []Reading{{Partition: "q", Arrived: 10}})
	if known(0) {
		t.Error("one reading is no speed")
	}
	g.Observe(time.Second, q, []Reading{{Partition: "q", Arrived: 20}})
	if !known(time.Second) || !known(time.Second+Fresh) || known(time.Second+Fresh+1) {
		t.Error("a speed must count until Fresh, and no longer")
	}
	g.Observe(2*time.Second, []string{"r"}, []Reading{{Partition: "r"}})
	if known(2 * time.Second) {
		t.Error("a partition that is not asked for any more is still known")
	}
}

// Two readings at almost one time are one.
func TestTooSoonCountsWithTheNext(t *testing.T) {
	c := counter{t: t}
	c.pass(20*time.Second, 100)
	c.g.Observe(c.at+time.Millisecond, q, []Reading{{Partition: "q", Arrived: uint64(c.n) + 50}})
	c.pass(2*time.Second, 100)
	if s := c.speed(); !near(s, 100, 0.002) {
		t.Errorf("speed %v", s)
	}
}

// FuzzObserve: whatever a source says, speeds are finite and not negative.
func FuzzObserve(f *testing.F) {
	f.Add(uint64(1), uint64(2), int64(3), uint64(4), int64(5), false)
	f.Fuzz(func(t *testing.T, a, b uint64, backlog int64, handled uint64, pause int64, unknown bool) {
		r := rand.New(rand.NewPCG(a, b))
		var g Gauge
		at := time.Duration(0)
		for range 20 {
			at += time.Duration(uint64(pause) % uint64(time.Minute))
			rd := Reading{Partition: "q", Arrived: a, Backlog: backlog, Handled: handled, Unknown: unknown, Epoch: strings.Repeat("e", r.IntN(3))}
			if r.IntN(2) == 0 {
				rd.Arrived, rd.Handled = b, a
			}
			g.Observe(at, q, []Reading{rd})
			if l, state := g.Loads(at, q); state == Known && (l[0].Speed > most*1000 || l[0].Backlog > most*1000) {
				t.Fatalf("%+v of %+v", l, rd)
			}
		}
	})
}
