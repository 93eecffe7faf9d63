package rotarabbit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A member is one of a group of its own.
type member struct {
	t     testing.TB
	leave context.CancelFunc
	ended chan struct{}
	err   error // of Run

	mu         sync.Mutex
	conditions []string // code: text
	handled    map[string]int
}

func newMember(t testing.TB, src rota.Source) *member {
	t.Helper()
	return joinGroup(t, "orders", rotatest.NewMemStore(), src)
}

// joinGroup runs a member. Each message goes to also, if there is one.
func joinGroup(t testing.TB, group string, store rota.Store, src rota.Source, also ...func(rota.Message)) *member {
	t.Helper()
	m := &member{t: t, ended: make(chan struct{}), handled: map[string]int{}}
	r, err := rota.New(rota.Config{Group: group, Store: store, Source: src, NewGroup: true,
		Handle: func(_ context.Context, msg rota.Message) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.handled[msg.Partition]++
			for _, f := range also {
				f(msg)
			}
			if string(msg.Value) == "bad" {
				return rota.ErrBad
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.leave = cancel
	events := r.Events(context.Background())
	go func() {
		for e := range events {
			if e.Kind == rota.EventCondition {
				m.mu.Lock()
				m.conditions = append(m.conditions, fmt.Sprintf("%s: %s", e.Condition, e.Because))
				m.mu.Unlock()
			}
		}
	}()
	go func() {
		defer close(m.ended)
		m.err = r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-m.ended:
		case <-time.After(patience):
			t.Errorf("the member does not end")
		}
	})
	return m
}

// reports waits until the member has reported a condition that says this.
func (m *member) reports(says string) {
	m.t.Helper()
	eventually(m.t, "it reports "+says, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, c := range m.conditions {
			if strings.Contains(c, says) {
				return nil
			}
		}
		return fmt.Errorf("it reports %q", m.conditions)
	})
}

// handles waits until it has handled so many messages of a partition.
func (m *member) handles(partition string, n int) {
	m.t.Helper()
	eventually(m.t, fmt.Sprintf("%d messages of %s are handled", n, partition), func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.handled[partition] < n {
			return fmt.Errorf("%d are; it reports %q", m.handled[partition], m.conditions)
		}
		return nil
	})
}
