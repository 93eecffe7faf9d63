package rotanats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

// TestWatchOfABucketMadeAgain deletes the bucket during a watch and creates another, whose
// revisions begin at 1. The watch must show its changes, or end.
func TestWatchOfABucketMadeAgain(t *testing.T) {
	for _, prefix := range []string{"dir/k", "dir/"} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			w, r := rotanats.Store(s.URL()), rotanats.Store(s.URL())
			defer w.Close()
			defer r.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var rev rota.Rev
			var err error
			for i := range 20 {
				if rev, err = w.Put(ctx, "dir/k", fmt.Append(nil, i), rev); err != nil {
					t.Fatal(err)
				}
			}
			for batch, err := range r.Watch(ctx, prefix) {
				if err != nil {
					break // it ends, and the caller begins a new one
				}
				if e := batch[0]; string(e.Value) == "new" {
					break
				}
				if err := newBuckets(t, s.URL()).js.DeleteStream(ctx, "KV_rota"); err != nil {
					t.Fatal(err)
				}
				w.Get(ctx, "dir/k") // notices that the bucket is gone; the next call creates it
				if _, err := w.Put(ctx, "dir/k", []byte("new"), 0); err != nil {
					t.Fatal(err)
				}
			}
			if ctx.Err() != nil {
				t.Error("the watch goes on and does not show what was written")
			}
		})
	}
}
