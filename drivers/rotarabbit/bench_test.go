package rotarabbit_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/internal/measure"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchMessages = 20_000
	benchPrefetch = 256
	benchSettle   = 64 // messages per acknowledgement, as rota does it
	benchWork     = 20 * time.Microsecond
)

// BenchmarkAgainstBareConsumer compares how fast a member and a bare consumer handle a
// backlog, with the same prefetch, the same acknowledgements and a handler that is busy for
// 20 µs. Pairs are interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 10x .
func BenchmarkAgainstBareConsumer(b *testing.B) {
	for _, kind := range []string{"classic", "quorum"} {
		b.Run(kind, func(b *testing.B) {
			s := rotatest.StartRabbitMQ(b)
			src := rotarabbit.Source("amqp://" + s.Addr() + "?queues=bench&declare=" + kind + "&prefetch=" + fmt.Sprint(benchPrefetch))
			defer src.(io.Closer).Close()
			run := func(f func(testing.TB, *rotatest.RealServer, rota.Source) measure.Lap) func() measure.Lap {
				return func() measure.Lap {
					fill(b, src)
					return f(b, s, src)
				}
			}
			measure.Pairs(b, run(bare), run(throughRota))
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

func bare(b testing.TB, s *rotatest.RealServer, _ rota.Source) measure.Lap {
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
	w := measure.NewStopwatch(benchMessages, 1)
	go func() {
		n := 0
		for d := range in {
			measure.Work(benchWork)
			w.Count()
			if n++; n%benchSettle == 0 || n == benchMessages {
				d.Ack(true)
			}
		}
	}()
	lap := w.Wait(b)
	ch.Close()
	return lap
}

func throughRota(b testing.TB, _ *rotatest.RealServer, src rota.Source) measure.Lap {
	w := measure.NewStopwatch(benchMessages, 1)
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
