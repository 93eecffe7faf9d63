package rotaredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// A watching shows the newest value of one key, and how the watch ended.
type watching struct {
	values chan string
	ended  chan error
}

func watch(t testing.TB, s rota.Store, key string) *watching {
	w := &watching{make(chan string, 1000), make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	began := make(chan struct{})
	go func() {
		first := true
		var last error
		for batch, err := range s.Watch(ctx, key) {
			for _, e := range batch {
				w.values <- string(e.Value)
			}
			if last = err; first {
				first = false
				close(began)
			}
		}
		w.ended <- last
	}()
	select {
	case <-began:
	case <-time.After(patience):
		t.Fatalf("the watch of %s does not begin", key)
	}
	return w
}

// shows waits until the watch shows a value, or has ended with an error if that is allowed.
func (w *watching) shows(t testing.TB, value string, orEnds bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case v := <-w.values:
			if v == value {
				return
			}
		case err := <-w.ended:
			if !orEnds || err == nil {
				t.Fatalf("the watch ended with %v before it showed %s", err, value)
			}
			return
		case <-timeout:
			t.Fatalf("the watch neither shows %s nor ends", value)
		}
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
