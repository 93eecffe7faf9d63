package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/ops"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/clock"
)

// strait is a way to a server that can be cut: nothing passes then, and nobody
// is told.
type strait struct {
	net.Listener
	to   string
	mu   sync.Mutex
	open chan struct{} // closed while it is open
	cut  bool
}

func newStrait(t *testing.T, to string) *strait {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &strait{Listener: l, to: to, open: make(chan struct{})}
	close(s.open)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.join(c)
		}
	}()
	return s
}

func (s *strait) join(c net.Conn) {
	defer c.Close()
	d, err := net.Dial("tcp", s.to)
	if err != nil {
		return
	}
	defer d.Close()
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			s.mu.Lock()
			open := s.open
			s.mu.Unlock()
			<-open
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				break
			}
		}
		done <- struct{}{}
	}
	go pass(c, d)
	go pass(d, c)
	<-done
}

func (s *strait) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut, s.open = true, make(chan struct{})
}

func (s *strait) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		s.cut = false
		close(s.open)
	}
}

// One of five is cut off: it has stopped before anyone else starts, and ends
// itself; its own event lines tell the story. Twice: it comes back too late, and
// never.
func TestS0_05_CutOffProcessStopsFirstAndEndsItself(t *testing.T) {
	for _, c := range []struct {
		name, orphan string
		heal         bool
		code         int
		story        []string
	}{
		{"healed", "30s", true, cli.ExitFenced, []string{"store_lost", "stop", "stopped", "lapsed", "store_back", "fenced"}},
		{"never healed", "0s", false, cli.ExitOrphaned, []string{"store_lost", "stop", "stopped", "orphaned"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := trial.FreePort(t)
			y := newYard(t, "--listen", address)
			key := filepath.Join(y.data(), "rota.nkey")
			seed, err := os.ReadFile(key)
			if err != nil {
				t.Fatal(err)
			}
			s := newStrait(t, address)
			defer s.Heal()
			names := []string{"c1", "c2", "c3", "c4"}
			flags := []string{"--source", "none:?partitions=10", "--own", "exec:sleep 1000"}
			for _, n := range names {
				y.member(n, flags...)
			}
			c5 := y.member("c5", append(flags, "--orphan", c.orphan, "--store", "nats://"+s.Addr().String()+"?sync=always&nkey="+key)...)
			trial.Until(t, "two each", func() bool {
				return mapIs(spreadOf(y), map[string]int{"c1": 2, "c2": 2, "c3": 2, "c4": 2, "c5": 2})
			})
			cut := int64(clock.Boot())
			s.Cut()
			trial.Until(t, "everything elsewhere", func() bool {
				sp := spreadOf(y)
				return len(sp) == 4 && sp["c1"]+sp["c2"]+sp["c3"]+sp["c4"] == 10
			})
			if c.heal {
				s.Heal()
			}
			if code := c5.Code(); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			if strings.Contains(c5.Err.String(), strings.TrimSpace(string(seed))) {
				t.Error("it tells a secret")
			}
			var files []string
			for _, n := range append(names, "c5") {
				files = append(files, filepath.Join(y.dir, n+".jsonl"))
			}
			y.must(append([]string{"check"}, files...)...)
			lines, err := ops.ReadLines(files[4])
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, l := range lines {
				if l.Boot > cut && !slices.Contains(told, l.Event) {
					told = append(told, l.Event)
				}
			}
			trial.In(t, strings.Join(told, " "), c.story...)
			plans := 0
			for _, f := range files[:4] {
				lines, err := ops.ReadLines(f)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range lines {
					joined := slices.ContainsFunc(l.Causes, func(c rota.Cause) bool { return c.Why == rota.WhyJoined })
					if l.Event == "plan" && !joined {
						plans++
					}
				}
			}
			if plans != 1 {
				t.Errorf("%d plans for one cut, want 1", plans)
			}
		})
	}
}
