package rotaredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// hidden is a secret that nothing may print.
const hidden = "hunter2SECRET"

// silent fails if one of these prints the secret in whatever way.
func silent(t testing.TB, what string, values ...any) {
	t.Helper()
	for _, v := range values {
		if text := fmt.Sprintf("%v %+v %#v %s %q %x", v, v, v, v, v, v); strings.Contains(text, hidden) || strings.Contains(text, fmt.Sprintf("%x", hidden)) {
			t.Errorf("%s tells the secret: %s", what, text)
		}
	}
}

// patience is the bound of every wait: servers and tests share a busy machine.
const patience = 60 * time.Second

// eventually waits until cond returns nil.
func eventually(t testing.TB, what string, cond func(ctx context.Context) error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := cond(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("after %v still not: %s: %v", patience, what, err)
		}
	}
}

// works makes one call of each verb and closes the store.
func works(t testing.TB, s rota.Store) error {
	t.Helper()
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const key = "orders/works"
	e, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, rota.ErrNotFound) {
		return err
	}
	rev, err := s.Put(ctx, key, []byte("v"), e.Rev)
	if err != nil {
		return err
	}
	for _, err := range s.Watch(ctx, "orders/") {
		if err != nil {
			return err
		}
		break
	}
	return s.Delete(ctx, key, rev)
}

// admin is an operator's connection to a server.
func admin(t testing.TB, s *rotatest.RealServer) func(words ...any) any {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { c.Close() })
	return func(words ...any) any {
		t.Helper()
		v, err := c.Do(t.Context(), words...).Result()
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return v
	}
}

// info is a field of INFO.
func info(do func(...any) any, field string) string {
	for line := range strings.Lines(do("INFO").(string)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return v
		}
	}
	return ""
}

func identity(t testing.TB, s rota.Store) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	id, err := s.(rota.Identifier).Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A watching is a watch of one key, or of a prefix with one key.
type watching struct {
	t     testing.TB
	mu    sync.Mutex
	last  string // the newest value
	began bool
	ended error
}

// begin starts a watch.
func begin(t testing.TB, s rota.Store, prefix string) *watching {
	w := &watching{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		for batch, err := range s.Watch(ctx, prefix) {
			w.mu.Lock()
			w.began = true
			for _, e := range batch {
				w.last = string(e.Value)
			}
			w.ended = err
			w.mu.Unlock()
		}
	}()
	return w
}

// watch starts a watch and waits for its first batch.
func watch(t testing.TB, s rota.Store, prefix string) *watching {
	t.Helper()
	w := begin(t, s, prefix)
	if err := w.until(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.began }); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watching) value() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// until waits for cond. It returns the error that the watch has ended with.
func (w *watching) until(cond func() bool) (ended error) {
	w.t.Helper()
	eventually(w.t, "what the watch should show", func(context.Context) error {
		w.mu.Lock()
		ended = w.ended
		w.mu.Unlock()
		if ended == nil && !cond() {
			return errors.New("not yet")
		}
		return nil
	})
	return ended
}

// shows waits until the watch shows a value, or has ended with an error if that is allowed.
func (w *watching) shows(t testing.TB, value string, orEnds bool) {
	t.Helper()
	if err := w.until(func() bool { return w.value() == value }); err != nil && !orEnds {
		t.Fatalf("the watch ended with %v before it showed %s", err, value)
	}
}

// put writes a value over whatever there is, as often as it takes.
func put(t testing.TB, s rota.Store, key, value string) (rev rota.Rev) {
	t.Helper()
	eventually(t, "a write of "+key, func(ctx context.Context) error {
		e, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, rota.ErrNotFound) {
			return err
		}
		rev, err = s.Put(ctx, key, []byte(value), e.Rev)
		return err
	})
	return rev
}
