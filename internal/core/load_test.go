package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// TestLoad lets time pass for groups whose partitions are placed by load, and compares what their
// leaders decide with testdata/load.txt, which people have read. Members sustain 1000, a plan fills
// 800 of them, and a member is overloaded above 900.
func TestLoad(t *testing.T) {
	label := func(s record.Session, capacity string) func(f *fleet) {
		return func(f *fleet) {
			f.others[s].Labels = []record.Pair{{Key: "colour", Value: "1"}, {Key: "capacity", Value: capacity}}
			f.beat()
			f.obey()
			f.weigh(350, 350, 50, 60)
			f.pass(time.Minute)
		}
	}
	seconds := func(n int, loads ...uint64) func(f *fleet) {
		return func(f *fleet) {
			f.pass(5 * time.Second) // and what was placed before the first measurement was looked at
			f.weigh(loads...)
			f.pass(time.Duration(n) * time.Second)
		}
	}
	cools := func(n int) func(f *fleet) { // for seconds, until it would be the handiest again
		return func(f *fleet) {
			f.pass(5 * time.Second)
			f.weigh(700, 300, 250, 200)
			f.pass(5 * time.Second)
			f.weigh(300, 300, 250, 100)
			f.pass(time.Duration(n) * time.Second)
			f.weigh(300, 300, 250, 400)
			f.pass(10 * time.Second)
		}
	}
	even := []uint64{300, 300, 300, 300}
	var got strings.Builder
	for _, c := range []struct {
		name   string
		n      int
		loads  []uint64
		orders *record.Orders
		tune   func(*core.Config)
		play   func(f *fleet)
	}{
		{name: "measures", n: 1, loads: even, play: func(f *fleet) {
			f.observed = true
			f.pass(7 * time.Second)
		}},
		{name: "even", n: 2, loads: even, play: seconds(60, even...)},
		{name: "at the trigger", n: 2, loads: even, play: seconds(20, 600, 300, 300, 300)},
		{name: "above the trigger", n: 2, loads: even, play: seconds(20, 601, 300, 300, 200)},
		{name: "above the trigger, and the interval is over", n: 2, loads: even, play: seconds(40, 500, 200, 380, 200)},
		{name: "all are overloaded", n: 2, loads: even, play: seconds(40, 900, 900, 900, 901)},
		{name: "one that moved cools", n: 2, loads: even, play: cools(49)},
		{name: "one that moved has cooled", n: 2, loads: even, play: cools(55)},
		{name: "nothing cools", n: 2, loads: even, tune: func(c *core.Config) { c.Packing.CoolDown = 0 }, play: cools(9)},
		{name: "a backlog", n: 2, loads: even, play: func(f *fleet) {
			f.pass(5 * time.Second)
			f.weigh(300, 300, 300, 200)
			f.loads[0].Backlog = 301 * 300 * unit
			f.pass(20 * time.Second)
		}},
		{name: "a backlog at the trigger", n: 2, loads: even, play: func(f *fleet) {
			f.pass(5 * time.Second)
			f.weigh(300, 300, 300, 200)
			f.loads[0].Backlog = 300 * 300 * unit
			f.pass(20 * time.Second)
		}},
		{name: "a backlog that does not count", n: 2, loads: even, tune: func(c *core.Config) { c.Packing.CatchUp = 0 }, play: func(f *fleet) {
			f.pass(5 * time.Second)
			f.weigh(300, 300, 300, 200)
			f.loads[0].Backlog = 900 * 300 * unit
			f.pass(20 * time.Second)
		}},
		{name: "nobody can measure", n: 2, loads: even, play: func(f *fleet) {
			f.measured = core.Unknown
			f.pass(time.Minute)
		}},
		{name: "a meter that fails, and a member that comes", n: 2, loads: even, play: func(f *fleet) {
			f.pass(5 * time.Second)
			f.measured = core.Unknown
			f.pass(5 * time.Second)
			f.come(3)
			f.pass(time.Minute)
			f.measured = core.OK
			f.weigh(700, 700, 100, 100)
			f.pass(time.Minute)
		}},
		{name: "a measurement that is not there yet", n: 2, loads: even, play: func(f *fleet) {
			f.pass(5 * time.Second)
			f.measured = core.NotFound
			f.weigh(601, 300, 300, 200)
			f.pass(time.Minute)
			f.measured = core.OK
			f.pass(10 * time.Second)
		}},
		{name: "frozen", n: 2, loads: even, orders: &record.Orders{Ver: 1, Freeze: true}, play: seconds(40, 700, 300, 300, 100)},
		{name: "a large member", n: 2, loads: even, play: label(2, "4000")},
		{name: "a small member", n: 2, loads: even, play: label(2, "400.5")},
		{name: "a capacity of nothing", n: 2, loads: even, play: label(2, "0")},
		{name: "a negative capacity", n: 2, loads: even, play: label(2, "-5")},
		{name: "no number", n: 2, loads: even, play: label(2, "much")},
		{name: "the largest capacity", n: 2, loads: even, play: label(2, "1e12")},
		{name: "more than that", n: 2, loads: even, play: label(2, "1.1e12")},
		{name: "a capacity that was seen", n: 2, loads: even, play: func(f *fleet) {
			f.seen = []core.Capacity{{Session: 9, Units: 5 * unit}, {Session: 2, Units: 2000 * unit}}
			f.pass(5 * time.Second)
			f.weigh(350, 350, 50, 60)
			f.pass(time.Minute)
		}},
		{name: "a capacity that was not seen yet", n: 2, loads: even, play: func(f *fleet) {
			f.seen = []core.Capacity{{Session: 2}}
			f.pass(5 * time.Second)
			f.weigh(350, 350, 50, 60)
			f.pass(time.Minute)
		}},
		{name: "a label counts for more", n: 2, loads: even, play: func(f *fleet) {
			f.seen = []core.Capacity{{Session: 2, Units: 100 * unit}}
			label(2, "2000")(f)
		}},
		{name: "a hot partition stays", n: 2, loads: even, play: seconds(90, 1500, 100, 100, 100)},
	} {
		f := newFleet(t, c.n, c.loads, record.Size{}, c.orders, func(cfg *core.Config) {
			cfg.Scaling.Max = 0
			if c.tune != nil {
				c.tune(cfg)
			}
		})
		c.play(f)
		f.end(&got, c.name)
	}
	compare(t, got.String(), "testdata/load.txt")
}
