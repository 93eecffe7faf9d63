package rotakafka_test

import (
	"context"
	"crypto/rand"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/measure"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchMessages = 200_000     // enough that the first commit, for which a new owner waits, counts for little
	benchEvery    = time.Second // between commits, as rota does it,
	benchSettle   = 5_000       // and messages
	benchWork     = 20 * time.Microsecond
)

// BenchmarkAgainstBareClient compares how fast a member and a bare client handle a backlog
// of one partition, with commits as often and a handler that is busy for 20 µs. Pairs are
// interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 10x .
func BenchmarkAgainstBareClient(b *testing.B) {
	s := rotatest.StartKafka(b)
	k := newBroker(b, s.Addr())
	var list []*kgo.Record
	for range benchMessages {
		list = append(list, k.records(k.names[0], make([]byte, 200))...)
	}
	k.must(k.admin.ProduceSync(context.Background(), list...).FirstErr())
	measure.Pairs(b, func() measure.Lap { return bare(k) }, func() measure.Lap { return throughRota(k) })
}

// bare consumes by the client's own consumer and commits plainly.
func bare(b *broker) measure.Lap {
	c := newClient(b.t, b.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{b.topic: {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	admin, group := kadm.NewClient(c), "bare-"+rand.Text()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := measure.NewStopwatch(benchMessages, 1)
	var at atomic.Int64
	go func() {
		since := 0
		for last := time.Now(); ; {
			got := c.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			for r := range got.RecordsAll() {
				measure.Work(benchWork)
				at.Store(r.Offset + 1)
				w.Count()
				if since++; since >= benchSettle || time.Since(last) > benchEvery {
					since, last = 0, time.Now()
					go func() {
						os := kadm.Offsets{}
						os.AddOffset(b.topic, 0, at.Load(), -1)
						admin.CommitOffsets(ctx, group, os)
					}()
				}
			}
		}
	}()
	return w.Wait(b.t)
}

func throughRota(b *broker) measure.Lap {
	w := measure.NewStopwatch(benchMessages, 1)
	l := newLedger(b.t)
	src := b.open()
	leave := l.member(src, func(c *rota.Config) {
		c.Handle = func(context.Context, rota.Message) error {
			measure.Work(benchWork)
			w.Count()
			return nil
		}
	})
	defer leave()
	return w.Wait(b.t)
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
	t.Logf("%d partitions are consumed after %.2f s; this process has %d MB, and %d connections", n, time.Since(begun).Seconds(), measure.Resident(t, os.Getpid()), measure.Connections(t, b.addr))
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
