package rotanats_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchPairs    = 40
	benchMessages = 20_000
	benchPrefetch = 256
	benchSettle   = 64 // messages per acknowledgement, as rota does it
	benchWork     = 20 * time.Microsecond
)

// BenchmarkAgainstBareConsumer compares how fast a member and a bare JetStream consumer
// handle a backlog, with the same prefetch, the same acknowledgements and a handler that
// is busy for 20 µs. Pairs are interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 1x .
func BenchmarkAgainstBareConsumer(b *testing.B) {
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
	fill(b, js)
	run := []func(testing.TB, string, jetstream.JetStream) time.Duration{bare, throughRota}
	for _, f := range run {
		f(b, s.URL(), js) // to warm up
	}
	for b.Loop() {
		var ratios []float64
		for i := range benchPairs {
			var took [2]time.Duration
			for k := range run { // the first of a pair alternates
				at := (i + k) % 2
				took[at] = run[at](b, s.URL(), js)
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
}

func fill(b testing.TB, js jetstream.JetStream) {
	ctx := context.Background()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.*"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		b.Fatal(err)
	}
	for i := range benchMessages {
		if _, err := js.PublishAsync("bench.0", fmt.Appendf(make([]byte, 0, 128), "%0128d", i)); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
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

func bare(b testing.TB, url string, _ jetstream.JetStream) time.Duration {
	nc, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	c, err := js.CreateConsumer(ctx, "BENCH", jetstream.ConsumerConfig{
		Durable: "bare" + rand.Text(), FilterSubject: "bench.0", AckPolicy: jetstream.AckAllPolicy, MaxAckPending: 2 * benchPrefetch, MaxWaiting: 16,
	})
	if err != nil {
		b.Fatal(err)
	}
	w := &stopwatch{done: make(chan time.Duration, 1)}
	n := 0
	cc, err := c.Consume(func(msg jetstream.Msg) {
		work()
		if n++; n%benchSettle == 0 {
			msg.Ack()
		}
		w.tick()
	}, jetstream.PullMaxMessages(benchPrefetch))
	if err != nil {
		b.Fatal(err)
	}
	defer js.DeleteConsumer(ctx, "BENCH", c.CachedInfo().Name)
	defer cc.Stop()
	return w.wait(b)
}

func throughRota(b testing.TB, url string, js jetstream.JetStream) time.Duration {
	w := &stopwatch{done: make(chan time.Duration, 1)}
	durable := "rota" + rand.Text()
	src := rotanats.Source(fmt.Sprintf("%s?stream=BENCH&subject=bench.*&partitions=1&durable=%s&prefetch=%d", url, durable, benchPrefetch))
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
	src.(interface{ Close() error }).Close()
	names := js.(jetstream.StreamManager)
	st, err := names.Stream(context.Background(), "BENCH")
	if err != nil {
		b.Fatal(err)
	}
	for c := range st.ConsumerNames(context.Background()).Name() {
		js.DeleteConsumer(context.Background(), "BENCH", c)
	}
	return took
}

// BenchmarkPlanReachesAThousand measures how long a plan of 100 KB takes to the last of
// 1000 members, each with a connection of its own: by a Watch, by a bare subscription,
// which is the lower bound, and by the watch of NATS's own KV client.
//
//	go test -run '^$' -bench Thousand -benchtime 20x .
func BenchmarkPlanReachesAThousand(b *testing.B) {
	for _, by := range []struct {
		name   string
		listen func(b *testing.B, ctx context.Context, url string, seen chan<- struct{})
	}{{"watch", byWatch}, {"bare subscription", bySubscription}, {"KV watch", byKV}} {
		b.Run(by.name, func(b *testing.B) { planReaches(b, by.listen) })
	}
}

func planReaches(b *testing.B, listen func(b *testing.B, ctx context.Context, url string, seen chan<- struct{})) {
	const members, size = 1000, 100 << 10
	s := rotatest.StartNATS(b)
	w := rotanats.Store(s.URL())
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plan := make([]byte, size)
	rev, err := w.Put(ctx, "g/plan", plan, 0)
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan struct{}, members)
	for range members {
		listen(b, ctx, s.URL(), seen)
	}
	everybody := func() {
		for range members {
			select {
			case <-seen:
			case <-time.After(30 * time.Second):
				b.Fatal("somebody sees nothing")
			}
		}
	}
	everybody() // all watches have begun
	for b.Loop() {
		if rev, err = w.Put(ctx, "g/plan", plan, rev); err != nil {
			b.Fatal(err)
		}
		everybody()
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/plan")
	cancel() // before the connections are closed: then they are not lost
}

func byWatch(b *testing.B, ctx context.Context, url string, seen chan<- struct{}) {
	st := rotanats.Store(url)
	b.Cleanup(func() { st.Close() })
	go func() {
		for batch, err := range st.Watch(ctx, "g/plan") {
			if err != nil && ctx.Err() == nil {
				b.Errorf("watch: %v", err)
			}
			for range batch {
				seen <- struct{}{}
			}
		}
	}()
}

func connect(b *testing.B, url string) *nats.Conn {
	nc, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	return nc
}

func bySubscription(b *testing.B, _ context.Context, url string, seen chan<- struct{}) {
	nc := connect(b, url)
	if _, err := nc.Subscribe("_rota.rota.g.plan", func(*nats.Msg) { seen <- struct{}{} }); err != nil {
		b.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
	seen <- struct{}{}
}

func byKV(b *testing.B, ctx context.Context, url string, seen chan<- struct{}) {
	js, err := jetstream.New(connect(b, url))
	if err != nil {
		b.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, "rota")
	if err != nil {
		b.Fatal(err)
	}
	w, err := kv.Watch(ctx, "g.plan")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for e := range w.Updates() {
			if e != nil {
				seen <- struct{}{}
			}
		}
	}()
}
