package rotatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// A view collects what one watch shows.
type view struct {
	t      *storeTest
	prefix string
	first  map[string]rota.Entry // the first batch
	cancel context.CancelFunc
	began  chan struct{}
	ended  chan struct{}
	step   func(rota.Entry) // called for every entry shown

	mu      sync.Mutex
	cells   map[string]rota.Entry // the newest entry of each key, also if deleted; wait calls cond with mu held
	err     error
	changed chan struct{} // closed at the next batch
}

// view watches until the case ends. It returns after the first batch.
func (t *storeTest) view(c *client, prefix string) *view {
	t.Helper()
	return t.viewEach(c, prefix, func(rota.Entry) {})
}

func (t *storeTest) viewEach(c *client, prefix string, step func(rota.Entry)) *view {
	t.Helper()
	v := t.viewing(c, prefix, step)
	v.begins()
	return v
}

// viewing is viewEach without the wait for the first batch.
func (t *storeTest) viewing(c *client, prefix string, step func(rota.Entry)) *view {
	ctx, cancel := context.WithCancel(context.Background())
	v := &view{t: t, prefix: prefix, cells: map[string]rota.Entry{}, cancel: cancel, began: make(chan struct{}), ended: make(chan struct{}),
		changed: make(chan struct{}), step: step}
	go v.run(ctx, c.Store)
	t.Cleanup(func() {
		cancel()
		select {
		case <-v.ended:
		case <-time.After(t.bound):
			t.Errorf("the watch of %s does not end with its ctx", prefix)
		}
	})
	return v
}

// begins waits for the first batch.
func (v *view) begins() {
	v.t.Helper()
	select {
	case <-v.began:
	case <-v.ended:
		v.t.Fatalf("the watch of %s ended before its first batch: %v", v.prefix, v.err)
	case <-time.After(v.t.bound):
		v.t.Fatalf("the watch of %s showed nothing within %v, not even an empty batch", v.prefix, v.t.bound)
	}
}

func (v *view) run(ctx context.Context, s rota.Store) {
	defer close(v.ended)
	for batch, err := range s.Watch(ctx, v.prefix) {
		v.mu.Lock()
		if err != nil {
			v.err = err
		}
		v.add(batch)
		if v.first == nil && err == nil {
			v.first = maps.Clone(v.cells)
			close(v.began)
		}
		close(v.changed)
		v.changed = make(chan struct{})
		v.mu.Unlock()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil && ctx.Err() == nil {
		v.t.Errorf("the watch of %s ended by itself without an error", v.prefix)
		v.err = errors.New("no error")
	}
}

func (v *view) add(batch []rota.Entry) {
	seen := map[string]bool{}
	for _, e := range batch {
		switch {
		case seen[e.Key]:
			v.t.Errorf("the watch of %s showed %s twice in one batch", v.prefix, e.Key)
		case e.Key != v.prefix && !(strings.HasSuffix(v.prefix, "/") && strings.HasPrefix(e.Key, v.prefix)):
			v.t.Errorf("the watch of %s showed %s", v.prefix, e.Key)
		case e.Deleted && len(e.Value) > 0:
			v.t.Errorf("the watch of %s showed %s deleted, with a value", v.prefix, e.Key)
		case e.Deleted && v.first == nil:
			v.t.Errorf("the watch of %s began with %s, which is deleted", v.prefix, e.Key)
		case !e.Deleted && e.Rev == 0:
			v.t.Errorf("the watch of %s showed %s at revision 0", v.prefix, e.Key)
		}
		seen[e.Key] = true
		v.cells[e.Key] = e
		v.step(e)
	}
}

// wait waits until the view satisfies cond.
func (v *view) wait(what string, cond func() bool) {
	v.t.Helper()
	timeout := time.After(v.t.bound)
	for {
		over := v.over()
		v.mu.Lock()
		ok, changed := cond(), v.changed
		v.mu.Unlock()
		if ok {
			return
		}
		if over {
			v.t.Fatalf("the watch of %s ended (%v) before it showed %s", v.prefix, v.err, what)
		}
		select {
		case <-changed:
		case <-v.ended:
		case <-timeout:
			v.t.Fatalf("the watch of %s did not show %s within %v", v.prefix, what, v.t.bound)
		}
	}
}

func (v *view) over() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// waitFor waits until the watch shows a value at a revision.
func (v *view) waitFor(key, value string, rev rota.Rev) {
	v.t.Helper()
	v.wait(fmt.Sprintf("%s with %s at %d", key, brief(value), rev), func() bool {
		e := v.cells[key]
		return !e.Deleted && string(e.Value) == value && e.Rev == rev
	})
}

func (v *view) waitGone(key string) {
	v.t.Helper()
	v.wait(key+" deleted", func() bool { return v.cells[key].Deleted })
}

// ends expects the watch to end now.
func (v *view) ends(because string) {
	v.t.Helper()
	select {
	case <-v.ended:
	case <-time.After(v.t.prompt):
		v.t.Fatalf("the watch of %s goes on %v after %s", v.prefix, v.t.prompt, because)
	}
}
