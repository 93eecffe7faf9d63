//go:build linux

package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/servers"
)

// lossLease leaves half a second to stop everything in: these tests take away what the
// members' heartbeats go to, and not the members' time.
const lossLease = 5 * time.Second

// The store is away for longer than a lease, killed or frozen, and comes back. With stop
// everybody has stopped before the lease end, and nobody acts until there is a lease again.
// With continue owners work on and say so, and when the store is back one at most goes on with
// each partition. If one member alone has lost the store, another takes over and both act: only
// the sink that checks tokens tells them apart.
func TestB_Loss_ByProcesses(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, p pair) {
		trial := func(name string, run func(c *crew)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := p.serve(t)
				if h.broker.addr == h.addr { // messages arrive whatever becomes of the store
					h.broker = serveNATS(t).broker
				}
				run(newCrew(t, h, 6))
			})
		}
		for _, l := range losses {
			trial("stop/"+l.name, func(c *crew) { c.stopsWithoutStore(l) })
			trial("continue/"+l.name, func(c *crew) { c.worksOnWithoutStore(l) })
		}
		trial("continue/cut off alone", (*crew).worksOnAlone)
	})
}

// A loss takes a store away and brings it back.
type loss struct {
	name       string
	away, back func(context.Context, server) error
}

var losses = []loss{
	{"killed", func(_ context.Context, s server) error { return s.Kill() }, func(ctx context.Context, s server) error { return s.Start(ctx) }},
	{"frozen", func(_ context.Context, s server) error { return s.Freeze() }, func(_ context.Context, s server) error { return s.Thaw() }},
}

// lose takes the store away, or brings it back.
func (c *crew) lose(do func(context.Context, server) error) {
	c.Helper()
	if err := do(c.Context(), c.host.server); err != nil {
		c.Fatal(err)
	}
}

// stopsWithoutStore takes the store from members for which exclusivity comes first.
func (c *crew) stopsWithoutStore(l loss) {
	all := c.choose("stop", "c1", "c2", "c3")
	m := c.atWork(all)
	c.lose(l.away)
	c.until("everybody to stop for want of a lease", func() bool {
		return c.every(all, func(m *probed) bool { return m.told("lapsed") > 0 || m.over })
	})
	c.mu.Lock()
	for _, m := range all {
		if m.over || len(m.owns) > 0 {
			c.Errorf("%s has not stopped: it owns %v, and it has ended: %v", m.label, m.owns, m.over)
		}
	}
	c.mu.Unlock()
	for _, m := range all {
		m.says("/readyz", "^not ready: it has no lease")
	}
	time.Sleep(lossLease / 2) // an effect that was on its way has arrived by then
	got := c.sink.got()
	time.Sleep(lossLease / 2)
	if n := c.sink.got() - got; n > 0 {
		c.Errorf("%d effects while nobody had a lease", n)
	}
	c.lose(l.back)
	c.goesOn(all, m)
	for _, m := range all {
		if err := errors.Join(m.silentAfterItsLease(), m.startsWithLease()); err != nil {
			c.Error(err)
		}
	}
}

// worksOnWithoutStore takes the store from members for which progress comes first.
func (c *crew) worksOnWithoutStore(l loss) {
	all := c.choose("continue", "c1", "c2", "c3")
	m := c.atWork(all)
	moved := c.counts()
	c.lose(l.away)
	c.until("everybody to say that it works on", func() bool {
		return c.every(all, func(m *probed) bool { return m.told("works_on") > 0 || m.over })
	})
	before := c.sink.counts("")
	c.until("every partition to be served without a lease", func() bool {
		now := c.sink.counts("")
		for p, n := range before {
			if now[p] < n+20 {
				return false
			}
		}
		return true
	})
	for _, m := range all {
		m.says("/readyz", "^not ready: it has no lease")
	}
	for _, event := range []string{"plan", "start", "stopped", "lapsed"} {
		if n := c.counts()[event] - moved[event]; n > 0 {
			c.Errorf("%d × %s without a store", n, event)
		}
	}
	c.lose(l.back)
	c.until("everybody to have a lease again, or to have ended", func() bool {
		return c.every(all, func(m *probed) bool { return m.told("resumed") > 0 || m.over })
	})
	c.goesOn(all, m)
}

// worksOnAlone takes the store from one such member alone. Another takes over, and both act, since
// their function has no broker that would tell them apart. The sink keeps the order of owners.
func (c *crew) worksOnAlone() {
	way := newStoreDoor(c.T, c.host.addr)
	var all []*probed
	for _, x := range [][2]string{{"s1"}, {"s2"}, {"v", c.host.url(way.addr, c.host.bucket(c.T))}} {
		m := &probed{c.enlist(x[0]), c.reserve()}
		m.be(task{Names: []string{x[0]}, Store: x[1], Partitions: c.parts, Sink: c.sink.addr, Acts: true, OnStoreLoss: rota.Continue, Probe: m.probe, Lease: lossLease, Heartbeat: lossLease * 3 / 10})
		c.admit([]*member{m.member})
		all = append(all, m)
	}
	cut := all[2]
	c.until("everybody to be at work", func() bool {
		return c.every(all, func(m *probed) bool { return len(m.owns) == c.parts/len(all) }) && len(c.sink.counts("")) == c.parts
	})
	others := []string{"s1", "s2"}
	way.set(true)
	c.until("v to say that it works on", func() bool { return cut.told("works_on") > 0 || cut.over })
	c.until("others to have everything", func() bool { return c.own(others) == c.parts })
	c.until("others to be at work", func() bool { return c.sink.ruledBy(c, c.tokens(others)) })
	refused := c.sink.refusals()
	c.until("v to act beside them, and to be refused", func() bool { return c.sink.refusals() >= refused+10 })
	cut.says("/readyz", "^not ready: it has no lease")
	cut.says("/status", string(rota.ConditionNoLease))
	c.untilShown("v, which may work on,", func(st *rota.Status) bool {
		return slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool {
			return m.Name == "v" && m.State == rota.MemberDead && m.Continues
		})
	})
	if out, _ := exec.Command(c.rota, "status", "--group", c.group, "--store", c.storeURL()).CombinedOutput(); !strings.Contains(string(out), "dead, may work on") {
		c.Errorf("rota status does not say that v may work on: %s", out)
	}
	way.set(false)
	if code := cut.code(); code != 3 {
		c.Errorf("v ended with %d, want 3: %s", code, &cut.stderr)
	}
	c.goesOn(all, nil)
}

// goesOn waits until one owner goes on with each partition, and until everything has arrived in
// order. A member that was declared dead when the store came back, since others were quicker to
// reach it, ends itself.
func (c *crew) goesOn(all []*probed, m *mill) {
	c.Helper()
	var labels []string
	for _, m := range all {
		labels = append(labels, m.label)
	}
	c.until("one owner each", func() bool { return c.running() == c.parts && len(c.tokens(labels)) == c.parts })
	for _, m := range all {
		c.until(m.label+" to be ready, or to have ended", func() bool { return m.over || m.answers("/readyz", "^ready") })
		c.mu.Lock()
		over := m.over
		c.mu.Unlock()
		if over && m.code() != 3 {
			c.Errorf("%s ended with %d, want 3: %s", m.label, m.code(), &m.stderr)
		}
	}
	if m != nil {
		if err := m.finish(); err != nil {
			c.Error(err)
		}
	}
	if err := c.judge(); err != nil {
		c.Error(err)
	}
	dead := c.counts()["dead"]
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	c.Logf("%d members were declared dead; the sink accepted %d effects, %d of them again, and refused %d", dead, c.sink.accepted, c.sink.again, c.sink.refused)
}

// A probed is a member that says over HTTP whether it is ready.
type probed struct {
	*member
	probe string // HOST:PORT where it says how it is
}

// choose lets members join that were told what to do without a store.
func (c *crew) choose(choice string, labels ...string) (all []*probed) {
	c.Helper()
	for _, l := range labels {
		addr := c.reserve()
		m := &probed{c.start(l, false, "--on-store-loss", choice, "--health", addr, "--lease", lossLease.String(), "--heartbeat", (lossLease * 3 / 10).String(), "--orphan", "3m"), addr}
		c.admit([]*member{m.member})
		all = append(all, m)
	}
	return all
}

// reserve is an address that nobody has until the test ends.
func (c *crew) reserve() string {
	c.Helper()
	addr, release, err := servers.Reserve()
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(release)
	return addr
}

// answers tells whether it answers like this.
func (m *probed) answers(path, like string) bool {
	answer, err := http.Get("http://" + m.probe + path)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return err == nil && regexp.MustCompile(like).Match(b)
}

// says waits until it answers like this.
func (m *probed) says(path, like string) {
	m.c.Helper()
	m.c.until(m.label+" to say "+like, func() bool { return m.answers(path, like) })
}

// atWork publishes, and waits until all members are at work on as many partitions.
func (c *crew) atWork(all []*probed) *mill {
	c.Helper()
	m := c.grind(20 * time.Millisecond)
	c.until("everybody to be at work", func() bool {
		return c.every(all, func(m *probed) bool { return len(m.owns) == c.parts/len(all) && m.told("handled") > 0 }) && len(c.sink.counts("")) == c.parts
	})
	return m
}

// every asks for something of all members. The crew's mutex is held.
func (c *crew) every(of []*probed, is func(*probed) bool) bool {
	return !slices.ContainsFunc(of, func(m *probed) bool { return !is(m) })
}

// startsWithLease looks for partitions that started without a lease, and for a member that has
// stopped nothing. When a partition has stopped is not asked: a busy machine tells late, and a
// handler that is at work when its lease ends costs the process.
func (m *member) startsWithLease() (err error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	var end int64
	for _, e := range m.events {
		switch e.Event {
		case "lease":
			end = max(end, e.Lease)
		case "start":
			if e.Boot > end {
				err = errors.Join(err, fmt.Errorf("%w: %s: start of %s %v after its lease", errBroken, m.label, e.Partition, time.Duration(e.Boot-end)))
			}
		}
	}
	if m.told("stopped") == 0 {
		err = errors.Join(err, fmt.Errorf("%s has stopped nothing", m.label))
	}
	return err
}

// A storeDoor is the way of one member to the store. Shut, it ends every connection and lets
// none in.
type storeDoor struct {
	addr  string
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func newStoreDoor(t *testing.T, to string) *storeDoor {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &storeDoor{addr: l.Addr().String()}
	t.Cleanup(func() {
		l.Close()
		d.set(true)
	})
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			if d.shut {
				near.Close()
			} else {
				d.conns = append(d.conns, near)
				go carry(near, to)
			}
			d.mu.Unlock()
		}
	}()
	return d
}

// set shuts the door, or opens it.
func (d *storeDoor) set(shut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = shut
	for _, c := range d.conns {
		c.Close()
	}
	d.conns = nil
}
