//go:build linux

package processes

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestBrokerCampaign lets numbered messages flow through 32 partitions of each broker while members
// join, leave, are killed and are frozen, and the broker is killed and started again. Every number is
// accepted, in order within its partition; numbers are repeated only where an owner was killed or
// frozen, or the broker was away, and no more of them than the driver leaves unsettled. It restarts
// brokers that other tests share, so it runs alone: make broker-campaign.
func TestBrokerCampaign(t *testing.T) {
	text := os.Getenv("ROTA_MESSAGES")
	if text == "" {
		t.Skip("ROTA_MESSAGES is not set: make broker-campaign runs this")
	}
	total, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range chosenPairs(t) {
		if p.store == "embedded" {
			t.Run(p.broker, func(t *testing.T) { newCampaign(t, p.serve(t)).run(total) })
		}
	}
}

// A campaign is what happens to the members of a group while messages flow.
type campaign struct {
	*crew
	labels   []string // of the members that are there
	frozen   map[string]bool
	started  int
	troubles []trouble
	counts   map[string]int // troubles and the rest, by kind
}

// A trouble may repeat messages of partitions, once each if an owner has died.
type trouble struct {
	kind       string
	from, to   time.Time
	partitions map[string]bool // nil for all of them, as often as it takes
}

// stormTime is for how long after it the end of a broker may repeat messages: owners notice it, and
// connect again with back-off.
const stormTime = time.Minute

func newCampaign(t *testing.T, h *host) *campaign {
	c := &campaign{crew: newCrew(t, h, 32), frozen: map[string]bool{}, counts: map[string]int{}}
	c.library, c.brisk, c.bound = true, true, 5*time.Minute // a broker that starts beside other work takes a while
	return c
}

func (c *campaign) run(total int) {
	for range 4 {
		c.labels = append(c.labels, c.another())
	}
	c.crew.join(false, c.labels...)
	c.everythingRuns()
	m := c.grindUpTo(total / c.parts)
	began := time.Now()
	rounds := 0
	for total -= total % c.parts; c.sink.reached() < total; rounds++ {
		for _, do := range []func(){c.grow, c.kill, c.restart, c.shrink, c.freeze} {
			do()
			c.goesOn(total / c.parts)
		}
	}
	took := time.Since(began)
	if err := m.finish(); err != nil {
		c.Error(err)
	}
	if err := c.judge(); err != nil {
		c.Error(err)
	}
	if rounds < 2 {
		c.Errorf("all was handled after %d rounds: that has shown little; use more messages", rounds)
	}
	c.accountFor(m)
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	c.Logf("%d messages in %v, %.0f a second; %v; %d accepted again, in %d stretches, the longest of %d; %d refused by their token; %d plans", total, took.Round(time.Second),
		float64(total)/took.Seconds(), c.counts, c.sink.again, len(c.sink.stretches), c.sink.longest(), c.sink.refused, c.crew.counts()["plan"])
}

func (c *campaign) another() string {
	c.started++
	return fmt.Sprint("m", c.started)
}

// everythingRuns waits until the members that are there own all partitions.
func (c *campaign) everythingRuns() {
	c.Helper()
	c.waitFor("everything to run", func() bool { return c.own(c.labels) == c.parts })
}

// waitFor waits, and replaces members that have ended by themselves: those of a machine that slept for
// longer than they may be without a lease.
func (c *campaign) waitFor(what string, is func() bool) {
	c.Helper()
	for lost := -1; ; lost = -1 {
		c.until(what, func() bool {
			lost = slices.IndexFunc(c.labels, func(l string) bool { return c.newest(l).over })
			return lost >= 0 || is()
		})
		if lost < 0 {
			return
		}
		if v := c.member(c.labels[lost]); !v.lapsed() {
			c.Fatalf("%s ended with %d: %s", v.label, v.code(), &v.stderr)
		}
		c.labels[lost] = c.another()
		c.crew.join(false, c.labels[lost])
	}
}

// lapsed tells whether the member has lost its lease.
func (m *member) lapsed() bool {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.told("lapsed") > 0
}

// goesOn waits until more of every partition is accepted, unless all of it was.
func (c *campaign) goesOn(most int) {
	c.Helper()
	before := c.sink.counts("")
	c.waitFor("every partition to go on", func() bool {
		now := c.sink.counts("")
		for n := range c.parts {
			if p := c.partition(n); now[p] <= before[p] && now[p] < most {
				return false
			}
		}
		return true
	})
}

// grow lets a member join.
func (c *campaign) grow() {
	l := c.another()
	c.labels = append(c.labels, l)
	c.crew.join(false, l)
	c.everythingRuns()
	c.counts["join"]++
}

// shrink lets the oldest member leave.
func (c *campaign) shrink() {
	v := c.remove()
	v.signal(syscall.SIGTERM)
	if code := v.code(); code != 0 && !v.lapsed() {
		c.Errorf("%s left with %d: %s", v.label, code, &v.stderr)
	}
	c.everythingRuns()
	c.counts["leave"]++
}

func (c *campaign) kill() {
	v := c.remove()
	c.suffer("kill", v, func() {
		v.signal(syscall.SIGKILL)
		v.code()
		c.replace()
	})
}

// freeze stops a member until others have all that it had.
func (c *campaign) freeze() {
	v := c.remove()
	c.suffer("freeze", v, func() {
		c.frozen[v.label] = true
		v.signal(syscall.SIGSTOP)
		c.everythingRuns()
		v.signal(syscall.SIGCONT)
		if code := v.code(); code != 3 && code != 4 && code != 5 {
			c.Errorf("%s woke and ended with %d: %s", v.label, code, &v.stderr)
		}
		c.replace()
	})
}

// restart ends the broker, in turn by a signal that it obeys and by one that it cannot, and starts it.
func (c *campaign) restart() {
	s := c.host.broker.server
	if s == nil {
		return
	}
	c.suffer("restart of the broker", nil, func() {
		end := s.Kill
		if c.counts["restart of the broker"]%2 == 1 {
			end = func() error { return s.Stop(c.Context()) }
		}
		if err := end(); err != nil {
			c.Fatal(err)
		}
		if err := s.Start(c.Context()); err != nil {
			c.Fatal(err)
		}
	})
}

// remove takes the oldest member from the list.
func (c *campaign) remove() *member {
	l := c.labels[0]
	c.labels = c.labels[1:]
	return c.member(l)
}

func (c *campaign) replace() {
	l := c.another()
	c.labels = append(c.labels, l)
	c.crew.join(false, l)
	c.everythingRuns()
}

// suffer notes a trouble: of what a member owns, or of the broker.
func (c *campaign) suffer(kind string, v *member, do func()) {
	x := trouble{kind: kind, from: time.Now()}
	if v != nil {
		x.partitions = map[string]bool{}
		c.mu.Lock()
		for p := range v.owns {
			x.partitions[c.partition(partNumber(p))] = true
		}
		c.mu.Unlock()
	}
	do()
	x.to = time.Now()
	if v == nil {
		x.to = x.to.Add(stormTime)
	}
	c.troubles = append(c.troubles, x)
	c.counts[kind]++
}

// lapses adds the members that lost their lease by themselves: the machine was too busy for them.
func (c *campaign) lapses() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		for _, e := range m.events {
			if e.Event == "lapsed" && !c.frozen[m.label] {
				c.troubles = append(c.troubles, trouble{kind: "lapse", from: e.T.Add(-5 * lease), to: e.T.Add(stormTime)})
				c.counts["lapse"]++
			}
		}
	}
}

// accountFor looks for what every stretch of repeated messages came from. A number whose publication
// had no answer may be at the broker twice.
func (c *campaign) accountFor(m *mill) {
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	twice := maps.Clone(m.unanswered)
	c.lapses()
	for _, s := range c.sink.stretches {
		if s.count <= twice[s.partition] {
			twice[s.partition] -= s.count
			continue
		}
		i := slices.IndexFunc(c.troubles, func(x trouble) bool {
			return !s.at.Before(x.from) && (x.partitions == nil && s.at.Before(x.to) || x.partitions[s.partition])
		})
		if i < 0 {
			c.Errorf("%s: %d messages were repeated under token %d after %d, and no owner had died nor the broker been away", s.partition, s.count, s.token, s.former)
			continue
		}
		if s.count > c.host.broker.window+twice[s.partition] {
			c.Errorf("%s: %d messages were repeated in a row after a %s, want %d at most", s.partition, s.count, c.troubles[i].kind, c.host.broker.window)
		}
		if x := c.troubles[i]; x.partitions != nil {
			delete(x.partitions, s.partition)
		}
	}
}
