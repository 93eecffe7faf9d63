package rotaactive

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/go-stomp/stomp/v3"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/measure"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchMessages = 20_000
	benchPrefetch = 256
	benchSettle   = mostBatch // messages per acknowledgement, as rota does it
	benchWork     = 20 * time.Microsecond
)

// BenchmarkAgainstBareConsumer compares how fast a member and a bare client handle a
// backlog, with the same prefetch, the same acknowledgements and a handler that is busy
// for 20 µs. Pairs are interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 10x .
func BenchmarkAgainstBareConsumer(b *testing.B) {
	s := rotatest.StartActiveMQ6(b, rotatest.ActiveMQSetup{Unsynced: true})
	for scheme, bare := range map[string]func(testing.TB, string, string) measure.Lap{"stomp": bareSTOMP, "amqp10": bareAMQP} {
		addr := s.At(protocols[scheme])
		b.Run(scheme, func(b *testing.B) {
			measure.Pairs(b,
				func() measure.Lap { return bare(b, addr, fill(b, scheme, addr)) },
				func() measure.Lap { return throughRota(b, scheme, addr, fill(b, scheme, addr)) })
		})
	}
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

func bareSTOMP(b testing.TB, addr, queue string) measure.Lap {
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
	w := measure.NewStopwatch(benchMessages, 1)
	for n := 1; n <= benchMessages; n++ {
		msg := <-sub.C
		if msg.Err != nil {
			b.Fatal(msg.Err)
		}
		measure.Work(benchWork)
		if n%benchSettle == 0 || n == benchMessages {
			if err := c.Ack(msg); err != nil {
				b.Fatal(err)
			}
		}
		w.Count()
	}
	return w.Wait(b)
}

func bareAMQP(b testing.TB, addr, queue string) measure.Lap {
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
	w := measure.NewStopwatch(benchMessages, 1)
	for range benchMessages {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		measure.Work(benchWork)
		if err := r.AcceptMessage(ctx, m); err != nil {
			b.Fatal(err)
		}
		w.Count()
	}
	return w.Wait(b)
}

func throughRota(b testing.TB, scheme, addr, queue string) measure.Lap {
	w := measure.NewStopwatch(benchMessages, 1)
	src := Source(fmt.Sprintf("%s://%s?queues=%s&prefetch=%d", scheme, addr, queue, benchPrefetch)).(*source)
	defer src.Close()
	m, err := rota.New(rota.Config{
		Group: "bench", Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(context.Context, rota.Message) error {
			measure.Work(benchWork)
			w.Count()
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	lap := w.Wait(b)
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return lap
}
