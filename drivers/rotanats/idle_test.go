package rotanats_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// BenchmarkIdlePartitions measures the cost of partitions without messages for one member:
// the time until all are consumed, goroutines, memory, and messages to and from the
// broker. A pull request expires after 30 s, so it measures for longer than that.
//
//	go test -run '^$' -bench Idle -benchtime 1x .
func BenchmarkIdlePartitions(b *testing.B) {
	const window = 35 * time.Second
	for _, n := range []int{64, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				idle(b, n, window)
			}
		})
	}
}

func idle(b *testing.B, n int, window time.Duration) {
	s := rotatest.StartNATS(b)
	nc, err := nats.Connect(s.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "IDLE", Subjects: []string{"idle.*"}}); err != nil {
		b.Fatal(err)
	}
	var asked, said atomic.Int64
	for subject, count := range map[string]*atomic.Int64{"$JS.API.>": &asked, "$KV.>": &asked, "_INBOX.>": &said} {
		if _, err := nc.Subscribe(subject, func(*nats.Msg) { count.Add(1) }); err != nil {
			b.Fatal(err)
		}
	}
	src := rotanats.Source(fmt.Sprintf("%s?stream=IDLE&subject=idle.*&partitions=%d", s.URL(), n))
	defer src.(interface{ Close() error }).Close()
	goroutines, memory := now()
	var started atomic.Int64
	all := make(chan struct{})
	m, err := rota.New(rota.Config{Group: "idle", Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(context.Context, rota.Message) error {
			if started.Add(1) == int64(n) {
				close(all)
			}
			return nil
		}})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if _, err := js.Publish(b.Context(), fmt.Sprintf("idle.%d", i), nil); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-all:
	case <-time.After(time.Minute):
		b.Fatalf("%d of %d partitions are consumed after a minute", started.Load(), n)
	}
	b.ReportMetric(time.Since(begun).Seconds(), "s-until-all-consume")
	b.ReportMetric(float64(asked.Load())/float64(n), "requests/start")
	g, mem := now()
	b.ReportMetric(float64(g-goroutines)/float64(n), "goroutines/partition")
	b.ReportMetric(float64(mem-memory)/float64(n)/1024, "KB/partition")
	asked.Store(0)
	said.Store(0)
	time.Sleep(window) // the period that is measured
	b.ReportMetric(float64(asked.Load())/window.Seconds(), "requests/s")
	b.ReportMetric(float64(said.Load())/window.Seconds(), "answers/s")
	begun = time.Now()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(begun).Seconds(), "s-to-leave")
}

func now() (goroutines int, memory int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)
}
