package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A ledger checks the order of messages that handlers get. Handlers always succeed, so a
// message may arrive only when all before it were handled: otherwise it is out of order, or
// one was lost. A handled message may be redelivered, since a server that dies may have
// lost its acknowledgement.
type ledger struct {
	testing.TB
	slow     time.Duration           // the time that a message takes
	other    func(rota.Message) bool // looks at a message first, and tells whether it is not one of the ledger's; may be nil
	mu       sync.Mutex
	done     map[string]int                     // partition → messages handled from the front
	again    int                                // redelivered messages
	sessions map[string]map[rota.Token][]string // partition → token → sessions that acted under it
	changed  chan struct{}
}

func newLedger(t testing.TB) *ledger {
	return &ledger{TB: t, done: map[string]int{}, sessions: map[string]map[rota.Token][]string{}, changed: make(chan struct{})}
}

func (l *ledger) handle(_ context.Context, msg rota.Message) error {
	time.Sleep(l.slow) // work
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.other != nil && l.other(msg) {
		return nil
	}
	p, n := msg.Partition, 0
	if _, err := fmt.Sscanf(string(msg.Value), p+" %d", &n); err != nil {
		l.Errorf("%s got %q", p, msg.Value)
	}
	switch done := l.done[p]; {
	case n == done+1:
		l.done[p] = n
	case n > done+1:
		l.Errorf("%s: message %d came when %d were done", p, n, done)
	default:
		l.again++
	}
	if l.sessions[p] == nil {
		l.sessions[p] = map[rota.Token][]string{}
	}
	if by := l.sessions[p][msg.Token]; !slices.Contains(by, msg.Session) {
		l.sessions[p][msg.Token] = append(by, msg.Session)
		if len(by) > 0 {
			l.Errorf("%s: sessions %s and %s both act under token %d", p, by[0], msg.Session, msg.Token)
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

func (l *ledger) wait(what string, bound time.Duration, cond func() bool) {
	l.Helper()
	for timeout := time.After(bound); ; {
		l.mu.Lock()
		ok, changed := cond(), l.changed
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			l.Fatalf("after %v still not: %s; done: %v", bound, what, l.done)
		}
	}
}

// member runs a member until the test ends.
func (l *ledger) member(name string, store rota.Store, source rota.Source, tune ...func(*rota.Config)) (ended chan error) {
	l.Helper()
	return l.memberUntil(context.Background(), name, store, source, tune...)
}

// memberUntil runs a member until ctx ends.
func (l *ledger) memberUntil(ctx context.Context, name string, store rota.Store, source rota.Source, tune ...func(*rota.Config)) (ended chan error) {
	l.Helper()
	c := rota.Config{Group: "g", Name: name, Store: store, Source: source, NewGroup: true, Handle: l.handle,
		Lease: 2 * time.Second, Heartbeat: 600 * time.Millisecond,
		Abort: func(err error) { l.Errorf("abort: %v", err) }}
	for _, f := range tune {
		f(&c)
	}
	m, err := rota.New(c)
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended = make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		ended <- m.Run(ctx)
	}()
	l.Cleanup(func() {
		cancel()
		select {
		case <-over:
		case <-time.After(30 * time.Second):
			l.Errorf("%s does not end", name)
		}
	})
	return ended
}

// survives publishes messages while trouble runs, and checks that each is handled in order.
func survives(t *testing.T, b *broker, bound time.Duration, trouble func()) {
	l := newLedger(t)
	mem := rotatest.NewMemStore()
	for _, name := range []string{"a", "b"} {
		l.member(name, mem.Open(), b.Source())
	}
	stop, sent := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { sent <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			n++
			for _, p := range b.names {
				if err := b.Publish(p, fmt.Appendf(nil, "%s %d", p, n)); err != nil {
					t.Errorf("publish: %v", err)
					return
				}
			}
		}
	}()
	halt := sync.OnceValue(func() int { close(stop); return <-sent })
	t.Cleanup(func() { halt() })
	all := func(n int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(b.names, func(p string) bool { return l.done[p] < n })
		}
	}
	l.wait("messages flow", bound, all(20))
	trouble()
	n := halt()
	l.wait(fmt.Sprintf("all %d messages are handled", n), bound, all(n))
	t.Logf("%d messages each, %d came again", n, l.again)
}

func TestSourceOneServerKilled(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	survives(t, newBroker(t, s.URL()), 30*time.Second, func() {
		for range 4 {
			if err := errors.Join(s.Kill(), s.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond) // so that something is going on at the next
		}
	})
}

// TestSourceEmbeddedWhileHostsDie kills the processes that run the folder's server, while a
// source uses it.
func TestSourceEmbeddedWhileHostsDie(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	kill := host(t, dir)
	b := newBroker(t, "embed:"+dir)
	survives(t, b, 30*time.Second, func() {
		for range 4 {
			next := host(t, dir)
			kill()
			kill = next
			time.Sleep(500 * time.Millisecond) // so that something is going on at the next
		}
	})
}

// TestSourceClusterKilled kills each server in turn, leaders too: messages wait for an
// election, and none is lost.
func TestSourceClusterKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	b := newBroker(t, c.URL(), func(c *jetstream.StreamConfig) { c.Replicas = 3 })
	survives(t, b, 60*time.Second, func() {
		for _, n := range c.Nodes {
			if err := errors.Join(n.Kill(), n.Start(t.Context()), n.Ready(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestRestoredServerEndsEverySession restores a server to a state before the members' last
// heartbeats. Every member that has sent one since must end its session, and the next
// sessions act under new tokens.
func TestRestoredServerEndsEverySession(t *testing.T) {
	for name, query := range map[string]string{"class C": "", "vouched for": "?sync=always"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rotatest.StartNATS(t)
			setBack(t, s, s.URL()+query, func() error { return errors.Join(s.Stop(t.Context())) })
		})
	}
	t.Run("three servers", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		setBack(t, c, c.URL()+"?sync=always", func() error { return c.Stop(t.Context()) })
	})
}

func setBack(t *testing.T, s rotatest.Server, url string, stop func() error) {
	const members, partitions = 3, 6
	l := newLedger(t)
	src := rotatest.NewMemSource(4, rotatest.Names(partitions)...)
	open := func() rota.Store {
		st := rotanats.Store(url)
		t.Cleanup(func() { st.Close() })
		return st
	}
	n := 0
	more := func() {
		n++
		for i, p := range rotatest.Names(partitions) {
			src.Publish(p, fmt.Appendf(nil, "%s %d", rotatest.Names(partitions)[i], n))
		}
	}
	all := func() bool {
		return len(l.done) == partitions && !slices.ContainsFunc(rotatest.Names(partitions), func(p string) bool { return l.done[p] < n })
	}
	var ended []chan error
	for i := range members {
		ended = append(ended, l.member(fmt.Sprint("old", i), open(), src))
	}
	more()
	l.wait("the group works", 30*time.Second, all)

	watcher := open()
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	snap, err := s.Snapshot()
	if err := errors.Join(err, s.Thaw()); err != nil {
		t.Fatal(err)
	}
	thawed := time.Now()
	everyoneBeat(t, watcher, members, thawed)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Restore(snap), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	for i, e := range ended {
		select {
		case err := <-e:
			if err == nil {
				t.Errorf("member %d left by itself", i)
			}
			t.Logf("member %d: %v", i, err)
		case <-time.After(45 * time.Second):
			t.Fatalf("member %d lives on in a store that was set back", i)
		}
	}
	for i := range members {
		l.member(fmt.Sprint("new", i), open(), src, func(c *rota.Config) { c.NewGroup = false })
	}
	more()
	l.wait("new members go on", 60*time.Second, all)
}

// everyoneBeat waits until each member has sent a heartbeat that was stored after
// the given time.
func everyoneBeat(t *testing.T, s rota.Store, members int, after time.Time) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		st, err := rota.Inspect(ctx, s, "g")
		cancel()
		n := 0
		for _, m := range st.Members {
			if m.State == "LIVE" && m.Sent.After(after) {
				n++
			}
		}
		if n == members {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d members have beaten, error %v", n, members, err)
		}
	}
}
