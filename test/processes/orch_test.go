//go:build linux

package processes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/clock"
)

// A platform starts and ends members because their leader asks for it, by a webhook.
type platform struct {
	c       *crew
	asked   chan fleet // the newest request
	ended   map[*member]bool
	removed []removal
	started int
}

// A removal is what the leader asked for, at an instant of the boot clock.
type removal struct {
	*member
	at int64
}

type fleet struct {
	at     int64
	Want   int
	Remove []struct{ Name, Session string }
}

// newPlatform makes the members of c ask it for others.
func newPlatform(c *crew) *platform {
	p := &platform{c: c, asked: make(chan fleet, 1), ended: map[*member]bool{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := fleet{at: int64(clock.Boot())}
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil || r.Header.Get("Webhook-Signature") == "" {
			http.Error(w, "malformed or unsigned", http.StatusBadRequest)
			return
		}
		select {
		case <-p.asked: // an older one
		default:
		}
		p.asked <- f
	}))
	c.Cleanup(s.Close)
	secret := filepath.Join(c.dir, "secret")
	if err := os.WriteFile(secret, []byte("a secret of more than 24 bytes"), 0o600); err != nil {
		c.Fatal(err)
	}
	c.tune = append(c.tune, "--scaler", "webhook:"+s.URL+"?secret-file="+neturl.QueryEscape(secret))
	return p
}

// until does what it is asked for, until cond holds.
func (p *platform) until(what string, cond func() bool) {
	p.c.Helper()
	began := time.Now()
	for time.Since(began) < 2*patience {
		select {
		case f := <-p.asked:
			p.obey(f)
		case <-time.After(20 * time.Millisecond):
		}
		p.c.mu.Lock()
		ok := cond()
		p.c.mu.Unlock()
		if ok {
			p.c.Logf("%s after %v", what, time.Since(began).Round(time.Second))
			return
		}
	}
	p.c.Fatalf("no %s: %d members", what, p.alive())
}

// alive counts the processes that were not asked to end.
func (p *platform) alive() (n int) {
	for _, m := range p.c.members {
		if !m.over && !p.ended[m] {
			n++
		}
	}
	return n
}

func (p *platform) obey(f fleet) {
	c := p.c
	c.mu.Lock()
	for _, r := range f.Remove {
		m := c.newest(r.Name)
		if m.over || p.ended[m] || m.session != r.Session {
			continue
		}
		p.ended[m] = true
		p.removed = append(p.removed, removal{m, f.at})
		m.signal(syscall.SIGTERM)
	}
	missing := f.Want - p.alive()
	c.mu.Unlock()
	var names []string
	for range missing {
		p.started++
		names = append(names, fmt.Sprintf("x%d", p.started))
	}
	if len(names) > 0 {
		c.join(false, names...)
	}
}

// The group sizes itself: one member is there, and the load needs two, then four, then two
// again, each time with one to spare. Members come before partitions are sent to them. The
// ones that go own nothing when they are ended. The leader is killed in the middle.
func TestS1_Orch_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 12)
		c.tune = []string{"--strategy", "pack", "--capacity", "60", "--interval", "2s", "--cool-down", "1s", "--scale", "1..8", "--up-after", "1s", "--down-after", "2s"}
		p := newPlatform(c)
		c.join(false, "c1")
		m := c.grind(200 * time.Millisecond) // 60 a second: what two members are given
		p.until("growth to three", func() bool { return p.alive() >= 3 && c.running() == 12 && len(c.busyOnes()) >= 2 })
		for q := range m.each {
			m.each[q].Store(3)
		}
		p.until("growth to five", func() bool { return p.alive() >= 5 && c.running() == 12 && len(c.busyOnes()) >= 4 })

		c.mu.Lock()
		i := slices.IndexFunc(c.members, func(m *member) bool { return m.leads && !m.over })
		c.mu.Unlock()
		if i < 0 {
			t.Fatal("nobody leads")
		}
		c.members[i].signal(syscall.SIGKILL)
		p.until("five without the leader that was killed", func() bool { return c.members[i].over && p.alive() >= 5 && c.running() == 12 })

		for q := range m.each {
			m.each[q].Store(1)
		}
		before := len(p.removed)
		p.until("three again", func() bool { return p.alive() <= 3 && len(p.removed) > before && c.running() == 12 })
		c.untilShown("the size", func(st *rota.Status) bool {
			return st.Size != nil && st.Size.Wanted <= 3 && st.Size.Have <= 3 && !st.Size.Asked.IsZero() && st.Size.Answer == ""
		})
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
		p.judge()
	})
}

// judge asks for what those that were removed owned when that was asked for. What they say
// reaches the test late on a busy machine: all of it is there when they have ended.
func (p *platform) judge() {
	for _, r := range p.removed {
		r.code()
		owned := map[string]bool{}
		p.c.mu.Lock()
		for i := range r.events {
			switch e := &r.events[i]; {
			case e.Boot > r.at:
			case e.Event == "start":
				owned[e.Partition] = true
			case e.Event == "stopped":
				delete(owned, e.Partition)
			}
		}
		p.c.mu.Unlock()
		if len(owned) > 0 {
			p.c.Errorf("%s was to be removed while it owned %d partitions", r.label, len(owned))
		}
	}
}

// busyOnes are the members that own something.
func (c *crew) busyOnes() (out []*member) {
	for _, m := range c.members {
		if len(m.owns) > 0 && !m.over {
			out = append(out, m)
		}
	}
	return out
}
