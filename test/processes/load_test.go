//go:build linux

package processes

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// Two of three members are enough for eight partitions with five messages a second each.
// Then one of them becomes ten times as fast, more than a member sustains. Its member is
// overloaded, and what was measured moves partitions: the fast one is alone. When it is
// slow again, a member stands by again.
func TestS1_Trigger_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 8)
		c.tune = []string{"--strategy", "pack", "--capacity", "30", "--interval", "4s", "--cool-down", "2s"}
		c.join(false, "c1", "c2", "c3")
		m := c.grind(200 * time.Millisecond)
		standsBy := func() bool { return c.running() == 8 && slices.Contains(c.spread(), 0) }
		c.until("a member to stand by", standsBy)

		m.each[0].Store(10)
		c.until("the fast partition to be alone", func() bool {
			return c.running() == 8 && slices.ContainsFunc(c.members, func(m *member) bool { return len(m.owns) == 1 && m.owns["q0"] != 0 })
		})
		if why := c.causes(); !slices.Contains(why, rota.WhyLoad) || !slices.Contains(why, rota.WhyInterval) {
			t.Errorf("plans were made because of %v, want load and interval among them", why)
		}
		c.untilShown("the speeds", func(st *rota.Status) bool {
			return st.Load != nil && st.Load.Known && c.seen(st, "q0").Speed > 4*c.seen(st, "q5").Speed
		})

		m.each[0].Store(1)
		c.until("a member to stand by again", standsBy)
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// What arrives is measured of every partition and shown, also of one that is paused and
// has no owner: its speed, and how its backlog grows.
func TestS1_Speed_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 3)
		c.tune = []string{"--strategy", "pack", "--capacity", "1000"}
		c.join(false, "c1", "c2")
		m := c.grind(50 * time.Millisecond)
		m.each[1].Store(4)
		c.until("everything to run", func() bool { return c.running() == 3 })
		if err := c.order("pause", c.partition(2)); err != nil {
			t.Fatal(err)
		}
		var before float64
		c.untilShown("speeds and the backlog", func(st *rota.Status) bool {
			q0, q1, q2 := c.seen(st, "q0"), c.seen(st, "q1"), c.seen(st, "q2")
			return st.Load != nil && st.Load.Known && q0.Speed > 1 && q1.Speed > 2*q0.Speed && q2.Speed > q0.Speed/2 && q2.State == rota.PartitionFree && q2.Backlog > 20
		})
		c.untilShown("a growing backlog", func(st *rota.Status) bool {
			if before == 0 {
				before = c.seen(st, "q2").Backlog
			}
			return c.seen(st, "q2").Backlog > before && st.Load.Backlog >= c.seen(st, "q2").Backlog
		})
		if err := c.order("resume", c.partition(2)); err != nil {
			t.Fatal(err)
		}
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// As few members work as the load needs: one of three at first, and all of them when six
// times as much arrives.
func TestS1_Pack_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 6)
		c.tune = []string{"--strategy", "pack", "--capacity", "100", "--interval", "4s", "--cool-down", "2s"}
		c.join(false, "c1", "c2", "c3")
		m := c.grind(200 * time.Millisecond)
		c.until("one member to have everything", func() bool { return slices.Contains(c.spread(), 6) })
		for p := range m.each {
			m.each[p].Store(7) // 210 a second, of 80 that each member is given
		}
		c.until("all members to work", func() bool { return c.running() == 6 && !slices.Contains(c.spread(), 0) })
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// A meter that hangs, fails, lies, freezes or begins anew all the time costs no heartbeat:
// between two of them passes no more than a heartbeat's time and 0.3 s, and what this
// machine itself was late by meanwhile.
func TestFaultyMetersByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		for _, wrong := range []string{"hangs", "fails", "frozen", "lies", "begins anew"} {
			t.Run(wrong, func(t *testing.T) {
				c := newCrew(t, h, 4)
				c.library, c.meter, c.group = true, wrong, strings.ReplaceAll(wrong, " ", "-")
				late := lateness(t)
				c.join(false, "c1", "c2")
				m := c.grind(50 * time.Millisecond)
				c.until("everything to run", func() bool { return c.running() == 4 })
				c.until("both to have renewed their leases ten times", func() bool {
					return c.members[0].told("lease") > 10 && c.members[1].told("lease") > 10
				})
				if err := m.finish(); err != nil {
					t.Error(err)
				}
				bound := heartbeat + 300*time.Millisecond + late()
				for _, m := range c.members {
					if gap := m.longestGap(); gap > bound || gap == 0 {
						t.Errorf("%s renewed its lease after %v, want at most %v", m.label, gap, bound)
					}
				}
				if err := c.judge(); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// lateness measures until late is called by how much a timer of this process is late at
// most: on a machine that is full, everybody is.
func lateness(t *testing.T) (late func() time.Duration) {
	var most atomic.Int64
	go func() {
		for t.Context().Err() == nil {
			begun := time.Now()
			time.Sleep(20 * time.Millisecond)
			most.Store(max(most.Load(), int64(time.Since(begun)-20*time.Millisecond)))
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}

// longestGap is the longest time between two heartbeats, by the ends of the leases that
// they brought.
func (m *member) longestGap() (most time.Duration) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	var ends []int64
	for _, e := range m.events {
		if e.Event == "lease" && (len(ends) == 0 || e.Lease > ends[len(ends)-1]) {
			ends = append(ends, e.Lease)
		}
	}
	for i := 2; i < len(ends); i++ { // the first is when the session began, without a lease
		most = max(most, time.Duration(ends[i]-ends[i-1]))
	}
	return most
}

// running is how many partitions run. The crew's mutex is held.
func (c *crew) running() (n int) {
	for _, k := range c.spread() {
		n += k
	}
	return n
}

// seen is a partition of a status.
func (c *crew) seen(st *rota.Status, part string) *rota.PartitionInfo {
	i := slices.IndexFunc(st.Partitions, func(p rota.PartitionInfo) bool { return c.part(p.Name) == part })
	if i < 0 {
		return &rota.PartitionInfo{}
	}
	return &st.Partitions[i]
}

// spread is how many partitions each member runs. The crew's mutex is held.
func (c *crew) spread() (out []int) {
	for _, m := range c.members {
		out = append(out, len(m.owns))
	}
	return out
}

// untilShown waits until the group looks like this.
func (c *crew) untilShown(what string, is func(*rota.Status) bool) {
	c.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		st, err := rota.Inspect(c.Context(), c.store, c.group)
		if err == nil && is(&st) {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s are not shown within %v: %v, %+v", what, patience, err, st.Load)
		}
	}
}

// causes lists why plans were made, as members told.
func (c *crew) causes() (out []rota.Why) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		for i := range m.events {
			if e := &m.events[i]; e.Event == "plan" {
				for _, why := range e.Causes {
					out = append(out, why.Why)
				}
			}
		}
	}
	return out
}
