//go:build linux

package processes

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/line"
)

// TestIdleWhileMoving measures for how long a partition is idle while it moves: from the end of its
// last message at one owner to the beginning of the next message at the other, while messages wait.
// A member joins two others and leaves again. Each broker takes its turn in each round, and in the
// median none has a partition idle for more than three times as long as NATS has. A round before that
// does not count: a broker that has just started has yet to compile its own code, and takes two
// to three times as long. What it tells is a matter of the machine, so it runs alone: ROTA_MOVING=3, as
// make bench-brokers sets it, has three rounds.
func TestIdleWhileMoving(t *testing.T) {
	text := os.Getenv("ROTA_MOVING")
	if text == "" {
		t.Skip("ROTA_MOVING is not set: make bench-brokers runs this")
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	idle := map[string][]move{}
	for round := range 1 + rounds {
		for _, p := range chosenPairs(t) {
			if p.store == "embedded" { // what is shown is the broker's
				t.Run(p.broker, func(t *testing.T) {
					all := moveAbout(newCrew(t, p.serve(t), 24))
					t.Logf("round %d: idle for %v (median)", round, quantile(all, move.idle, 0.5).Round(100*time.Microsecond))
					if round > 0 {
						idle[p.broker] = append(idle[p.broker], all...)
					}
				})
			}
		}
	}
	if len(idle["nats"]) == 0 {
		t.Fatal("nothing has moved on NATS, which all others are compared with")
	}
	nats := quantile(idle["nats"], move.idle, 0.5)
	if nats > mostOnNATS {
		t.Fatalf("on NATS a partition that moves was idle for %v: this machine is too busy to compare anything with that", nats)
	}
	for broker, all := range idle {
		at := func(of func(move) time.Duration, q float64) time.Duration {
			return quantile(all, of, q).Round(100 * time.Microsecond)
		}
		ratio := quantile(all, move.idle, 0.5).Seconds() / nats.Seconds()
		t.Logf("%-16s %4d moves, idle for %v (median), %v (nine of ten), %v (at most): %.2f times NATS; medians: %v until it is stopped, %v until it is granted, %v until it is started, %v until the first message", broker, len(all),
			at(move.idle, 0.5), at(move.idle, 0.9), at(move.idle, 1), ratio, at(func(m move) time.Duration { return m.stopped - m.last }, 0.5), at(func(m move) time.Duration { return m.granted - m.stopped }, 0.5),
			at(func(m move) time.Duration { return m.started - m.granted }, 0.5), at(func(m move) time.Duration { return m.first - m.started }, 0.5))
		if ratio > 3 {
			t.Errorf("%s: a partition that moves is idle for %.2f times as long as on NATS", broker, ratio)
		}
	}
}

// mostOnNATS is well above the 5 to 20 ms that NATS was seen to need.
const mostOnNATS = 50 * time.Millisecond

// A move is when what happened to a partition that went from one owner to the next, by the clock of
// the machine.
type move struct{ last, stopped, granted, started, first time.Duration }

func (m move) idle() time.Duration { return m.first - m.last }

func quantile(all []move, of func(move) time.Duration, q float64) time.Duration {
	var list []time.Duration
	for _, m := range all {
		list = append(list, of(m))
	}
	slices.Sort(list)
	return list[min(int(q*float64(len(list))), len(list)-1)]
}

// moveAbout lets a third member come and go, and tells of each partition that moved.
func moveAbout(c *crew) (out []move) {
	c.library = true
	c.stock(600)
	c.join(false, "c1", "c2")
	c.until("twelve each", func() bool { return slices.Equal(c.spread(), []int{12, 12}) })
	c.flows()
	for range 3 {
		c.join(false, "c3")
		c.until("eight each", func() bool { return c.running() == 24 && len(c.newest("c3").owns) == 8 })
		c.flows()
		c.newest("c3").signal(syscall.SIGTERM)
		c.until("twelve each", func() bool { return len(c.newest("c1").owns) == 12 && len(c.newest("c2").owns) == 12 })
		c.flows()
	}
	if err := c.judge(); err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := map[string][]line.Line{}
	for _, m := range c.members {
		for _, e := range m.events {
			if e.Partition != "" {
				of[e.Partition] = append(of[e.Partition], e)
			}
		}
	}
	for _, all := range of {
		slices.SortStableFunc(all, func(a, b line.Line) int { return cmp.Compare(a.Boot, b.Boot) })
		var m move
		token := uint64(0)
		for _, e := range all {
			at := time.Duration(e.Boot)
			switch e.Event {
			case "handled":
				m.last = at
			case "stopped":
				m.stopped = at
			case "grant":
				m.granted = at
			case "start":
				m.started = at
			case "handle":
				if m.first = at; token != 0 && e.Token != token {
					out = append(out, m)
				}
				token = e.Token
			}
		}
	}
	return out
}
