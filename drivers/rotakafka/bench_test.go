package rotakafka_test

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchPairs    = 10
	benchMessages = 50_000
	benchEvery    = time.Second // between commits, as rota does it
	benchWork     = 20 * time.Microsecond
)

// BenchmarkAgainstBareClient compares how fast a member and a bare client handle a backlog
// of one partition, with commits as often and a handler that is busy for 20 µs. Pairs are
// interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 1x .
func BenchmarkAgainstBareClient(b *testing.B) {
	s := rotatest.StartKafka(b)
	k := newBroker(b, s.Addr())
	var list []*kgo.Record
	for range benchMessages {
		list = append(list, k.records(k.names[0], make([]byte, 200))...)
	}
	k.must(k.admin.ProduceSync(context.Background(), list...).FirstErr())
	run := []func(*broker) time.Duration{bare, throughRota}
	for _, f := range run {
		f(k) // to warm up
	}
	for b.Loop() {
		var ratios []float64
		for i := range benchPairs {
			var took [2]time.Duration
			for j := range run { // the first of a pair alternates
				at := (i + j) % 2
				took[at] = run[at](k)
			}
			ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
			b.Logf("pair %2d: bare %6.0f/s, rota %6.0f/s, ratio %.3f", i+1, benchMessages/took[0].Seconds(), benchMessages/took[1].Seconds(), ratios[i])
		}
		slices.Sort(ratios)
		n := len(ratios)
		b.ReportMetric((ratios[(n-1)/2]+ratios[n/2])/2, "ratio")
		b.ReportMetric(ratios[0], "ratio-min")
		b.ReportMetric(ratios[n-1], "ratio-max")
	}
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

func (w *stopwatch) wait(b *broker) time.Duration {
	select {
	case d := <-w.done:
		return d
	case <-time.After(time.Minute):
		b.t.Fatalf("%d of %d messages after a minute", w.n.Load(), benchMessages)
		return 0
	}
}

// bare consumes by the client's own consumer and commits plainly.
func bare(b *broker) time.Duration {
	c := newClient(b.t, b.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{b.topic: {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	admin, group := kadm.NewClient(c), "bare-"+rand.Text()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &stopwatch{done: make(chan time.Duration, 1)}
	var at atomic.Int64
	go func() {
		for last := time.Now(); ; {
			got := c.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			for r := range got.RecordsAll() {
				work()
				at.Store(r.Offset + 1)
				w.tick()
				if time.Since(last) > benchEvery {
					last = time.Now()
					go func() {
						os := kadm.Offsets{}
						os.AddOffset(b.topic, 0, at.Load(), -1)
						admin.CommitOffsets(ctx, group, os)
					}()
				}
			}
		}
	}()
	return w.wait(b)
}

func throughRota(b *broker) time.Duration {
	w := &stopwatch{done: make(chan time.Duration, 1)}
	l := newLedger(b.t)
	src := b.open()
	leave := l.member(src, func(c *rota.Config) {
		c.Handle = func(context.Context, rota.Message) error {
			work()
			w.tick()
			return nil
		}
	})
	defer leave()
	return w.wait(b)
}

// TestManyPartitions has many partitions of one topic on one member. With ROTA_MANY=1000 it
// also tells what they cost on a real Kafka.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	n := 200
	var b *broker
	if text := os.Getenv("ROTA_MANY"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		b = &broker{t: t, addr: rotatest.StartKafka(t).Addr()}
	} else {
		b = &broker{t: t, addr: newFake(t).addr}
	}
	b.url, b.topic, b.admin = "kafka://"+b.addr, "many", newClient(t, b.addr)
	b.create(int32(n))
	for i := range n {
		b.names = append(b.names, "many-"+strconv.Itoa(i))
	}
	publish := func() {
		var list []*kgo.Record
		for _, p := range b.names {
			list = append(list, b.records(p, []byte("1"))...)
		}
		b.must(b.admin.ProduceSync(t.Context(), list...).FirstErr())
	}
	publish()
	l := newLedger(t)
	all := func(each int) func() bool {
		return func() bool {
			for _, p := range b.names {
				if len(l.got[p]) < each {
					return false
				}
			}
			return true
		}
	}
	begun := time.Now()
	leave := l.member(b.open())
	l.wait("all are consumed", all(1))
	t.Logf("%d partitions are consumed after %.2f s; this process has %d MB, and %d connections", n, time.Since(begun).Seconds(), resident(t), connections(t, b.addr))
	begun = time.Now()
	publish()
	l.wait("all go on", all(2))
	t.Logf("a message of each was published and handled in %.2f s", time.Since(begun).Seconds())
	begun = time.Now()
	leave()
	t.Logf("the member has left after %.2f s", time.Since(begun).Seconds())
	for _, p := range b.names {
		if got := len(l.values(p)); got != 2 {
			t.Errorf("%s: %d messages were handled, want 2", p, got)
		}
	}
}
