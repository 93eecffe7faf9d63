package rotanats_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// BenchmarkMembersAtRest measures what members in one process cost that have joined and do
// nothing: goroutines, their stacks and the heap, without the collector's reserve. Each has
// a connection of its own and a partition. With ROTA_PROFILES=DIR the profiles of heap and
// goroutines are written there.
//
//	go test -run '^$' -bench MembersAtRest -benchtime 1x .
func BenchmarkMembersAtRest(b *testing.B) {
	const members = 100
	for b.Loop() {
		atRest(b, members)
	}
}

func atRest(b *testing.B, members int) {
	url := rotatest.StartNATS(b).URL()
	names := rotatest.Names(members)
	var started atomic.Int64
	all := make(chan struct{})
	source := func() rota.Source {
		return rota.Func(names, func(ctx context.Context, own rota.Ownership) error {
			own.Started()
			<-own.Stop()
			return nil
		})
	}
	var list []*rota.Member
	for i := range members {
		store := rotanats.Store(url)
		b.Cleanup(func() { store.Close() })
		m, err := rota.New(rota.Config{Group: "rest", Name: fmt.Sprint("m", i), Store: store, Source: source(), NewGroup: true,
			Trace: func(e rota.Event) {
				switch e.Kind {
				case rota.EventStart:
					if started.Add(1) == int64(members) {
						close(all)
					}
				case rota.EventStopped:
					started.Add(-1)
				}
			}})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, m)
	}
	before := readMemory()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, m := range list {
		wg.Go(func() {
			if err := m.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		b.Fatalf("%d of %d partitions run after two minutes", started.Load(), members)
	}
	time.Sleep(5 * time.Second) // everybody rests: two heartbeats
	after := readMemory()
	b.ReportMetric(float64(after.goroutines-before.goroutines)/float64(members), "goroutines/member")
	b.ReportMetric(float64(after.heap-before.heap)/1024/float64(members), "heap-KB/member")
	b.ReportMetric(float64(after.stacks-before.stacks)/1024/float64(members), "stack-KB/member")
	if dir := os.Getenv("ROTA_PROFILES"); dir != "" {
		for _, kind := range []string{"heap", "goroutine"} {
			f, err := os.Create(fmt.Sprintf("%s/%s.pprof", dir, kind))
			if err != nil {
				b.Fatal(err)
			}
			pprof.Lookup(kind).WriteTo(f, 0)
			f.Close()
		}
	}
	cancel()
	wg.Wait()
}

type memory struct {
	goroutines   int
	heap, stacks int64
}

func readMemory() memory {
	for range 3 { // stacks shrink by half at each collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{runtime.NumGoroutine(), int64(m.HeapAlloc), int64(m.StackInuse)}
}
