//go:build linux

package processes

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// One walk through a group's life: a member has everything, hands a part over to those that
// join, takes over from one that is killed, and leaves. The store is a server of its own,
// ZooKeeper or Redis among others, and nothing is lost, skipped or done twice under two tokens.
func TestS0_Infra_StoresByProcesses(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, p pair) {
		c := newCrew(t, p.serve(t), 6)
		has := func(want ...int) {
			t.Helper()
			c.until("a plan that gives everybody as many", func() bool { return slices.Equal(c.spread(), want) })
		}
		c.join(false, "c1")
		m := c.grind(20 * time.Millisecond)
		has(6)
		c.join(false, "c2")
		has(3, 3)
		c.join(false, "c3")
		has(2, 2, 2)
		c.until("messages of every partition to be handled", func() bool { return len(c.sink.counts("")) == 6 })
		c.member("c2").signal(syscall.SIGKILL)
		has(3, 0, 3)
		c.member("c1").signal(syscall.SIGTERM)
		has(0, 0, 6)
		if code := c.member("c1").code(); code != 0 {
			t.Errorf("c1 left with %d: %s", code, &c.member("c1").stderr)
		}
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
		counts := c.counts()
		if counts["joined"] != 3 || counts["dead"] != 1 || counts["left"] != 1 || counts["lapsed"] != 0 {
			t.Errorf("three joined, one was killed and one left, and that is what was told: %v", counts)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.newest("c3").leads {
			t.Error("c3 does not lead, and nobody else is left")
		}
	})
}
