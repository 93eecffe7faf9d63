package rotaactive

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/measure"
	"github.com/rota-dev/rota/rotatest"
)

// TestManyPartitions consumes many queues by one member. With ROTA_MANY=1000 it measures
// what the documentation says of a thousand.
func TestManyPartitions(t *testing.T) {
	n := 100
	if text := os.Getenv("ROTA_MANY"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Parallel()
	}
	s := rotatest.StartActiveMQ6(t, rotatest.ActiveMQSetup{Plugins: rotatest.ActiveMQStatistics})
	for _, scheme := range []string{"stomp", "amqp10"} {
		t.Run(scheme, func(t *testing.T) { manyPartitions(t, newBroker(t, scheme, s.At(protocols[scheme])), n) })
	}
}

func manyPartitions(t *testing.T, b *broker, n int) {
	b.params = "&queues=" + b.prefix + ".{0.." + strconv.Itoa(n-1) + "}"
	src := b.Source().(*source)
	var started, handled atomic.Int64
	before := heap()
	begun := time.Now()
	end := b.member(t, src, nil, func(c *rota.Config) {
		c.Handle = func(context.Context, rota.Message) error { handled.Add(1); return nil }
		c.Trace = func(e rota.Event) {
			if e.Kind == rota.EventStart {
				started.Add(1)
			}
		}
	})
	eventually(t, "all are started", func() bool { return started.Load() == int64(n) })
	took := time.Since(begun).Round(time.Millisecond)
	t.Logf("%d partitions are started after %v; %d KB of heap each; this process has %d MB, and %d connections", n, took, (heap()-before)/int64(n)/1024, measure.Resident(t, os.Getpid()), measure.Connections(t, b.addr))
	begun = time.Now()
	for _, q := range src.set.queues {
		if err := src.publish(t.Context(), q, rota.Message{Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are handled", func() bool { return handled.Load() == int64(n) })
	t.Logf("a message of each was published and handled in %v", time.Since(begun).Round(time.Millisecond))
	begun = time.Now()
	all, err := src.Read(t.Context(), src.set.queues)
	if err != nil || len(all) != n {
		t.Fatalf("%d readings, %v", len(all), err)
	}
	for _, r := range all {
		if r.Arrived != 1 {
			t.Fatalf("one message has arrived, and is read as %+v", r)
		}
	}
	t.Logf("all are read in %v", time.Since(begun).Round(time.Millisecond))
	begun = time.Now()
	if err := end(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the member has left after %v", time.Since(begun).Round(time.Millisecond))
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
