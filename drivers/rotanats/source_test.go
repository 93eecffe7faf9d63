package rotanats_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A broker is one stream of a server.
type broker struct {
	t      testing.TB
	js     jetstream.JetStream
	url    string
	stream string
	names  []string
	query  string // more parameters of the source's URL
}

// with returns a broker whose sources have more parameters in their URL.
func (b *broker) with(query string) *broker {
	other := *b
	other.query = "&" + query
	return &other
}

// consumer returns the name of the only consumer of a partition.
func (b *broker) consumer(partition string) (name string) {
	b.t.Helper()
	st, err := b.js.Stream(b.t.Context(), b.stream)
	if err != nil {
		b.t.Fatal(err)
	}
	list := st.ListConsumers(b.t.Context())
	for info := range list.Info() {
		if info.Config.FilterSubject == partition {
			name = info.Name
		}
	}
	if name == "" || list.Err() != nil {
		b.t.Fatalf("there is no consumer of %s: %v", partition, list.Err())
	}
	return name
}

// newBroker makes a stream with three partitions. tune may change it.
func newBroker(t testing.TB, at string, tune ...func(*jetstream.StreamConfig)) *broker {
	t.Helper()
	nc, err := rotanats.Connect(at, []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(3)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, js: js, url: at, stream: "S" + rand.Text()[:8]}
	c := jetstream.StreamConfig{Name: b.stream, Subjects: []string{b.stream + ".in.*"}, MaxMsgSize: 2 << 20}
	for _, f := range tune {
		f(&c)
	}
	for deadline := time.Now().Add(30 * time.Second); ; { // a cluster does not answer during an election
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := js.CreateStream(ctx, c)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		b.names = append(b.names, fmt.Sprintf("%s.in.%d", b.stream, i))
	}
	return b
}

func (b *broker) Source() rota.Source {
	s := rotanats.Source(with(b.url, fmt.Sprintf("stream=%s&subject=%[1]s.in.*&partitions=%d", b.stream, len(b.names))+b.query))
	b.t.Cleanup(func() { s.(interface{ Close() error }).Close() })
	return s
}

func (b *broker) Partitions() []string { return b.names }

// Addr returns the address of the server, or of the first of several.
func (b *broker) Addr() string {
	first, _, _ := strings.Cut(b.url, ",")
	u, err := url.Parse(first)
	if err != nil {
		b.t.Fatal(err)
	}
	return u.Host
}

// SourceAt returns a source of the broker at another address.
func (b *broker) SourceAt(addr string) rota.Source {
	first, _, _ := strings.Cut(b.url, ",")
	u, err := url.Parse(first)
	if err != nil {
		b.t.Fatal(err)
	}
	u.Host = addr
	other := *b
	other.url = u.String()
	return other.Source()
}

// Tidy checks that there is one consumer for each partition.
func (b *broker) Tidy() error {
	if left := b.consumers(); len(left) != len(b.names) {
		return fmt.Errorf("consumers are %q, want one for each of %q", left, b.names)
	}
	return nil
}

// Publish retries until the broker has stored the message: the server may be down. A
// message whose answer was lost is not stored twice.
func (b *broker) Publish(partition string, values ...[]byte) error {
	for _, v := range values {
		msg := &nats.Msg{Subject: partition, Data: v}
		opts := []jetstream.PublishOpt{jetstream.WithMsgID(rand.Text())}
		if len(v) >= 1<<20 {
			opts = nil // with a header it would be too large for the server
		}
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			_, err = b.js.PublishMsg(ctx, msg, opts...)
			cancel()
			if err == nil || errors.Is(err, nats.ErrMaxPayload) {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *broker) Dead() (out [][]byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := b.js.Stream(ctx, b.stream+"_dead")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // it was replayed
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m.Data)
	}
	return out, nil
}

func TestSourceOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newBroker(t, s.URL()) })
}

// TestSourceServer stops, kills and freezes a server of its own.
func TestSourceServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newBroker(t, s.URL()) }, rotatest.WithServer(s))
}

func TestSourceWorkQueue(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker {
		return newBroker(t, s.URL(), func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy })
	})
}

func TestSourceEmbedded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newBroker(t, s.URL()) })
}

func TestSourceCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker {
		return replicated{newBroker(t, c.URL(), func(c *jetstream.StreamConfig) { c.Replicas = 3 })}
	})
}

// Ahead is more than nothing, since nats-server counts a message twice, now and then, that
// arrives while another is delivered, until all are delivered. One too many was seen.
func (b *broker) Ahead() uint64 { return 2 }

// replicated is a broker whose consumers tell of deliveries and of what waits at two
// moments.
type replicated struct{ *broker }

func (replicated) Ahead() uint64 { return 4 }

// TestConsumersChangeHands checks that an owner which stops in good order leaves its
// JetStream consumer to the next, while messages arrive and more are fetched than handled.
// After an owner that was cut off, and if the server has lost the note in memory or has no
// room for it, the next owner replaces the consumer. It goes on after the last settled
// message all the same.
func TestConsumersChangeHands(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newBroker(t, s.URL())
	consumers := func() (names []string) {
		t.Helper()
		st, err := b.js.Stream(t.Context(), b.stream)
		if err != nil {
			t.Fatal(err)
		}
		list := st.ConsumerNames(t.Context())
		for n := range list.Name() {
			names = append(names, n)
		}
		if list.Err() != nil || len(names) != len(b.names) {
			t.Fatalf("consumers are %q, error %v; want one for each of %q", names, list.Err(), b.names)
		}
		slices.Sort(names)
		return names
	}
	l := newLedger(t)
	l.slow = time.Millisecond
	mem := rotatest.NewMemStore()
	sent := 0
	flow := func(n int) {
		t.Helper()
		for range n {
			sent++
			for _, p := range b.names {
				if err := b.Publish(p, fmt.Appendf(nil, "%s %d", p, sent)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	reached := func(n int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(b.names, func(p string) bool { return l.done[p] < n })
		}
	}
	run := func(name string) (store *rotatest.FaultyStore, ended chan error, leave func() error) {
		store = rotatest.Faulty(mem.Open(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended = l.memberUntil(ctx, name, store, b.Source(), func(c *rota.Config) { c.Orphan = rota.AtOnce })
		return store, ended, func() error { cancel(); return <-ended }
	}
	flow(300)
	_, _, leave := run("a")
	l.wait("a is at work", 20*time.Second, reached(50))
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	first := consumers()
	store, ended, _ := run("b")
	l.wait("b goes on", 20*time.Second, reached(150))
	if got := consumers(); !slices.Equal(got, first) {
		t.Errorf("a left in good order, and its consumers %q became %q", first, got)
	}
	if l.again > 0 {
		t.Errorf("%d messages came again", l.again)
	}
	store.Fail()
	if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
		t.Fatal(err)
	}
	_, _, leave = run("c")
	flow(10) // b may have handled all messages
	l.wait("c goes on", 20*time.Second, reached(310))
	for _, n := range consumers() {
		if slices.Contains(first, n) {
			t.Errorf("b was cut off, and c goes on with its consumer %s", n)
		}
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	const memory = "KV_rota-sources-now"
	st, err := b.js.Stream(t.Context(), memory)
	if err != nil {
		t.Fatal(err)
	}
	full := st.CachedInfo().Config
	if full.Storage != jetstream.MemoryStorage {
		t.Errorf("hand-overs are noted on %v", full.Storage)
	}
	full.MaxBytes, full.Discard = 10, jetstream.DiscardNew
	again := l.again
	for _, without := range []struct {
		what string
		by   func() error
	}{
		{"its memory", func() error { return b.js.DeleteStream(t.Context(), memory) }},
		{"room in memory", func() error { _, err := b.js.UpdateStream(t.Context(), full); return err }},
		{"any memory", func() error { // it cannot be created: another stream has its subjects
			err := b.js.DeleteStream(t.Context(), memory)
			_, cerr := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: full.Subjects})
			return errors.Join(err, cerr)
		}},
	} {
		left := consumers()
		if err := without.by(); err != nil {
			t.Fatal(err)
		}
		_, _, leave = run("d")
		flow(10)
		l.wait("the next goes on without "+without.what, 20*time.Second, reached(sent))
		for _, n := range consumers() {
			if slices.Contains(left, n) {
				t.Errorf("the server is without %s, and the next owner goes on with consumer %s", without.what, n)
			}
		}
		if err := leave(); err != nil {
			t.Fatal(err)
		}
	}
	if l.again != again {
		t.Errorf("%d messages came again that were settled", l.again-again)
	}
}

// TestLostMessageIsRedelivered lets another client pull a message of the owner's consumer.
// No further message follows whose number would show the gap: the heartbeat must.
func TestLostMessageIsRedelivered(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	l := newLedger(t)
	l.member("a", rotatest.NewMemStore(), b.Source())
	p, sent := b.names[0], 0
	publish := func() {
		t.Helper()
		sent++
		if err := b.Publish(p, fmt.Appendf(nil, "%s %d", p, sent)); err != nil {
			t.Fatal(err)
		}
	}
	handled := func() bool { return l.done[p] == sent }
	publish()
	l.wait("the first message", 20*time.Second, handled)
	consumer := b.consumer(p)
	thief, err := b.js.Conn().SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.js.Conn().PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+b.stream+"."+consumer, thief.Subject, []byte(`{"batch":1,"expires":60000000000}`)); err != nil {
		t.Fatal(err)
	}
	stolen := func() bool { n, _, err := thief.Pending(); return err == nil && n > 0 }
	for !stolen() { // the owner's earlier pull is served first
		publish()
		l.wait("the next message, also if it was stolen", 20*time.Second, handled)
	}
}

// TestMessageLostBetweenOwnersIsRedelivered lets another client pull a message of a
// released consumer, while no member owns the partition. The next owner goes on from the
// number in the note, and must notice the gap. If other messages follow, it reads the missing
// one from the stream and keeps the consumer; otherwise a heartbeat shows that one is missing.
func TestMessageLostBetweenOwnersIsRedelivered(t *testing.T) {
	for name, behind := range map[string]int{"others follow": 3, "none follows": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, serve(t).URL())
			l := newLedger(t)
			mem := rotatest.NewMemStore()
			p, sent := b.names[0], 0
			publish := func(n int) {
				t.Helper()
				for range n {
					sent++
					if err := b.Publish(p, fmt.Appendf(nil, "%s %d", p, sent)); err != nil {
						t.Fatal(err)
					}
				}
			}
			handled := func() bool { return l.done[p] == sent }
			ctx, leave := context.WithCancel(t.Context())
			ended := l.memberUntil(ctx, "a", rotatest.Faulty(mem.Open(), 1), b.Source(), func(*rota.Config) {})
			publish(3)
			l.wait("the first messages", 20*time.Second, handled)
			leave()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			consumer := b.consumer(p)
			publish(1)
			stolen, err := b.js.Conn().Request("$JS.API.CONSUMER.MSG.NEXT."+b.stream+"."+consumer, []byte(`{"batch":1,"expires":10000000000}`), 10*time.Second)
			if err != nil || string(stolen.Data) != fmt.Sprintf("%s %d", p, sent) {
				t.Fatalf("stole %v, %v", stolen, err)
			}
			publish(behind)
			l.member("b", mem.Open(), b.Source())
			l.wait("the stolen message, and those that followed", 20*time.Second, handled)
			if now := b.consumer(p); (now == consumer) != (behind > 0) {
				t.Errorf("the consumer was %s and is %s", consumer, now)
			}
			if l.again > 0 {
				t.Errorf("%d messages came again", l.again)
			}
		})
	}
}

// TestStreamMadeAgainBeginsAtOne deletes a stream and creates another of the same name: all
// of its messages must arrive, whatever was settled of the old one. The consumer was
// replaced before, so that the note has a start above 1.
func TestStreamMadeAgainBeginsAtOne(t *testing.T) {
	for _, when := range []string{"while it is consumed", "after its owner left", "after its owner was cut off"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, serve(t).URL())
			l := newLedger(t)
			mem := rotatest.NewMemStore()
			run := func(name string) (store *rotatest.FaultyStore, ended chan error, leave context.CancelFunc) {
				store = rotatest.Faulty(mem.Open(), 1)
				ctx, cancel := context.WithCancel(t.Context())
				ended = l.memberUntil(ctx, name, store, b.Source(), func(c *rota.Config) { c.Orphan = rota.AtOnce })
				return store, ended, cancel
			}
			flow := func(from, to int) {
				t.Helper()
				for i := from; i <= to; i++ {
					for _, p := range b.names {
						if err := b.Publish(p, fmt.Appendf(nil, "%s %d", p, i)); err != nil {
							t.Fatal(err)
						}
					}
				}
				l.wait(fmt.Sprint("all up to ", to), 20*time.Second, func() bool {
					return !slices.ContainsFunc(b.names, func(p string) bool { return l.done[p] < to })
				})
			}
			store, ended, _ := run("a")
			flow(1, 20)
			store.Fail()
			if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
				t.Fatal(err)
			}
			store, ended, leave := run("b")
			flow(21, 40)
			switch when {
			case "after its owner left":
				leave()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			case "after its owner was cut off":
				store.Fail()
				if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
					t.Fatal(err)
				}
			}
			if err := b.js.DeleteStream(t.Context(), b.stream); err != nil {
				t.Fatal(err)
			}
			l.mu.Lock()
			clear(l.done)
			l.mu.Unlock()
			if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: b.stream, Subjects: []string{b.stream + ".in.*"}}); err != nil {
				t.Fatal(err)
			}
			if when != "while it is consumed" {
				run("c")
			}
			flow(1, 10)
		})
	}
}
