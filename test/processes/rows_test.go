//go:build linux

package processes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/scenario"
)

// The rows of docs/MISSION.md that a scenario tells, shown by real processes on
// every host: the same files that the bare core plays.

func TestS0_01_ByProcesses(t *testing.T)    { playRow(t, "s0-01") }
func TestS0_02_ByProcesses(t *testing.T)    { playRow(t, "s0-02") }
func TestS0_03_ByProcesses(t *testing.T)    { playRow(t, "s0-03") }
func TestS0_04_ByProcesses(t *testing.T)    { playRow(t, "s0-04") }
func TestS0_05_ByProcesses(t *testing.T)    { playRow(t, "s0-05") }
func TestS0_06_ByProcesses(t *testing.T)    { playRow(t, "s0-06") }
func TestS0_07_ByProcesses(t *testing.T)    { playRow(t, "s0-07") }
func TestS0_08_ByProcesses(t *testing.T)    { playRow(t, "s0-08") }
func TestS0_09_ByProcesses(t *testing.T)    { playRow(t, "s0-09") }
func TestS0_10_ByProcesses(t *testing.T)    { playRow(t, "s0-10") }
func TestS0_12_ByProcesses(t *testing.T)    { playRow(t, "s0-12") }
func TestS2_Join_ByProcesses(t *testing.T)  { playRow(t, "s2-join") }
func TestS2_Leave_ByProcesses(t *testing.T) { playRow(t, "s2-leave") }
func TestS2_Kill_ByProcesses(t *testing.T)  { playRow(t, "s2-kill") }
func TestB_Static_ByProcesses(t *testing.T) { playRow(t, "return") }
func TestB_Ops_ByProcesses(t *testing.T)    { playRow(t, "orders", "freeze-moves-nothing") }

// unplayable are scenarios of these rows that real time cannot tell.
var unplayable = map[string]string{
	"s0-09-a1-then-a2":         "the second plan has to follow the first within two milliseconds; TestS0_09_A2DuringA1 does it otherwise",
	"orders-are-polled":        "no real watch can be told to miss just one change",
	"s0-05-cut-off-comes-back": "whether the second cut ends before or after a lease is a matter of milliseconds",
}

func playRow(t *testing.T, names ...string) {
	t.Parallel()
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(s *scenario.Scenario) bool {
		called := func(name string) bool { return strings.HasPrefix(s.Name, name) }
		return !slices.ContainsFunc(names, called) || unplayable[s.Name] != ""
	})
	if len(all) == 0 {
		t.Fatalf("no scenario is called %s…", names)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, h *host) {
				tell(t, h, 0, func(c *crew) error { return c.perform(s) })
			})
		})
	}
}

// errOtherwise: the group went another way than a tale says. It may have been allowed to.
var errOtherwise = errors.New("it went otherwise")

// tell has a tale told by real processes, up to three times: who of two is first, and whether
// somebody who joins is in time for a plan, is not rota's to say on a machine that gives a process
// no time for half a second. Only errOtherwise is an excuse: promises are kept each time.
func tell(t *testing.T, h *host, partitions int, tale func(c *crew) error) {
	const times = 3
	for i := 1; i <= times; i++ {
		again := false
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			err := tale(newCrew(t, h, partitions))
			again = errors.Is(err, errOtherwise) && i < times
			switch {
			case again:
				t.Logf("told anew: %v", err)
			case err != nil:
				t.Error(err)
			}
		})
		if !again {
			return
		}
	}
}

// perform plays a scenario while messages flow, and judges, whichever way it went.
func (c *crew) perform(s *scenario.Scenario) error {
	if err := c.settings(groupOf(s)); err != nil {
		return err
	}
	m := c.grind(50 * time.Millisecond)
	played := c.play(s)
	if played != nil && !errors.Is(played, errOtherwise) {
		return played
	}
	c.mu.Lock()
	alone := !slices.ContainsFunc(c.members, func(m *member) bool { return !m.over })
	c.mu.Unlock()
	if alone || played != nil { // nobody is left to finish, or those who are may be frozen
		m.stop()
	} else if err := m.finish(); err != nil {
		return err
	}
	return cmp.Or(c.judge(), played)
}

// groupOf are the settings of a scenario's group.
func groupOf(s *scenario.Scenario) []string {
	if c := s.Blocks[0].Commands[0]; c.Verb == "group" {
		return c.Args
	}
	return []string{"partitions=6"}
}

// Five processes begin at one instant, whoever is first: one leads, one plan is
// made, and each starts each of its partitions once.
func TestS0_04_FiveAtOneInstant(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		tell(t, h, 10, fiveAtOneInstant)
	})
}

func fiveAtOneInstant(c *crew) error {
	var all []*member
	for _, l := range []string{"c1", "c2", "c3", "c4", "c5"} {
		all = append(all, c.start(l, false))
	}
	for _, m := range all {
		c.until(m.label+" to be ready", func() bool { return strings.Contains(m.stderr.String(), "ready") })
	}
	for _, m := range all {
		m.open()
	}
	m := c.grind(20 * time.Millisecond)
	c.until("two each", func() bool {
		return !slices.ContainsFunc(all, func(m *member) bool { return len(m.owns) != 2 })
	})
	if err := m.finish(); err != nil {
		return err
	}
	if err := c.judge(); err != nil {
		return err
	}
	counts := c.counts()
	for event, want := range map[string]int{"leader": 1, "plan": 1, "start": 10, "stopped": 0} {
		if counts[event] != want {
			return fmt.Errorf("%w: %d × %s, want %d: %q", errOtherwise, counts[event], event, want, c.heard)
		}
	}
	return nil
}

// Whoever joins or leaves, counts stay within one of each other by the fewest
// moves; and what does not move does not stop.
func TestS0_13a_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) { tell(t, h, 10, countsWithinOne) })
}

func countsWithinOne(c *crew) error {
	m := c.grind(20 * time.Millisecond)
	c.join(false, "c1", "c2", "c3")
	even := func(labels ...string) {
		c.Helper()
		c.until(fmt.Sprintf("counts of %q within one", labels), func() bool {
			all := 0
			for _, l := range labels {
				n := len(c.newest(l).owns)
				if n < c.parts/len(labels) || n > (c.parts+len(labels)-1)/len(labels) {
					return false
				}
				all += n
			}
			return all == c.parts
		})
	}
	var (
		stops     int
		otherwise error
	)
	stop := func(what string, want int) {
		c.Helper()
		stops += want
		c.until(what, func() bool { return c.tallies()["stopped"] >= stops })
		if n := c.counts()["stopped"]; n != stops && otherwise == nil {
			otherwise = fmt.Errorf("%w: %s: %d partitions stopped, want %d: %q", errOtherwise, what, want+n-stops, want, c.heard)
		}
	}
	even("c1", "c2", "c3")
	c.join(false, "c4")
	even("c1", "c2", "c3", "c4")
	stop("one joins three", c.parts/4)
	c.mu.Lock()
	had := len(c.newest("c2").owns)
	c.mu.Unlock()
	c.newest("c2").signal(syscall.SIGTERM)
	even("c1", "c3", "c4")
	stop("one of four leaves", had)
	if err := m.finish(); err != nil {
		return err
	}
	stop("nothing happens", 0)
	return cmp.Or(c.judge(), otherwise)
}

// counts is how often each event was told.
func (c *crew) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tallies()
}

func (c *crew) tallies() map[string]int {
	n := map[string]int{}
	for _, m := range c.members {
		for event, times := range m.tally {
			n[event] += times
		}
	}
	return n
}

// A plan takes everything from c2, whose handlers are in the middle of something,
// and another gives it back meanwhile: both end on the second.
func TestS0_09_A2DuringA1(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 6)
		c.join(false, "c1", "c2")
		shared := func() bool { return len(c.newest("c1").owns) == 3 && len(c.newest("c2").owns) == 3 }
		c.until("three each", shared)
		c.sink.slow(700 * time.Millisecond)
		m := c.grind(20 * time.Millisecond)
		c.until("c2 to handle something in every partition", func() bool { return len(c.newest("c2").busy()) == 3 })
		if err := c.order("drain", "c2"); err != nil {
			t.Fatal(err)
		}
		c.until("the first plan", func() bool { return len(c.plans) == 2 && c.plans[1].aims != nil })
		if c.mu.Lock(); len(c.newest("c2").owns) != 3 {
			t.Log("c2 has stopped already: the machine is slow")
		}
		c.mu.Unlock()
		if err := c.order("undrain", "c2"); err != nil {
			t.Fatal(err)
		}
		c.sink.slow(0)
		c.until("the second plan to be reached", func() bool { return len(c.plans) == 3 && shared() })
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
		if n := c.counts()["plan"]; n != 3 {
			t.Errorf("%d plans, want 3: %q", n, c.heard)
		}
	})
}

// One member serves sixteen backlogged queues at an equal rate, though some take
// longer than others, and does not wait for a queue whose handler hangs.
func TestS0_01_EqualRatesByOneProcess(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		const queues, each = 16, 1500
		c := newCrew(t, h, queues)
		m := c.start("c1", false)
		c.until("c1 to be ready", func() bool { return strings.Contains(m.stderr.String(), "ready") })
		c.fill(each)
		hung := c.partition(7)
		c.sink.hang(hung)
		c.sink.uneven = true
		m.open()
		c.until("all the others to flow", func() bool { return len(c.sink.counts(hung)) == queues-1 })
		fair := false
		for part := 1; part <= 3 && !fair; part++ { // a server that stands still for a while spoils one of them
			before := c.sink.counts(hung)
			c.until(fmt.Sprintf("%d/4 to be handled", part), func() bool { return c.sink.got() >= (queues-1)*each*part/4 })
			least, most, sum := each, 0, 0
			for p, n := range c.sink.counts(hung) {
				n -= before[p]
				least, most, sum = min(least, n), max(most, n), sum+n
			}
			// One may be 64 ahead of another at so few messages; the rest is the machine's.
			fair = most-least <= 64+sum/(queues-1)/2
			t.Logf("while %d were handled: %d to %d per queue", sum, least, most)
		}
		if !fair {
			t.Error("the rates differ")
		}
		c.sink.hang("")
		if err := c.sink.await(c, slices.Repeat([]int{each}, queues)); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}
