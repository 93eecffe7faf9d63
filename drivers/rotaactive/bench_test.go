package rotaactive

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/go-stomp/stomp/v3"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchPairs    = 10
	benchMessages = 4_000
	benchPrefetch = 256
	benchSettle   = mostBatch // messages per acknowledgement, as rota does it
	benchWork     = 20 * time.Microsecond
)

// BenchmarkAgainstBareConsumer compares how fast a member and a bare client handle a
// backlog, with the same prefetch, the same acknowledgements and a handler that is busy
// for 20 µs. Pairs are interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 1x .
func BenchmarkAgainstBareConsumer(b *testing.B) {
	s := rotatest.StartActiveMQ6(b, rotatest.ActiveMQSetup{Unsynced: true})
	for scheme, bare := range map[string]func(testing.TB, string, string) time.Duration{"stomp": bareSTOMP, "amqp10": bareAMQP} {
		addr := s.At(protocols[scheme])
		run := []func() time.Duration{
			func() time.Duration { return bare(b, addr, fill(b, scheme, addr)) },
			func() time.Duration { return throughRota(b, scheme, addr, fill(b, scheme, addr)) },
		}
		b.Run(scheme, func(b *testing.B) {
			for _, f := range run {
				f() // to warm up
			}
			for b.Loop() {
				ratios(b, run)
			}
		})
	}
}

func ratios(b *testing.B, run []func() time.Duration) {
	var all []float64
	for i := range benchPairs {
		var took [2]time.Duration
		for k := range run { // the first of a pair alternates
			at := (i + k) % 2
			took[at] = run[at]()
		}
		all = append(all, took[0].Seconds()/took[1].Seconds())
		b.Logf("pair %2d: bare %6.0f/s, rota %6.0f/s, ratio %.3f", i+1, benchMessages/took[0].Seconds(), benchMessages/took[1].Seconds(), all[i])
	}
	slices.Sort(all)
	n := len(all)
	b.ReportMetric((all[(n-1)/2]+all[n/2])/2, "ratio")
	b.ReportMetric(all[0], "ratio-min")
	b.ReportMetric(all[n-1], "ratio-max")
}

// fill fills a new queue.
func fill(b testing.TB, scheme, addr string) (queue string) {
	queue = "bench" + rand.Text()[:10]
	s := Source(scheme + "://" + addr + "?queues=" + queue).(*source)
	defer s.Close()
	for from := 0; from < benchMessages; from += 500 {
		var msgs []rota.Message
		for i := range 500 {
			msgs = append(msgs, rota.Message{Value: fmt.Appendf(nil, "%0200d", from+i)})
		}
		if err := s.publish(context.Background(), queue, msgs...); err != nil {
			b.Fatal(err)
		}
	}
	return queue
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

func bareSTOMP(b testing.TB, addr, queue string) time.Duration {
	c, err := stomp.Dial("tcp", addr, stomp.ConnOpt.HeartBeat(0, 0))
	if err != nil {
		b.Fatal(err)
	}
	defer c.MustDisconnect()
	sub, err := c.Subscribe(destination(queue), stomp.AckClient, stomp.SubscribeOpt.Header("activemq.prefetchSize", fmt.Sprint(benchPrefetch)),
		stomp.SubscribeOpt.Header("activemq.exclusive", "true"))
	if err != nil {
		b.Fatal(err)
	}
	w := &stopwatch{done: make(chan time.Duration, 1)}
	for n := 1; n <= benchMessages; n++ {
		msg := <-sub.C
		if msg.Err != nil {
			b.Fatal(msg.Err)
		}
		work()
		if n%benchSettle == 0 || n == benchMessages {
			if err := c.Ack(msg); err != nil {
				b.Fatal(err)
			}
		}
		w.tick()
	}
	return w.wait(b)
}

func bareAMQP(b testing.TB, addr, queue string) time.Duration {
	ctx := context.Background()
	c, err := amqp.Dial(ctx, "amqp://"+addr, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	r, err := session.NewReceiver(ctx, node(queue)+"?consumer.exclusive=true", &amqp.ReceiverOptions{Credit: benchPrefetch})
	if err != nil {
		b.Fatal(err)
	}
	w := &stopwatch{done: make(chan time.Duration, 1)}
	for range benchMessages {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		work()
		if err := r.AcceptMessage(ctx, m); err != nil {
			b.Fatal(err)
		}
		w.tick()
	}
	return w.wait(b)
}

func throughRota(b testing.TB, scheme, addr, queue string) time.Duration {
	w := &stopwatch{done: make(chan time.Duration, 1)}
	src := Source(fmt.Sprintf("%s://%s?queues=%s&prefetch=%d", scheme, addr, queue, benchPrefetch)).(*source)
	defer src.Close()
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
