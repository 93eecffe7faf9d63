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

// TestAWatchThatIsNotReadMissesNothing writes a record many times while the reader of its
// watch is busy: there is no room for all echoes. The last version is seen long before all
// records are read again in any case.
func TestAWatchThatIsNotReadMissesNothing(t *testing.T) {
	t.Parallel()
	url := serve(t).URL()
	writer, reader := rotanats.Store(url), rotanats.Store(url)
	defer writer.Close()
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rev, err := writer.Put(ctx, "g/plan", []byte("0"), 0)
	if err != nil {
		t.Fatal(err)
	}
	const last = 80
	var written time.Time
	for batch, err := range reader.Watch(ctx, "g/plan") {
		if err != nil {
			t.Fatalf("version %d was not seen: %v", last, err)
		}
		if len(batch) == 1 && string(batch[0].Value) == fmt.Sprint(last) {
			break
		}
		if !written.IsZero() {
			continue
		}
		for i := range last {
			if rev, err = writer.Put(ctx, "g/plan", fmt.Append(nil, i+1), rev); err != nil {
				t.Fatal(err)
			}
		}
		written = time.Now()
	}
	if took := time.Since(written); took > 12*time.Second { // records are read again after 15 s or more
		t.Errorf("the last version was seen after %v", took)
	}
}
