//go:build linux

package processes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/record"
)

// quietMax is how long a plan waits for more members at most: Qmax of the row.
const quietMax = 2 * time.Second

// Half of all members start at once, then the other half, then six tenths leave:
// one plan each, and every partition owned once. Members are goroutines of ten
// processes, each with a connection of its own to the server. ROTA_BURST says how
// many there are; the row wants 1000: make burst. On brokers other than NATS each member has a
// connection to the broker too, and messages flow through fewer partitions.
func TestS0_11_ByProcesses(t *testing.T) {
	size, prompt := 100, time.Duration(0)
	if v := os.Getenv("ROTA_BURST"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 10 || n%10 != 0 {
			t.Fatalf("ROTA_BURST %q: want a multiple of ten", v)
		}
		size = n
		prompt = 100 * time.Millisecond // rota's default
	} else {
		t.Parallel()
	}
	inTurn(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 1024)
		if prompt > 0 {
			c.prompt = prompt
		}
		var flow *mill
		if c.fed = h.broker.stream == nil; c.fed {
			c.parts = 128
			flow = c.grind(time.Second)
		}
		var all []*member
		for i := range 10 {
			all = append(all, c.startMany(fmt.Sprintf("p%d", i), size/10))
		}
		for _, m := range all {
			c.until(m.label+" to be ready", func() bool { return m.stderr.String() != "" })
		}
		before, atPeak := shared(all), peak(all)
		for _, burst := range []struct {
			what   string
			do     func()
			living []*member
		}{
			{"start", func() { open(all[:5]) }, all[:5]},
			{"more", func() { open(all[5:]) }, all},
			{"leave", func() { leave(all[:6]) }, all[6:]},
		} {
			plans := c.counts()["plan"]
			began := time.Now()
			c.since = int64(clock.Boot())
			burst.do()
			want := len(burst.living) * size / 10
			c.until(burst.what, func() bool {
				members, owned := 0, 0
				for _, m := range burst.living {
					members += m.told("joined")
					owned += m.told("start") - m.told("stopped")
				}
				return members == want && owned == c.parts && c.settled(want)
			})
			took := time.Since(began)
			spread := c.arrivals(burst.living)
			switch n, most := c.counts()["plan"]-plans, 1+int(spread/quietMax); {
			case n < 1 || n > most:
				t.Errorf("%s: %d plans, want %d at most: %q; %s", burst.what, n, most, c.whys(), c.course())
			case n > 1:
				t.Logf("%s: %d plans, since members came for longer than one may wait: %s", burst.what, n, c.course())
			}
			f := c.figure(burst.what)
			f.Members, f.Took, f.Plans = want, took.Seconds(), c.counts()["plan"]-plans
			if burst.what == "more" {
				f.Memory, f.Peak = (shared(all)-before)/float64(size), (peak(all)-atPeak)/float64(size)
				c.cost(t, &f)
				t.Logf("memory: %.3f MB resident per member, pages that processes share counted once; %.3f at the peak, those counted for each; processes without members not counted", f.Memory, f.Peak)
			}
			t.Logf("%s: %d members and %d partitions after %v; it took them %v to join; version %d of the plan", burst.what, want, c.parts, took.Round(time.Millisecond), spread, c.shown.Gen)
			f.report(t)
		}
		for _, m := range all[:6] {
			if code := m.code(); code != 0 {
				t.Errorf("%s ended with %d: %s", m.label, code, &m.stderr)
			}
		}
		if flow != nil {
			if err := flow.finish(); err != nil {
				t.Error(err)
			}
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// A figure is how one burst went; the times are seconds from its beginning. rota-dev bench
// page reads it.
type figure struct {
	Store   string  `json:"store"`
	What    string  `json:"what"`
	Members int     `json:"members"` // afterwards
	Took    float64 `json:"took"`    // until every partition runs where it should
	First   float64 `json:"first"`   // until the first member had joined, or left
	Last    float64 `json:"last"`    // and the last
	Plan    float64 `json:"plan"`    // until the newest plan was written
	Plans   int     `json:"plans"`
	Memory  float64 `json:"memory,omitempty"` // MB resident per member
	Peak    float64 `json:"peak,omitempty"`

	Requests    float64 `json:"requests,omitempty"` // a second, that the store gets from members at rest
	Connections int     `json:"connections,omitempty"`
}

func (c *crew) figure(what string) figure {
	f := figure{Store: c.host.name, What: what}
	kind := "joined"
	if what == "leave" {
		kind = "leaving"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		for i := range m.events {
			e := &m.events[i]
			switch at := time.Duration(e.Boot - c.since).Seconds(); {
			case at < 0:
			case e.Event == kind && f.First == 0:
				f.First, f.Last = at, at
			case e.Event == kind:
				f.First, f.Last = min(f.First, at), max(f.Last, at)
			case e.Event == "plan":
				f.Plan = max(f.Plan, at)
			}
		}
	}
	return f
}

// report appends the figure to the file that ROTA_BURST_REPORT names.
func (f *figure) report(t *testing.T) {
	name := os.Getenv("ROTA_BURST_REPORT")
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		err = errors.Join(json.NewEncoder(file).Encode(f), file.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// shared is the memory of processes that is resident, in MB: pages that several have, such
// as those of the program itself, count once.
func shared(all []*member) float64 { return resident(all, "smaps_rollup", "Pss") }

// peak is the most that was resident, in MB: pages that several have count for each.
func peak(all []*member) float64 { return resident(all, "status", "VmHWM") }

// resident is a figure of the kernel's about the memory of processes, in MB.
func resident(all []*member, file, figure string) (mb float64) {
	for _, m := range all {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", m.cmd.Process.Pid, file))
		_, after, _ := strings.Cut(string(b), figure+":")
		var kb float64
		fmt.Sscan(after, &kb)
		mb += kb / 1024
	}
	return mb
}

func open(all []*member) {
	for _, m := range all {
		m.open()
	}
}

func leave(all []*member) {
	for _, m := range all {
		m.signal(syscall.SIGTERM)
	}
}

// settled: the newest plan is one for that many members, and every partition runs
// as it says.
func (c *crew) settled(members int) bool {
	if c.shown == nil || len(c.shown.Members) != members {
		return false
	}
	for i, row := range c.shown.Rows {
		name := c.part(c.roster.Entries[i].Name)
		runs := func(m *member) bool { return !m.over && m.owns[name] == uint64(row.Token) }
		if row.State != record.Owned || !slices.ContainsFunc(c.members, runs) {
			return false
		}
	}
	return true
}

// whys is what the leaders said of their plans.
func (c *crew) whys() (all []string) {
	for _, p := range c.plans {
		all = append(all, p.why)
	}
	return all
}

// course tells how a burst went by the event files: when members had joined, with the
// pauses between them that were longer than a quiet time, and when plans were made.
func (c *crew) course() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	type step struct {
		at   int64
		plan bool
	}
	var all []step
	for _, m := range c.members {
		for i := range m.events {
			if e := &m.events[i]; e.Boot > c.since && (e.Event == "joined" || e.Event == "left" || e.Event == "plan") {
				all = append(all, step{e.Boot, e.Event == "plan"})
			}
		}
	}
	slices.SortFunc(all, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	n, last := 0, c.since
	for _, s := range all {
		at := time.Duration(s.at - c.since).Round(time.Millisecond)
		if pause := time.Duration(s.at - last); pause > 90*time.Millisecond {
			fmt.Fprintf(&out, "%d until a pause of %v that ends at %v; ", n, pause.Round(time.Millisecond), at)
		}
		if s.plan {
			fmt.Fprintf(&out, "a plan after %d, at %v; ", n, at)
		} else {
			n, last = n+1, s.at
		}
	}
	fmt.Fprintf(&out, "%d in all", n)
	return out.String()
}

// arrivals is how long it took members of some processes to join.
func (c *crew) arrivals(all []*member) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, last := int64(math.MaxInt64), int64(0)
	for _, m := range all {
		for i := range m.events {
			if e := &m.events[i]; e.Event == "joined" && e.Boot > c.since {
				first, last = min(first, e.Boot), max(last, e.Boot)
			}
		}
	}
	return time.Duration(max(0, last-first)).Round(time.Millisecond)
}
