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
// median none has a partition idle for more than three times as long as NATS has. What it tells is a
// matter of the machine, so it runs alone: ROTA_MOVING=3, as make bench-brokers sets it, has three rounds.
func TestIdleWhileMoving(t *testing.T) {
	text := os.Getenv("ROTA_MOVING")
	if text == "" {
		t.Skip("ROTA_MOVING is not set: make bench-brokers runs this")
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	idle := map[string][]time.Duration{}
	for range rounds {
		for _, p := range chosenPairs(t) {
			if p.store == "embedded" { // what is shown is the broker's
				t.Run(p.broker, func(t *testing.T) { idle[p.broker] = append(idle[p.broker], moveAbout(newCrew(t, p.serve(t), 24))...) })
			}
		}
	}
	middle := func(broker string) time.Duration { return idle[broker][len(idle[broker])/2] }
	for _, b := range idle {
		slices.Sort(b)
	}
	if len(idle["nats"]) == 0 {
		t.Fatal("nothing has moved on NATS, which all others are compared with")
	}
	for broker, all := range idle {
		ratio := middle(broker).Seconds() / middle("nats").Seconds()
		t.Logf("%-16s %4d moves, idle for %v (median), %v (nine of ten), %v (at most): %.2f times NATS", broker, len(all), middle(broker), all[len(all)*9/10], all[len(all)-1], ratio)
		if ratio > 3 {
			t.Errorf("%s: a partition that moves is idle for %.2f times as long as on NATS", broker, ratio)
		}
	}
}

// moveAbout lets a third member come and go, and tells for how long each partition that moved was idle.
func moveAbout(c *crew) []time.Duration {
	c.library = true
	c.stock(3000)
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
	return c.gaps()
}

// gaps are for how long each partition that moved was idle, one for each time.
func (c *crew) gaps() (out []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := map[string][]line.Line{}
	for _, m := range c.members {
		for _, e := range m.events {
			if e.Event == "handle" || e.Event == "handled" {
				of[e.Partition] = append(of[e.Partition], e)
			}
		}
	}
	for _, all := range of {
		slices.SortStableFunc(all, func(a, b line.Line) int { return cmp.Compare(a.Boot, b.Boot) })
		for i := 1; i < len(all); i++ {
			if all[i].Token != all[i-1].Token {
				out = append(out, time.Duration(all[i].Boot-all[i-1].Boot))
			}
		}
	}
	return out
}
