//go:build linux

package processes

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A zombie is a process that was frozen for longer than its lease and wakes up,
// in the middle of what it was doing. Each way of becoming one is tried at ten
// phases of the heartbeat: nothing is delivered or settled after the lease end,
// and of the effects that come too late a sink that checks tokens takes none.
func TestB_Zombie_ByProcesses(t *testing.T) {
	t.Parallel()
	const phases = 10
	everywhere(t, func(t *testing.T, h *host) {
		var mu sync.Mutex
		trials, refused := 0, 0
		t.Run("ways", func(t *testing.T) {
			for _, w := range ways {
				for phase := range phases {
					t.Run(fmt.Sprintf("%s/%d", w.name, phase), func(t *testing.T) {
						t.Parallel()
						late, err := w.trial(newCrew(t, h, w.partitions()), time.Duration(phase)*heartbeat/phases)
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						trials, refused = trials+1, refused+late
					})
				}
			}
		})
		t.Logf("%d trials on %s: %d effects came too late and were refused", trials, h.name, refused)
		if refused == 0 {
			t.Error("no effect came too late: this has shown nothing about the sink")
		}
	})
}

// A way is how a process becomes a zombie.
type way struct {
	name    string
	leads   bool          // the victim leads
	library bool          // members use the library: their handlers do not look at their context
	command bool          // handlers are commands: only rota is frozen, they run on
	revoked bool          // it is being asked to give everything up
	backlog bool          // there is more to do than can be done
	then    func(c *crew) // while it is frozen
	heirs   []string      // who has everything in the end
}

var ways = []way{
	{name: "owner", library: true, heirs: []string{"s"}},
	{name: "leader", library: true, leads: true, heirs: []string{"s"}},
	{name: "revoked", library: true, revoked: true, heirs: []string{"s"}},
	{name: "joined meanwhile", library: true, heirs: []string{"s", "new"}, then: func(c *crew) { c.join(false, "new") }},
	{name: "its name is taken", heirs: []string{"s", "v/2"}, then: func(c *crew) { c.join(false, "v/2") }},
	{name: "in a hurry", backlog: true, heirs: []string{"s"}},
	{name: "only rota", command: true, heirs: []string{"s"}},
}

func (w *way) partitions() int {
	if w.backlog {
		return 32
	}
	return 4
}

// trial freezes a process, at a phase of its heartbeat, until others have all
// that it had and are at work on it. It returns how many effects of it came too
// late, and which promise was broken.
func (w *way) trial(c *crew, phase time.Duration) (late int, err error) {
	c.library = w.library
	every := 20 * time.Millisecond
	if w.command {
		every *= 10 // each is a process
		c.tune = []string{"--handle", "exec:" + roleVar + "=effect " + taskVar + "=" + c.sink.addr + " " + os.Args[0]}
	}
	if w.backlog {
		c.sink.slow(100 * time.Millisecond)
	}
	if w.leads {
		c.join(false, "v", "s")
	} else {
		c.join(false, "s", "v")
	}
	v, s := c.member("v"), c.member("s")
	m := c.grind(every)
	c.until("both to handle messages", func() bool {
		return len(v.owns) == c.parts/2 && len(s.owns) == c.parts/2 && v.told("handled") > 0 && s.told("handled") > 0
	})
	c.mu.Lock()
	leases := v.told("lease")
	c.mu.Unlock()
	c.until("a heartbeat", func() bool { return v.told("lease") > leases })
	time.Sleep(phase)
	if w.revoked {
		c.mu.Lock()
		owned := slices.Collect(maps.Keys(v.owns))
		c.mu.Unlock()
		c.sink.hang(c.partition(partNumber(owned[0]))) // or it may have given all up before it is frozen
		if err := c.order("drain", "v"); err != nil {
			return 0, err
		}
		c.until("the plan to take something from v", func() bool { return v.told("revoke") > 0 })
	}
	v.signal(syscall.SIGSTOP)
	c.sink.hang("")
	if w.then != nil {
		w.then(c)
	}
	c.until("others to have everything", func() bool { return c.own(w.heirs) == c.parts })
	c.until("others to be at work", func() bool { return c.sink.ruledBy(c, c.tokens(w.heirs)) })
	v.signal(syscall.SIGCONT)
	c.sink.slow(0)
	// A handler that is in the middle of something keeps its process from waiting
	// to be told: only its end ends it.
	if code := v.code(); code != 3 && !(code == 4 && w.library) {
		err = fmt.Errorf("the zombie ended with %d, want 3: %s", code, &v.stderr)
	}
	err = errors.Join(err, m.finish(), c.judge(), v.silentAfterItsLease())
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	return c.sink.refused, err
}

// told is how often it told of something.
func (m *member) told(event string) int { return m.tally[event] }

// silentAfterItsLease looks for deliveries and settlements that began after the
// last lease that it ever had.
func (m *member) silentAfterItsLease() (err error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	var end int64
	for _, e := range m.events {
		switch e.Event {
		case "lease":
			end = max(end, e.Lease)
		case "handle", "settled":
			if e.Boot > end {
				err = errors.Join(err, fmt.Errorf("%w: %s: %s of %s %v after its lease", errBroken, m.label, e.Event, e.Partition, time.Duration(e.Boot-end)))
			}
		}
	}
	return err
}

// own is how many partitions members have together.
func (c *crew) own(labels []string) (n int) {
	for _, l := range labels {
		if m := c.newest(l); m != nil {
			n += len(m.owns)
		}
	}
	return n
}

// tokens are those that members own partitions by.
func (c *crew) tokens(labels []string) map[string]uint64 {
	all := map[string]uint64{}
	for _, l := range labels {
		for p, token := range c.newest(l).owns {
			all[p] = token
		}
	}
	return all
}
