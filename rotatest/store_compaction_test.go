package rotatest

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// historic is a store that can be compacted. Its flaw is that a watch which was behind, by
// a millisecond, goes on after that without what it had not shown yet.
type historic struct {
	*MemStore
	flaw        bool
	compactions *atomic.Int64
}

func newHistoric(flaw bool) (open func() rota.Store, compact StoreOption) {
	mem, n := NewMemStore(), &atomic.Int64{}
	return func() rota.Store { return &historic{mem.Open(), flaw, n} },
		WithCompaction(func(testing.TB) { n.Add(1) })
}

// Put takes a while, so that watches begin meanwhile.
func (h *historic) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	<-time.After(time.Millisecond / 10)
	return h.MemStore.Put(ctx, key, value, prev)
}

func (h *historic) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		for batch, err := range h.MemStore.Watch(ctx, prefix) {
			if h.flaw {
				before := h.compactions.Load()
				<-time.After(time.Millisecond)
				if h.compactions.Load() > before {
					batch = nil
				}
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

func TestCompactionOfAMemStore(t *testing.T) {
	open, compact := newHistoric(false)
	watchAcrossCompaction(newStoreTest(t, open, compact))
}

func TestCompactionCasesBite(t *testing.T) {
	for _, c := range compactionCases {
		bites(t, "the newest version, after compactions", func(tb testing.TB) {
			open, compact := newHistoric(true)
			c.run(newStoreTest(tb, open, compact))
		})
	}
}
