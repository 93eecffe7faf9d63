package rotatest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// TestStaleReadsArePermittedForAWhile: reads that are late by milliseconds pass with the option
// alone, and reads that stay late do not pass at all.
func TestStaleReadsArePermittedForAWhile(t *testing.T) {
	open := func(delay time.Duration) func() rota.Store {
		m := &laggard{Store: NewMemStore(), delay: delay, was: map[string]change{}}
		return func() rota.Store { return m }
	}
	bites(t, "holds", func(tb testing.TB) { seenAtOnce(newStoreTest(tb, open(4*time.Millisecond))) })
	bites(t, "holds", func(tb testing.TB) { seenAtOnce(newStoreTest(tb, open(time.Hour), StaleReads())) })
	synctest.Test(t, func(t *testing.T) {
		if said := probed(t, func(tb testing.TB) { seenAtOnce(newStoreTest(tb, open(4*time.Millisecond), StaleReads())) }); said != "" {
			t.Error(said)
		}
	})
}

// A laggard shows a cell as it was, for a while after each change.
type laggard struct {
	rota.Store
	delay time.Duration
	mu    sync.Mutex
	was   map[string]change
}

type change struct {
	rota.Entry
	err error
	at  time.Time
}

func (l *laggard) note(ctx context.Context, key string) {
	e, err := l.Store.Get(ctx, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.was[key] = change{e, err, time.Now()}
}

func (l *laggard) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	l.note(ctx, key)
	return l.Store.Put(ctx, key, value, prev)
}

func (l *laggard) Delete(ctx context.Context, key string, prev rota.Rev) error {
	l.note(ctx, key)
	return l.Store.Delete(ctx, key, prev)
}

func (l *laggard) Get(ctx context.Context, key string) (rota.Entry, error) {
	l.mu.Lock()
	was, ok := l.was[key]
	l.mu.Unlock()
	if ok && was.err == nil && time.Since(was.at) < l.delay {
		return was.Entry, nil
	}
	return l.Store.Get(ctx, key)
}

func (l *laggard) Close() error { return nil }
