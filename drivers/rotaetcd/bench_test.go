package rotaetcd_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
)

// BenchmarkHeartbeat writes one key over and over, by one client and by 64 at once, on one
// node and on three.
func BenchmarkHeartbeat(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		c := startNodes(b, nodes)
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprintf("nodes=%d/clients=%d", nodes, clients), func(b *testing.B) {
				b.ResetTimer()
				var mu sync.Mutex
				var times []time.Duration
				var wg sync.WaitGroup
				for i := range clients {
					s := rotaetcd.Store(c.url(fmt.Sprintf("bench%d", b.N)))
					defer s.Close()
					key := fmt.Sprint("k", i)
					e, err := s.Get(b.Context(), key)
					if err != nil && !errors.Is(err, rota.ErrNotFound) {
						b.Fatal(err)
					}
					wg.Go(func() {
						rev := e.Rev
						for range max(1, b.N/clients) {
							began := time.Now()
							var err error
							if rev, err = s.Put(b.Context(), key, make([]byte, 300), rev); err != nil {
								b.Error(err)
								return
							}
							mu.Lock()
							times = append(times, time.Since(began))
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				if slices.Sort(times); len(times) > 0 {
					b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs-p50")
					b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs-p99")
					b.ReportMetric(float64(len(times))/b.Elapsed().Seconds(), "beats/s")
				}
			})
		}
	}
}
