//go:build linux

package processes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// Two members have 16 partitions each. A message of one partition kills every process that
// handles it, and a supervisor starts each again. That partition is quarantined; no other
// ever is, and all others are consumed to the end.
func TestB_Ops_Quarantine_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		const poisoned = 5
		c := newCrew(t, h, 32)
		c.library, c.poison = true, c.partition(poisoned)
		c.fill(3)
		c.join(false, "c1", "c2")
		deaths := 0
		quarantined := func(st *rota.Status) (out []string) {
			for _, p := range st.Partitions {
				if p.Reason == rota.ReasonQuarantined {
					out = append(out, c.part(p.Name))
				}
			}
			return out
		}
		want := []string{fmt.Sprint("q", poisoned)}
		for deadline := time.Now().Add(3 * patience); ; time.Sleep(20 * time.Millisecond) {
			for _, name := range []string{"c1", "c2"} {
				c.mu.Lock()
				dead := c.newest(name).over
				c.mu.Unlock()
				if dead {
					deaths++
					c.join(false, name)
				}
			}
			st, err := rota.Inspect(t.Context(), c.store, c.group)
			if err == nil && len(quarantined(&st)) > 0 {
				if got := quarantined(&st); !slices.Equal(got, want) {
					t.Fatalf("%v are in quarantine, want %v", got, want)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("nothing is in quarantine after %d deaths: %v", deaths, err)
			}
		}
		t.Logf("quarantined after %d deaths", deaths)
		sent := make([]int, c.parts)
		for p := range sent {
			if p != poisoned {
				sent[p] = 3
			}
		}
		if err := c.sink.await(c, sent); err != nil {
			t.Error(err)
		}
		c.untilShown("31 partitions that run, and one in quarantine", func(st *rota.Status) bool {
			return st.Phase == rota.Sentinel && slices.Equal(quarantined(st), want) && c.owned(st) == c.parts-1
		})
		c.bystanders(fmt.Sprintf("%s.%d", c.stream(), poisoned))
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// bystanders asks what the deaths did to the partitions that killed nobody. In a process that
// lives nothing stops, unless a plan takes it away because somebody joined. What died with its
// process is granted again as soon as a lease explains: nobody waits for two.
func (c *crew) bystanders(guilty string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	why := map[uint64][]rota.Cause{}
	grants := map[string][]int64{}
	for _, m := range c.members {
		for _, e := range m.events {
			switch e.Event {
			case "plan":
				why[e.Plan] = e.Causes
			case "grant":
				grants[e.Partition] = append(grants[e.Partition], e.Boot)
			}
		}
	}
	var idle []time.Duration
	for _, m := range c.members {
		revoked, owns := map[string]bool{}, map[string]bool{}
		for _, e := range m.events {
			switch {
			case e.Partition == guilty:
			case e.Event == "revoke":
				revoked[e.Partition] = true
				if causes, told := why[e.Plan]; told && !slices.ContainsFunc(causes, func(x rota.Cause) bool { return x.Why == rota.WhyJoined }) {
					c.Errorf("%s lost %s to plan %d, which was made for %v", m.label, e.Partition, e.Plan, causes)
				}
			case e.Event == "stop" && !revoked[e.Partition]:
				c.Errorf("%s stopped %s, and no plan took it away", m.label, e.Partition)
			case e.Event == "stopped":
				delete(owns, e.Partition)
			case e.Event == "grant":
				delete(revoked, e.Partition)
				owns[e.Partition] = true
			}
		}
		if !m.over || len(m.events) == 0 {
			continue
		}
		died := m.events[len(m.events)-1].Boot // or a little later
		for partition := range owns {
			next := int64(0)
			for _, at := range grants[partition] {
				if at > died && (next == 0 || at < next) {
					next = at
				}
			}
			if next > 0 {
				idle = append(idle, time.Duration(next-died))
			}
		}
	}
	if len(idle) == 0 {
		c.Error("nobody died with anything: this shows nothing")
		return
	}
	slices.Sort(idle)
	c.Logf("granted again after %v in the median and %v at worst, %d times; the lease is %v", idle[len(idle)/2], idle[len(idle)-1], len(idle), lease)
	if worst := idle[len(idle)-1]; worst > 2*lease+5*time.Second { // deaths are noticed late on a busy machine
		c.Errorf("a partition was granted again after %v", worst)
	}
}

func (c *crew) owned(st *rota.Status) (n int) {
	for _, p := range st.Partitions {
		if p.State == rota.PartitionOwned {
			n++
		}
	}
	return n
}
