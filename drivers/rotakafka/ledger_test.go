package rotakafka_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// bound is the timeout of every wait.
const bound = 60 * time.Second

// A ledger has what the members of one group have handled and reported.
type ledger struct {
	testing.TB
	group string
	store *rotatest.MemStore

	mu       sync.Mutex
	changed  chan struct{}
	got      map[string][]rota.Message // partition → handled, oldest first
	reported []string                  // lines of the members' logs
	fail     func(msg rota.Message) error
}

func newLedger(t testing.TB) *ledger {
	return &ledger{TB: t, group: "g" + rand.Text()[:8], store: rotatest.NewMemStore(), got: map[string][]rota.Message{}, changed: make(chan struct{})}
}

// note changes the ledger and wakes those who wait.
func (l *ledger) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ledger) handle(_ context.Context, msg rota.Message) (err error) {
	l.note(func() {
		if l.fail != nil {
			err = l.fail(msg)
		}
		if err == nil {
			l.got[msg.Partition] = append(l.got[msg.Partition], msg)
		}
	})
	return err
}

// Write gets the lines of the members' logs.
func (l *ledger) Write(line []byte) (int, error) {
	l.note(func() { l.reported = append(l.reported, string(line)) })
	return len(line), nil
}

// wait waits for a condition of the ledger.
func (l *ledger) wait(what string, cond func() bool) {
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
			l.mu.Lock()
			defer l.mu.Unlock()
			counts := map[string]int{}
			for p, list := range l.got {
				counts[p] = len(list)
			}
			l.Fatalf("after %v still not: %s; handled: %v; reported:\n%s", bound, what, counts, strings.Join(l.reported, ""))
		}
	}
}

// tells waits until a condition was reported that has all these words.
func (l *ledger) tells(words ...string) {
	l.Helper()
	l.wait(fmt.Sprintf("a condition says %q", words), func() bool {
		for _, text := range l.reported {
			all := true
			for _, w := range words {
				all = all && strings.Contains(text, w)
			}
			if all {
				return true
			}
		}
		return false
	})
}

// handled waits until a partition has handled this many messages.
func (l *ledger) handled(partition string, n int) {
	l.Helper()
	l.wait(fmt.Sprintf("%d messages of %s are handled", n, partition), func() bool { return len(l.got[partition]) >= n })
}

// values are the values of the messages that a partition has handled.
func (l *ledger) values(partition string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.got[partition] {
		out = append(out, string(m.Value))
	}
	return out
}

// member runs a member until leave is called or the test ends.
func (l *ledger) member(source rota.Source, tune ...func(*rota.Config)) (leave func()) {
	l.Helper()
	c := rota.Config{Group: l.group, Store: l.store.Open(), Source: source, NewGroup: true, Handle: l.handle, Log: slog.New(slog.NewTextHandler(l, nil)),
		Lease: 4 * time.Second, Heartbeat: time.Second, Abort: func(err error) { l.Errorf("abort: %v", err) }}
	for _, f := range tune {
		f(&c)
	}
	m, err := rota.New(c)
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		m.Run(ctx)
	}()
	leave = func() {
		cancel()
		select {
		case <-over:
		case <-time.After(bound):
			l.Errorf("a member does not end")
		}
	}
	l.Cleanup(leave)
	return leave
}

// numbered are values with numbers from one to another.
func numbered(from, to int) (out [][]byte) {
	for n := from; n <= to; n++ {
		out = append(out, fmt.Appendf(nil, "%d", n))
	}
	return out
}
