package rotarabbit_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/internal/measure"
	"github.com/rota-dev/rota/rotatest"
)

// TestManyPartitions lets one member consume 200 queues by one connection, and leave them. With
// ROTA_MANY=1000 it measures what the documentation says of a thousand, of both kinds.
func TestManyPartitions(t *testing.T) {
	text := os.Getenv("ROTA_MANY")
	if text == "" {
		t.Parallel()
		many(t, rabbit.Server(t), "classic", 200)
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) { many(t, rotatest.StartRabbitMQ(t), kind, n) })
	}
}

func many(t *testing.T, s *rotatest.RealServer, kind string, n int) {
	prefix := "m" + rand.Text()[:6]
	src := rotarabbit.Source(fmt.Sprintf("amqp://%s?queues=%s.{0..%d}&declare=%s", s.Addr(), prefix, n-1, kind))
	defer src.(io.Closer).Close()
	publish := func() {
		for i := range n {
			if err := src.(publishing).Publish(t.Context(), fmt.Sprintf("%s.%d", prefix, i), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := time.Now()
	since := func() time.Duration { return time.Since(begun).Round(time.Millisecond) }
	publish()
	t.Logf("%d %s queues were declared and had a message each after %v", n, kind, since())
	goroutines, memory := now()
	var handled atomic.Int64
	m, err := rota.New(rota.Config{Group: prefix, Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(context.Context, rota.Message) error { handled.Add(1); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	begun = time.Now()
	go func() { ended <- m.Run(ctx) }()
	reach := func(what string, want int) {
		t.Helper()
		eventually(t, what, func() error {
			if got := handled.Load(); got != int64(want) {
				return fmt.Errorf("%d messages were handled, want %d", got, want)
			}
			return nil
		})
	}
	reach("all are consumed", n)
	took := since()
	g, mem := now()
	t.Logf("all are consumed after %v; %.1f goroutines and %d KB each; this process has %d MB, and %d connections", took,
		float64(g-goroutines)/float64(n), (mem-memory)/int64(n)/1024, measure.Resident(t, os.Getpid()), measure.Connections(t, s.Addr()))
	begun = time.Now()
	publish()
	reach("all go on", 2*n)
	t.Logf("a message of each was published and handled in %v", since())
	begun = time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	t.Logf("the member has left after %v", since())
}

func now() (goroutines int, memory int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)
}
