package rotatest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// BenchmarkPutWatched writes one cell after the other while each of 1000 is
// watched alone, as the heartbeats of a large group are. A write counts when its
// watcher has seen it.
func BenchmarkPutWatched(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", n), func(b *testing.B) { putWatched(b, n) })
	}
}

func putWatched(b *testing.B, n int) {
	s := rotatest.NewMemStore()
	ctx, cancel := context.WithCancel(b.Context())
	var wg, ready sync.WaitGroup
	seen := make(chan struct{}, 1)
	var target atomic.Uint64
	for i := range n {
		ready.Add(1)
		wg.Go(func() {
			first := true
			for batch := range s.Watch(ctx, key(i)) {
				if first {
					ready.Done()
					first = false
				}
				if len(batch) > 0 && uint64(batch[0].Rev) == target.Load() {
					seen <- struct{}{}
				}
			}
		})
	}
	ready.Wait()
	revs := make([]rota.Rev, n)
	value := make([]byte, 128)
	b.ReportAllocs()
	at := uint64(0)
	for b.Loop() {
		i := int(at) % n
		at++
		target.Store(at) // the store is fresh and ours alone: it counts from 1
		rev, err := s.Put(ctx, key(i), value, revs[i])
		if err != nil {
			b.Fatal(err)
		}
		revs[i] = rev
		<-seen
	}
	cancel()
	wg.Wait()
}

func key(i int) string { return fmt.Sprintf("g/member/%016x", i) }
