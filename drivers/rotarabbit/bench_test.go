package rotarabbit_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchPairs    = 12
	benchMessages = 20_000
	benchPrefetch = 256
	benchSettle   = 64 // messages per acknowledgement, as rota does it
	benchWork     = 20 * time.Microsecond
)

// BenchmarkAgainstBareConsumer compares how fast a member and a bare consumer handle a
// backlog, with the same prefetch, the same acknowledgements and a handler that is busy for
// 20 µs. Pairs are interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 1x .
func BenchmarkAgainstBareConsumer(b *testing.B) {
	for _, kind := range []string{"classic", "quorum"} {
		b.Run(kind, func(b *testing.B) {
			s := rotatest.StartRabbitMQ(b)
			src := rotarabbit.Source("amqp://" + s.Addr() + "?queues=bench&declare=" + kind + "&prefetch=" + fmt.Sprint(benchPrefetch))
			defer src.(io.Closer).Close()
			run := []func(testing.TB, *rotatest.RealServer, rota.Source) time.Duration{bare, throughRota}
			for _, f := range run {
				fill(b, src)
				f(b, s, src) // to warm up
			}
			for b.Loop() {
				var ratios []float64
				for i := range benchPairs {
					var took [2]time.Duration
					for k := range run { // the first of a pair alternates
						at := (i + k) % 2
						fill(b, src)
						took[at] = run[at](b, s, src)
					}
					ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
					b.Logf("pair %2d: bare %6.0f/s, rota %6.0f/s, ratio %.3f", i+1, benchMessages/took[0].Seconds(), benchMessages/took[1].Seconds(), ratios[i])
				}
				slices.Sort(ratios)
				n := len(ratios)
				b.ReportMetric((ratios[(n-1)/2]+ratios[n/2])/2, "ratio")
				b.ReportMetric(ratios[0], "ratio-min")
				b.ReportMetric(ratios[n-1], "ratio-max")
				b.ReportMetric(ratios[n*3/4]-ratios[n/4], "ratio-iqr")
			}
		})
	}
}

func fill(b testing.TB, src rota.Source) {
	values := make([][]byte, benchMessages)
	for i := range values {
		values[i] = fmt.Appendf(nil, "%0128d", i)
	}
	for some := range slices.Chunk(values, 2000) {
		if err := src.(publishing).Publish(context.Background(), "bench", some...); err != nil {
			b.Fatal(err)
		}
	}
}

type publishing interface {
	Publish(context.Context, string, ...[]byte) error
}

// work is busy, like a handler that computes.
func work() {
	for end := time.Now().Add(benchWork); time.Now().Before(end); {
	}
}

// A stopwatch runs from the first message to the last.
type stopwatch struct {
	n     atomic.Int64
	begun time.Time
	done  chan time.Duration
}

func (w *stopwatch) tick() {
	switch w.n.Add(1) {
	case 1:
		w.begun = time.Now()
	case benchMessages:
		w.done <- time.Since(w.begun)
	}
}

func (w *stopwatch) wait(b testing.TB) time.Duration {
	select {
	case d := <-w.done:
		return d
	case <-time.After(time.Minute):
		b.Fatalf("%d of %d messages after a minute", w.n.Load(), benchMessages)
		return 0
	}
}

func bare(b testing.TB, s *rotatest.RealServer, _ rota.Source) time.Duration {
	c, err := amqp.Dial(s.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ch, err := c.Channel()
	if err == nil {
		err = ch.Qos(benchPrefetch, 0, false)
	}
	if err != nil {
		b.Fatal(err)
	}
	in, err := ch.Consume("bench", "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	w := &stopwatch{done: make(chan time.Duration, 1)}
	go func() {
		n := 0
		for d := range in {
			work()
			w.tick()
			if n++; n%benchSettle == 0 || n == benchMessages {
				d.Ack(true)
			}
		}
	}()
	took := w.wait(b)
	ch.Close()
	return took
}

func throughRota(b testing.TB, _ *rotatest.RealServer, src rota.Source) time.Duration {
	w := &stopwatch{done: make(chan time.Duration, 1)}
	m, err := rota.New(rota.Config{
		Group: "bench", Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(context.Context, rota.Message) error {
			work()
			w.tick()
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	took := w.wait(b)
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkManyPartitions measures the cost of 1000 queues on one member: the time until all
// are consumed, connections, goroutines and memory.
//
//	go test -run '^$' -bench ManyPartitions -benchtime 1x .
func BenchmarkManyPartitions(b *testing.B) {
	for _, kind := range []string{"classic", "quorum"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				many(b, rotatest.StartRabbitMQ(b), kind, 1000)
			}
		})
	}
}

func many(b testing.TB, s *rotatest.RealServer, kind string, n int) {
	prefix := "m" + rand.Text()[:6]
	src := rotarabbit.Source(fmt.Sprintf("amqp://%s?queues=%s.{0..%d}&declare=%s", s.Addr(), prefix, n-1, kind))
	defer src.(io.Closer).Close()
	begun := time.Now()
	for i := range n {
		if err := src.(publishing).Publish(context.Background(), fmt.Sprintf("%s.%d", prefix, i), nil); err != nil {
			b.Fatal(err)
		}
	}
	report := func(v float64, unit string) {
		if r, ok := b.(*testing.B); ok {
			r.ReportMetric(v, unit)
		} else {
			b.Logf("%s: %.3g", unit, v)
		}
	}
	report(time.Since(begun).Seconds(), "s-to-declare-and-publish")
	goroutines, memory := now()
	var started atomic.Int64
	all := make(chan struct{})
	m, err := rota.New(rota.Config{Group: prefix, Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(context.Context, rota.Message) error {
			if started.Add(1) == int64(n) {
				close(all)
			}
			return nil
		}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	begun = time.Now()
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		b.Fatalf("%d of %d partitions are consumed after two minutes", started.Load(), n)
	}
	report(time.Since(begun).Seconds(), "s-until-all-consume")
	g, mem := now()
	report(float64(g-goroutines)/float64(n), "goroutines/partition")
	report(float64(mem-memory)/float64(n)/1024, "KB/partition")
	begun = time.Now()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	report(time.Since(begun).Seconds(), "s-to-leave")
}

func now() (goroutines int, memory int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)
}
