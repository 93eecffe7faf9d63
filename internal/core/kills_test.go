package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// kill lets a member die without a word.
func (f *fleet) kill(s record.Session) { delete(f.others, s) }

// restart lets a member of the same name as another come.
func (f *fleet) restart(s, like record.Session) {
	f.others[s] = member(s, fmt.Sprintf("c%d", uint64(like)), 1)
	f.put(f.others[s])
}

// TestKills lets members die, and compares what their leader makes of that with testdata/kills.txt,
// which people have read.
func TestKills(t *testing.T) {
	poison := func(ids ...record.ID) func(*fleet) { // the owner of one of these dies soon, unless it is the leader
		return func(f *fleet) {
			next := record.Session(20)
			for range 40 {
				f.pass(4 * time.Second)
				for _, id := range ids {
					who := f.n.Plan().Rows[id].Owner
					if _, ok := f.others[who]; ok {
						f.kill(who)
						f.come(next)
						next++
					}
				}
			}
		}
	}
	var got strings.Builder
	for _, c := range []struct {
		name   string
		n      int
		rows   int
		orders *record.Orders
		tune   func(*core.Config)
		play   func(f *fleet)
	}{
		{name: "one dies", n: 3, rows: 3, play: func(f *fleet) { f.kill(2); f.pass(90 * time.Second) }},
		{name: "two die with it, and then it runs well", n: 4, rows: 4, play: func(f *fleet) {
			f.kill(2)
			f.pass(10 * time.Second)
			f.kill(f.n.Plan().Rows[1].Owner)
			f.pass(2 * time.Minute)
		}},
		{name: "whoever died is back", n: 3, rows: 3, play: func(f *fleet) {
			f.kill(2)
			f.pass(10 * time.Second)
			f.come(9)
			m := *f.others[9]
			m.Was, m.Seq = 2, 2
			f.others[9] = &m
			f.put(&m)
			f.pass(20 * time.Second)
		}},
		{name: "poison", n: 4, rows: 6, play: poison(1)},
		{name: "poison twice", n: 5, rows: 6, play: poison(1, 4)},
		{name: "poison without a quarantine", n: 4, rows: 6, tune: func(c *core.Config) { c.Quarantine = 0 }, play: poison(1)},
		{name: "poison beside limits", n: 4, rows: 6, play: func(f *fleet) {
			for _, m := range f.others {
				m.Labels = []record.Pair{{Key: "limit", Value: "4"}}
			}
			poison(1)(f)
		}},
		{name: "forgiven", n: 4, rows: 4, orders: &record.Orders{Ver: 1, Release: []record.Release{{Partition: "b", Kills: 3}}}, play: poison(1)},
		{name: "the same member dies again and again", n: 2, rows: 4, play: func(f *fleet) {
			last := record.Session(2)
			for next := record.Session(20); next < 28; next++ {
				f.pass(4 * time.Second)
				f.kill(last)
				f.pass(6 * time.Second)
				f.restart(next, 2)
				last = next
			}
			f.pass(10 * time.Second)
		}},
	} {
		f := newFleet(t, c.n, make([]uint64, c.rows), record.Size{}, c.orders, func(cfg *core.Config) {
			cfg.Strategy, cfg.Scaling.Max, cfg.Quarantine = core.Spread, 0, 3
			if c.tune != nil {
				c.tune(cfg)
			}
		})
		f.accuses = true
		c.play(f)
		f.end(&got, c.name)
	}
	compare(t, got.String(), "testdata/kills.txt")
}
