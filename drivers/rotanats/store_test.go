package rotanats_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/rotatest"
)

func TestStoreEmbedded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	rotatest.Store(t, func(*testing.T) rota.Store { return embedded.Store("embed:" + dir) })
}

func TestStoreOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotanats.Store(s.URL()) }, rotatest.WithServer(s),
		rotatest.WithWire(s.Addr(), func(_ testing.TB, addr string) rota.Store { return rotanats.Store("nats://" + addr) }),
		rotatest.WithLiar(liar(s.URL())))
}

// TestWatchMissesNothingAtItsBeginning writes once in the first moments of a watch, many
// times: the write must be in the first batch or in a later one. The suite checks this
// too, but with more writes after it, which hide a gap.
func TestWatchMissesNothingAtItsBeginning(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w, r := rotanats.Store(s.URL()), rotanats.Store(s.URL())
	defer w.Close()
	defer r.Close()
	for _, prefix := range []string{"dir/k", "dir/"} {
		rev, err := w.Put(t.Context(), "dir/k", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 400 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			last := make(chan rota.Rev, 1)
			go func() {
				time.Sleep(rand.N(400 * time.Microsecond)) // at any moment of the beginning
				next, err := w.Put(ctx, "dir/k", nil, rev)
				if err != nil {
					t.Errorf("Put: %v", err)
				}
				last <- next
			}()
			var seen rota.Rev
			shown := make(chan rota.Rev, 8)
			go func() {
				defer close(shown)
				for batch, err := range r.Watch(ctx, prefix) {
					if err != nil {
						return
					}
					for _, e := range batch {
						shown <- e.Rev
					}
				}
			}()
			rev = <-last
			for got := range shown {
				if seen = got; seen == rev {
					break
				}
			}
			cancel()
			if seen != rev {
				t.Fatalf("round %d: the watch of %s shows revision %d, and %d is the newest", round, prefix, seen, rev)
			}
			for range shown {
			}
		}
		if err := w.Delete(t.Context(), "dir/k", rev); err != nil {
			t.Fatal(err)
		}
	}
}

// liar publishes messages that look like echoes of the server.
func liar(url string) rotatest.Liar {
	return func(t testing.TB, key string, value []byte, rev rota.Rev) {
		nc, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		msg := nats.NewMsg("_rota.rota." + strings.ReplaceAll(key, "/", "."))
		msg.Data = value
		msg.Header.Set("Nats-Sequence", fmt.Sprint(uint64(rev)))
		msg.Header.Set("Nats-Stream", "KV_rota")
		msg.Header.Set("Rota-Seal", "c29tZSBzZWFsIG9mIG1pbmU")
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}
