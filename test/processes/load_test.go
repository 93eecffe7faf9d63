//go:build linux

package processes

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// Eight partitions with ten messages a second each fit on one member, so the other stands
// by. Then one of them becomes ten times as fast. Its member is overloaded, and what was
// measured moves partitions: the fast one is alone at last. When it is slow again, one
// member is enough. Meanwhile everybody can see what arrives. The rows S1-speed,
// S1-trigger and S1-pack.
func TestS1_Trigger_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 8)
		c.tune = []string{"--strategy", "pack", "--capacity", "130", "--interval", "4s", "--cool-down", "2s"}
		c.join(false, "c1", "c2")
		m := c.grind(100 * time.Millisecond)
		c.until("everything to be packed onto one member", func() bool { return slices.Contains(c.spread(), 8) })

		m.each[0].Store(10)
		c.until("the fast partition to be alone", func() bool { return c.alone("q0") })
		if why := c.causes(); !slices.Contains(why, rota.WhyLoad) || !slices.Contains(why, rota.WhyInterval) {
			t.Errorf("plans were made because of %v, want load and interval among them", why)
		}
		c.untilShown("the speeds", func(st *rota.Status) bool {
			at := func(part string) *rota.PartitionInfo {
				return &st.Partitions[slices.IndexFunc(st.Partitions, func(p rota.PartitionInfo) bool { return c.part(p.Name) == part })]
			}
			return st.Load != nil && st.Load.Known && st.Load.Wanted == 2 && at("q0").Speed > 4*at("q5").Speed && at("q5").Speed > 1
		})

		m.each[0].Store(1)
		c.until("one member to be enough again", func() bool { return slices.Contains(c.spread(), 8) })
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// spread is how many partitions each member runs. The crew's mutex is held.
func (c *crew) spread() (out []int) {
	for _, m := range c.members {
		out = append(out, len(m.owns))
	}
	return out
}

// alone tells whether a member runs this partition and nothing else, and the other all
// others. The crew's mutex is held.
func (c *crew) alone(part string) bool {
	return slices.ContainsFunc(c.members, func(m *member) bool { return len(m.owns) == 1 && m.owns[part] != 0 }) &&
		slices.Contains(c.spread(), c.parts-1)
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
