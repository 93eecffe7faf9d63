package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/rotatest"
)

// TestMain turns the test into a process that serves a folder, or that consumes, if it was
// started as one: only another process can be killed, or measured.
func TestMain(m *testing.M) {
	if dir := os.Getenv("ROTANATS_TEST_SERVE"); dir != "" {
		s := embedded.Store("embed:" + dir)
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			_, err := s.Put(context.Background(), "host", nil, 0)
			if err == nil || errors.Is(err, rota.ErrConflict) {
				break
			}
			if time.Since(began) > 20*time.Second { // the serving process may just have been killed
				os.Stdout.WriteString(err.Error() + "\n")
				os.Exit(1)
			}
		}
		os.Stdout.WriteString("ready\n")
		os.Stdin.Read(make([]byte, 1)) // until the test closes it, in whatever way
		os.Exit(0)
	}
	if how := os.Getenv("ROTANATS_TEST_CONSUME"); how != "" {
		if err := slowChild(how, os.Getenv("ROTANATS_TEST_FOLDER")); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// host starts a process that uses a folder, and serves it if it is the first.
func host(t testing.TB, dir string) (kill func()) {
	t.Helper()
	kill, _ = hostProcess(t, dir)
	return kill
}

func hostProcess(t testing.TB, dir string) (kill func(), pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ROTANATS_TEST_SERVE="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		in.Close()
		cmd.Wait()
	})
	t.Cleanup(kill)
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil || string(line[:n]) != "ready\n" {
		t.Fatalf("the process that serves %s says %q, %v", dir, line[:n], err)
	}
	return kill, cmd.Process.Pid
}

func TestS2_Nats_GroupOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	rotatest.Group(t, func(*testing.T) rota.Store { return embedded.Store("embed:" + dir) })
}

// TestGroupEmbeddedWhileHostsDie kills the serving process repeatedly: each time another
// takes over, and no lease lapses.
func TestGroupEmbeddedWhileHostsDie(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	kill := host(t, dir)
	var deaths atomic.Int32
	during(t, func(rest func(time.Duration) bool) {
		for rest(1500 * time.Millisecond) {
			next := host(t, dir) // may take over when the serving process ends
			kill()
			kill = next
			deaths.Add(1)
		}
	}, func() {
		groupsUntil(t, func() bool { return deaths.Load() >= 3 }, func(*testing.T) rota.Store { return embedded.Store("embed:" + dir) })
	})
}

// groupsUntil runs one group after the other until enough has happened, however long one
// takes on this machine.
func groupsUntil(t *testing.T, enough func() bool, open func(*testing.T) rota.Store) {
	for i := 1; i == 1 || !enough() && !t.Failed(); i++ {
		t.Run(fmt.Sprint("group ", i), func(t *testing.T) { rotatest.Group(t, open) })
	}
}

func TestGroupOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Group(t, func(*testing.T) rota.Store { return rotanats.Store(s.URL() + "?sync=always") }, rotatest.WithLoss(s))
}

func TestGroupOneServerKilled(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	var kills atomic.Int32
	during(t, func(rest func(time.Duration) bool) {
		for rest(1500 * time.Millisecond) {
			if err := s.Kill(); err != nil {
				t.Error(err)
				return
			}
			if err := s.Start(context.Background()); err != nil {
				t.Error(err)
				return
			}
			kills.Add(1)
		}
	}, func() {
		groupsUntil(t, func() bool { return kills.Load() >= 3 }, func(*testing.T) rota.Store { return rotanats.Store(s.URL() + "?sync=always") })
	})
}

// TestS2_Nats_GroupOnACluster also kills and restarts followers of the bucket's stream, one
// after the other. The leader is not killed here: NATS takes up to 9 s to elect the next,
// longer than the lease.
func TestS2_Nats_GroupOnACluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	open := func(*testing.T) rota.Store { return rotanats.Store(c.URL() + "?sync=always") }
	t.Run("at rest", func(t *testing.T) { rotatest.Group(t, open) })
	t.Run("while followers die", func(t *testing.T) {
		var kills atomic.Int32
		during(t, func(rest func(time.Duration) bool) {
			for rest(300 * time.Millisecond) {
				n := c.follower(t, int(kills.Load()))
				if err := n.Kill(); err != nil {
					t.Error(err)
					return
				}
				if err := n.Start(context.Background()); err != nil {
					t.Error(err)
					return
				}
				if err := n.Ready(context.Background()); err != nil {
					t.Error(err)
					return
				}
				kills.Add(1)
			}
		}, func() {
			// A restart takes seconds: the next server must not die before this one is back.
			groupsUntil(t, func() bool { return kills.Load() > 0 }, open)
		})
	})
}

// TestLeaseLongerThanAnElection kills the bucket's leader while the lease is longer than an
// election: no member lapses and no partition moves.
func TestLeaseLongerThanAnElection(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	src := rotatest.NewMemSource(4, rotatest.Names(6)...)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave()
	for _, name := range []string{"c1", "c2", "c3"} {
		m, err := rota.New(rota.Config{Group: "election", Name: name, Store: rotanats.Store(c.URL() + "?sync=always"), Source: src, NewGroup: true,
			Lease: 30 * time.Second, Heartbeat: 2 * time.Second, Handle: func(context.Context, rota.Message) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		events := m.Events(context.Background())
		wg.Go(func() {
			if err := m.Run(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		wg.Go(func() {
			for e := range events {
				switch e.Kind {
				case rota.EventLapsed, rota.EventFenced, rota.EventDead:
					t.Errorf("%s: %s %s", name, e.Kind, e.Because)
				}
			}
		})
	}
	probe := rotanats.Store(c.URL() + "?sync=always")
	defer probe.Close()
	wait := func(what string, ok func(*rota.Status) bool) {
		t.Helper()
		until := time.Now().Add(time.Minute)
		for {
			st, err := rota.Inspect(t.Context(), probe, "election")
			if err == nil && ok(&st) {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("not within a minute: %s; %+v, %v", what, st, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	beat := func(st *rota.Status) (oldest time.Time) {
		for _, m := range st.Members {
			if oldest.IsZero() || m.Sent.Before(oldest) {
				oldest = m.Sent
			}
		}
		return oldest
	}
	var plan uint64
	wait("three owners of six partitions", func(st *rota.Status) bool { // a plan for those who came first may be there before
		owners := map[string]bool{}
		for i := range st.Partitions {
			owners[st.Partitions[i].Member] = true
		}
		plan = st.Plan
		return len(owners) == 3 && !owners[""] && len(st.Partitions) == 6 && len(st.Waits) == 0
	})
	leader := c.leader(t)
	for i, n := range c.Nodes {
		if []string{"n1", "n2", "n3"}[i] != leader {
			continue
		}
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		wait("everybody beats again", func(st *rota.Status) bool { return beat(st).After(died) })
		t.Logf("everybody beats again %v after the leader's death", time.Since(died).Round(100*time.Millisecond))
		if err := n.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		break
	}
	wait("the same plan", func(st *rota.Status) bool { return st.Plan == plan })
}

// follower is one of the servers that do not lead the bucket's stream.
func (c *cluster) follower(t testing.TB, i int) *rotatest.RealServer {
	leader := c.leader(t)
	names := []string{"n1", "n2", "n3"}
	for k := range names {
		if at := (i + k) % len(names); names[at] != leader {
			return c.Nodes[at]
		}
	}
	panic("unreachable")
}

// leader names the server that leads the bucket's stream.
func (c *cluster) leader(t testing.TB) string {
	nc, err := nats.Connect(c.URL())
	if err != nil {
		t.Error(err)
		return ""
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "KV_rota")
	if err != nil {
		t.Error(err)
		return ""
	}
	return s.CachedInfo().Cluster.Leader
}

// during runs trouble while f runs. rest waits, and returns whether to go on.
func during(t testing.TB, trouble func(rest func(time.Duration) bool), f func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		trouble(func(d time.Duration) bool {
			select {
			case <-done:
				return false
			case <-time.After(d):
				return true
			}
		})
	})
	defer wg.Wait()
	defer close(done)
	f()
}
