//go:build linux

package processes

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/line"
)

// A member joins two others at work. Each partition that moves is revoked, stopped, told
// to have stopped, and only then granted, started and confirmed, each step once, as the
// event lines of both owners say. While that lasts, the status names what waits, for what,
// since when and why.
func TestS1_Hand_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 6)
		c.join(false, "c1", "c2")
		m := c.grind(20 * time.Millisecond)
		c.until("three each", func() bool { return len(c.newest("c1").owns) == 3 && len(c.newest("c2").owns) == 3 })
		c.sink.slow(6 * time.Second) // a stop waits for the message in hand
		c.until("both to be busy", func() bool { return len(c.newest("c1").busy()) == 3 && len(c.newest("c2").busy()) == 3 })
		c.join(false, "c3")
		c.untilShown("the wait set", func(st *rota.Status) bool {
			return slices.ContainsFunc(st.Waits, func(w rota.Wait) bool {
				why := slices.ContainsFunc(w.Causes, func(x rota.Cause) bool { return x.Why == rota.WhyJoined })
				return w.For == rota.WaitStop && w.Partition != "" && st.NameOf(w.Member) != w.Member && !w.Since.IsZero() && why
			})
		})
		c.sink.slow(0)
		c.until("two each", func() bool { return c.running() == 6 && slices.Equal(c.spread(), []int{2, 2, 2}) })
		c.untilShown("the end of the wait set", func(st *rota.Status) bool { return len(st.Waits) == 0 })
		if n, err := c.moves(); err != nil || n != 2 {
			t.Errorf("%d hand-overs, want 2: %v", n, err)
		}
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// moves counts the partitions that went from one member to another, and checks the
// steps of each.
func (c *crew) moves() (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := map[string]map[uint64][]line.Line{} // partition, token
	for _, m := range c.members {
		for _, e := range m.events {
			switch e.Event {
			case "grant", "starting", "start", "revoke", "stop", "stopped":
				if steps[e.Partition] == nil {
					steps[e.Partition] = map[uint64][]line.Line{}
				}
				steps[e.Partition][e.Token] = append(steps[e.Partition][e.Token], e)
			}
		}
	}
	for partition, of := range steps {
		tokens := make([]uint64, 0, len(of))
		for token := range of {
			tokens = append(tokens, token)
		}
		slices.Sort(tokens)
		var all []line.Line
		for i, token := range tokens {
			want := []string{"grant", "starting", "start"}
			if i < len(tokens)-1 {
				want = append(want, "revoke", "stop", "stopped")
				n++
			}
			var got []string
			slices.SortStableFunc(of[token], func(a, b line.Line) int { return cmp.Compare(a.Boot, b.Boot) })
			for _, e := range of[token] {
				got = append(got, e.Event)
			}
			if !slices.Equal(got, want) {
				return n, fmt.Errorf("%s under token %d: %q, want %q", partition, token, got, want)
			}
			all = append(all, of[token]...)
		}
		if !slices.IsSortedFunc(all, func(a, b line.Line) int { return cmp.Compare(a.Boot, b.Boot) }) {
			return n, fmt.Errorf("%s: the steps of one owner overlap with those of the next: %+v", partition, all)
		}
	}
	return n, nil
}

// Partitions without an owner are consumed without anybody being told: those that appear
// in the broker, those that a member gives up because its source fails, and those of a
// member that is killed.
func TestS1_Unassigned_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 4)
		c.library = true
		c.find()
		c.join(false, "c1", "c2")
		m := c.grind(50 * time.Millisecond)
		c.until("what appears to be consumed", func() bool { return c.running() == 4 && len(c.sink.counts("")) == 4 })

		if err := os.WriteFile(c.newest("c1").broken(), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		c.until("c2 to have what c1 gave up", func() bool { return len(c.newest("c2").owns) == 4 })
		c.flows()
		if err := os.Remove(c.newest("c1").broken()); err != nil {
			t.Fatal(err)
		}

		c.newest("c2").signal(syscall.SIGKILL)
		c.until("c1 to have what c2 had", func() bool { return len(c.newest("c1").owns) == 4 })
		c.flows()
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// flows waits until something more of every partition has reached the sink.
func (c *crew) flows() {
	c.Helper()
	before := c.sink.counts("")
	c.until("every partition to flow", func() bool {
		now := c.sink.counts("")
		for p, n := range before {
			if now[p] <= n {
				return false
			}
		}
		return true
	})
}
