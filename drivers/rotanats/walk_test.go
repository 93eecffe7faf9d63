package rotanats_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A walk goes once through all that members ask the broker for: they join, consume,
// dead-letter, lose their consumer, die, replay, hand over and leave.
type walk struct {
	*ledger
	*findings
	g   *guarded
	mem *rotatest.MemStore
	bad atomic.Bool // message 4 is a bad one
	n   int
}

// walkTime is the timeout of each step. A partition that was refused is tried again after 10 s
// at most.
const walkTime = 60 * time.Second

func (w *walk) begin(name string) (leave, cut func()) {
	w.Helper()
	return w.keep(name, w.mem, w.g.Source, w.tune, func(c *rota.Config) {
		c.Handle = func(ctx context.Context, m rota.Message) error {
			err := w.handle(ctx, m)
			if strings.HasSuffix(string(m.Value), " 4") && w.bad.Load() {
				return fmt.Errorf("%w: for a walk", rota.ErrBad)
			}
			return err
		}
	})
}

func (w *walk) flow(n int) {
	w.Helper()
	w.g.flow(w.n+1, w.n+n)
	w.n += n
	w.ledger.wait(fmt.Sprint("all up to ", w.n), walkTime, w.reached(w.g.broker, w.n))
}

func (w *walk) through(t *testing.T) {
	t.Helper()
	if err := w.g.js.DeleteStream(t.Context(), "KV_rota-sources-now"); err != nil {
		t.Fatal(err)
	}
	w.bad.Store(true)
	_, cut := w.begin("a")
	w.flow(10)
	if err := w.g.js.DeleteConsumer(t.Context(), w.g.stream, w.g.consumer(w.g.names[0])); err != nil {
		t.Fatal(err)
	}
	w.flow(5)
	cut()
	leave, _ := w.begin("b")
	w.flow(5)
	w.replay(t)
	leave()
	leave, _ = w.begin("c")
	w.flow(5)
	leave()
}

// replay orders a replay of the dead letter and waits until the letter is gone.
func (w *walk) replay(t *testing.T) {
	t.Helper()
	w.bad.Store(false)
	for deadline := time.Now().Add(walkTime); ; time.Sleep(20 * time.Millisecond) {
		dead, err := w.g.Dead()
		if err != nil {
			t.Fatal(err)
		}
		if len(dead) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d dead letters are left", len(dead))
		}
		if err := rota.Replay(t.Context(), w.mem.Open(), "g", w.g.names[0], "1"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEachRightOfASource takes one right of the page away. A condition names it, and
// when it was given back the walk comes to its end. With all of them, no right is missed.
func TestEachRightOfASource(t *testing.T) {
	for _, right := range append(sourceRights(t, "ORDERS"), "") {
		name := right
		if right == "" {
			name = "all of them"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t)
			g.names = g.names[:1]
			right := strings.ReplaceAll(right, "ORDERS", g.stream)
			w := &walk{ledger: newLedger(t), findings: newFindings(), g: g, mem: rotatest.NewMemStore()}
			if right == "" {
				w.through(t)
				if text := w.find("does not let this user"); text != "" {
					t.Error(text)
				}
				return
			}
			g.grant(t, slices.DeleteFunc(slices.Clone(g.may), func(s string) bool { return s == right }))
			restored := make(chan struct{})
			go func() {
				defer close(restored)
				w.findings.wait(t, strings.TrimRight(right, "*>"))
				g.grant(t, g.may)
			}()
			w.through(t)
			<-restored
		})
	}
}
