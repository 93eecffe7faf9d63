package rotanats_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/internal/measure"
	"github.com/rota-dev/rota/rotatest"
)

const (
	benchPrefetch = 256
	benchSettle   = 64                    // messages per acknowledgement, as rota does it,
	benchSoon     = 20 * time.Millisecond // or as many as are handled within this time
)

// A race is a backlog that a member and bare JetStream consumers handle in turns.
type race struct {
	storage    jetstream.StorageType
	partitions int
	messages   int           // of all partitions
	work       time.Duration // a handler is busy for so long
	url        string
	js         jetstream.JetStream
}

// BenchmarkAgainstBareConsumer compares how fast a member and bare JetStream consumers, one
// for each partition, handle a backlog, with the same prefetch and the same
// acknowledgements. Pairs are interleaved, so that other load on the machine hits both.
//
//	go test -run '^$' -bench AgainstBare -benchtime 10x .
func BenchmarkAgainstBareConsumer(b *testing.B) {
	for _, r := range []race{
		{storage: jetstream.MemoryStorage, partitions: 1, messages: 100_000},
		{storage: jetstream.MemoryStorage, partitions: 16, messages: 800_000},
		{storage: jetstream.MemoryStorage, partitions: 256, messages: 256_000},
		{storage: jetstream.FileStorage, partitions: 1, messages: 100_000},
		{storage: jetstream.FileStorage, partitions: 16, messages: 800_000},
		{storage: jetstream.FileStorage, partitions: 256, messages: 256_000},
		{storage: jetstream.MemoryStorage, partitions: 1, messages: 20_000, work: 20 * time.Microsecond},
	} {
		b.Run(fmt.Sprintf("%v/partitions=%d/work=%v", r.storage, r.partitions, r.work), r.bench)
	}
}

func (r race) bench(b *testing.B) {
	r.url = rotatest.StartNATS(b).URL()
	nc := connect(b, r.url)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	r.js = js
	r.fill(b)
	measure.Pairs(b, func() measure.Lap { return r.bare(b) }, func() measure.Lap { return r.throughRota(b) })
}

func (r *race) subject(i int) string { return fmt.Sprint("bench.", i) }

func (r *race) fill(b testing.TB) {
	_, err := r.js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.*"}, Storage: r.storage})
	if err != nil {
		b.Fatal(err)
	}
	for i := range r.messages {
		if _, err := r.js.PublishAsync(r.subject(i%r.partitions), fmt.Appendf(make([]byte, 0, 128), "%0128d", i)); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			<-r.js.PublishAsyncComplete()
		}
	}
	<-r.js.PublishAsyncComplete()
}

func (r *race) bare(b testing.TB) measure.Lap {
	nc, err := nats.Connect(r.url)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	w, name := measure.NewStopwatch(r.messages, r.partitions), "bare"+rand.Text()
	ctx := context.Background()
	for i := range r.partitions {
		c, err := js.CreateConsumer(ctx, "BENCH", jetstream.ConsumerConfig{
			Durable: fmt.Sprint(name, "-", i), FilterSubject: r.subject(i), AckPolicy: jetstream.AckAllPolicy, MaxAckPending: 2 * benchPrefetch, MaxWaiting: 16,
		})
		if err != nil {
			b.Fatal(err)
		}
		n, open, since := 0, 0, time.Time{}
		cc, err := c.Consume(func(msg jetstream.Msg) {
			measure.Work(r.work)
			if open++; open == 1 {
				since = time.Now()
			}
			if open == benchSettle || time.Since(since) >= benchSoon {
				msg.Ack()
				open = 0
			}
			n++
			w.Tick(n == 1)
		}, jetstream.PullMaxMessages(benchPrefetch))
		if err != nil {
			b.Fatal(err)
		}
		defer cc.Stop()
	}
	defer r.removeConsumers(b)
	return w.Wait(b)
}

func (r *race) throughRota(b testing.TB) measure.Lap {
	w := measure.NewStopwatch(r.messages, r.partitions)
	src := rotanats.Source(fmt.Sprintf("%s?stream=BENCH&subject=bench.*&partitions=%d&durable=rota%s&prefetch=%d", r.url, r.partitions, rand.Text(), benchPrefetch))
	m, err := rota.New(rota.Config{
		Group: "bench", Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(_ context.Context, msg rota.Message) error {
			measure.Work(r.work)
			w.Tick(msg.Position <= uint64(r.partitions)) // each partition has one of the first messages
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
	src.(interface{ Close() error }).Close()
	r.removeConsumers(b)
	return lap
}

func (r *race) removeConsumers(b testing.TB) {
	st, err := r.js.Stream(context.Background(), "BENCH")
	if err != nil {
		b.Fatal(err)
	}
	for c := range st.ConsumerNames(context.Background()).Name() {
		r.js.DeleteConsumer(context.Background(), "BENCH", c)
	}
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
