package rota_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A lateClass is a store that learns its class at the first call of each life.
type lateClass struct {
	*rotatest.MemStore
	classes []rota.Class // one for each life

	mu    sync.Mutex
	life  int
	known rota.Class
	ended chan struct{} // this life
}

func (l *lateClass) Class() rota.Class {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

func (l *lateClass) Identity(context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = l.classes[l.life]
	return fmt.Sprint("life ", l.life), nil
}

// restart ends all watches, and nothing else: the store keeps its records.
func (l *lateClass) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life++
	close(l.ended)
	l.ended = make(chan struct{})
}

func (l *lateClass) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		l.mu.Lock()
		ended := l.ended
		l.mu.Unlock()
		inner, end := context.WithCancel(ctx)
		defer end()
		go func() {
			select {
			case <-ended:
				end()
			case <-inner.Done():
			}
		}()
		for batch, err := range l.MemStore.Watch(inner, prefix) {
			if err == nil && !yield(batch, nil) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(nil, errors.New("the server was started again"))
		}
	}
}

// TestAClassLearntLate restarts servers whose class is known after the first call. A
// restart ends a session only on a store of class C, and a class that was C once counts
// until the session ends.
func TestAClassLearntLate(t *testing.T) {
	for _, c := range []struct {
		classes  []rota.Class
		newGroup bool
		lost     bool
	}{
		{[]rota.Class{rota.ClassB, rota.ClassB}, true, false},
		{[]rota.Class{rota.ClassB, rota.ClassB}, false, false},
		{[]rota.Class{rota.ClassC, rota.ClassC}, true, true},
		{[]rota.Class{rota.ClassC, rota.ClassB}, true, true},
		{[]rota.Class{rota.ClassB, rota.ClassC}, true, true},
		{[]rota.Class{rota.ClassUnknown, rota.ClassUnknown}, true, true},
	} {
		t.Run(fmt.Sprint(c.classes, " new ", c.newGroup), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, 1)
				st := &lateClass{MemStore: rotatest.NewMemStore(), classes: c.classes, ended: make(chan struct{})}
				m, leave := g.start("c1", func(cfg *rota.Config) { cfg.Store, cfg.NewGroup = st, c.newGroup })
				started, lost := first(m, kind(rota.EventStart)), first(m, kind(rota.EventWritesLost))
				pass(10 * time.Second)
				if started().IsZero() {
					t.Error("nothing has started")
				}
				st.restart()
				pass(10 * time.Second)
				if lost().IsZero() == c.lost {
					t.Errorf("the session ended by lost writes is %v, want %v", !c.lost, c.lost)
				}
				if err := leave(); errors.Is(err, rota.ErrStoreLost) != c.lost {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}
