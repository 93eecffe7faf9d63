package rotanats_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A snip is a TCP proxy to a NATS server that loses one answer: it forwards the first
// request with a given text, and when the server has answered it closes the connection
// instead of forwarding the answer. If it does not know the answer, it forwards no more
// answers on that connection.
type snip struct {
	l       net.Listener
	request []byte
	answer  []byte        // empty if it is not known
	lost    chan struct{} // closed when the answer was lost

	mu    sync.Mutex
	armed bool
	out   bool // no connection is forwarded any more
	ends  []net.Conn
	tasks sync.WaitGroup
}

func newSnip(t testing.TB, to, request, answer string) *snip {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &snip{l: l, request: []byte(request), answer: []byte(answer), lost: make(chan struct{}), armed: true}
	s.tasks.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			s.carry(near, to)
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.pull()
		s.tasks.Wait()
	})
	return s
}

// pull closes every connection, for good.
func (s *snip) pull() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = true
	for _, c := range s.ends {
		c.Close()
	}
	s.ends = nil
}

func (s *snip) carry(near net.Conn, to string) {
	far, err := net.Dial("tcp", to)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.out {
		near.Close()
		if err == nil {
			far.Close()
		}
		return
	}
	s.ends = append(s.ends, near, far)
	var mu sync.Mutex
	asked := false // the request has passed here
	s.tasks.Go(func() {
		defer near.Close()
		defer far.Close()
		var tail []byte
		for chunk := range chunks(near) {
			tail = append(tail, chunk...)
			if s.hit(tail) {
				mu.Lock()
				asked = true
				mu.Unlock()
			}
			tail = tail[max(0, len(tail)-len(s.request)+1):]
			if _, err := far.Write(chunk); err != nil {
				return
			}
		}
	})
	s.tasks.Go(func() {
		defer near.Close()
		defer far.Close()
		var kept []byte
		for chunk := range chunks(far) {
			mu.Lock()
			hold := asked
			mu.Unlock()
			if !hold {
				if _, err := near.Write(chunk); err != nil {
					return
				}
				continue
			}
			if kept = append(kept, chunk...); len(s.answer) > 0 && bytes.Contains(kept, s.answer) {
				close(s.lost)
				return
			}
		}
	})
}

// hit tells whether this is the first request with the text.
func (s *snip) hit(text []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed || !bytes.Contains(text, s.request) {
		return false
	}
	if s.armed = false; len(s.answer) == 0 {
		close(s.lost)
	}
	return true
}

// chunks returns the bytes that arrive on a connection, as they are read.
func chunks(c net.Conn) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		buf := make([]byte, 1<<16)
		for {
			n, err := c.Read(buf)
			if n > 0 && !yield(buf[:n]) || err != nil {
				return
			}
		}
	}
}

// loseCreation loses the answer to the first creation of a consumer.
func loseCreation(t testing.TB, to string) *snip {
	return newSnip(t, to, "PUB $JS.API.CONSUMER.CREATE.", "io.nats.jetstream.api.v1.consumer_create_response")
}

// retentions of a stream, each with its own rules for consumers.
var retentions = map[string]jetstream.RetentionPolicy{
	"limits": jetstream.LimitsPolicy, "interest": jetstream.InterestPolicy, "work queue": jetstream.WorkQueuePolicy,
}

// inStreams makes a stream of each retention, with one partition.
func inStreams(t *testing.T, run func(t *testing.T, b *broker, addr string)) {
	for name, retention := range retentions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			b := newBroker(t, s.URL(), func(c *jetstream.StreamConfig) { c.Retention = retention })
			b.names = b.names[:1]
			run(t, b, s.Addr())
		})
	}
}

// keep makes an interest stream keep messages before it is consumed.
func (b *broker) keep() {
	b.t.Helper()
	st, err := b.js.Stream(b.t.Context(), b.stream)
	if err != nil {
		b.t.Fatal(err)
	}
	if st.CachedInfo().Config.Retention == jetstream.InterestPolicy {
		if _, err := b.js.CreateConsumer(b.t.Context(), b.stream, jetstream.ConsumerConfig{Durable: "keeper"}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// consumers are all but the keeper.
func (b *broker) consumers() (names []string) {
	b.t.Helper()
	st, err := b.js.Stream(b.t.Context(), b.stream)
	if err != nil {
		b.t.Fatal(err)
	}
	list := st.ConsumerNames(b.t.Context())
	for n := range list.Name() {
		if n != "keeper" {
			names = append(names, n)
		}
	}
	if list.Err() != nil {
		b.t.Fatal(list.Err())
	}
	slices.Sort(names)
	return names
}

// flow publishes messages up to a number to the one partition.
func (b *broker) flow(from, to int) {
	b.t.Helper()
	for i := from; i <= to; i++ {
		if err := b.Publish(b.names[0], fmt.Appendf(nil, "%s %d", b.names[0], i)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (l *ledger) reached(b *broker, n int) func() bool {
	return func() bool { return l.done[b.names[0]] >= n }
}

// The timeout for messages to arrive although an answer was lost: to attach again takes a
// moment.
const orphanTime = 10 * time.Second

// TestConsumerWhoseAnswerWasLostIsRemoved loses the answer to the creation of a consumer.
// The owner creates another and removes the first.
func TestConsumerWhoseAnswerWasLostIsRemoved(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, addr string) {
		b.keep()
		b.flow(1, 10)
		wire := loseCreation(t, addr)
		l := newLedger(t)
		l.member("a", rotatest.NewMemStore(), b.SourceAt(wire.l.Addr().String()))
		l.wait("all messages are handled", orphanTime, l.reached(b, 10))
		select {
		case <-wire.lost:
		default:
			t.Error("no answer was lost")
		}
		if err := b.Tidy(); err != nil {
			t.Error(err)
		}
	})
}

// TestConsumerOfADeadOwnerIsRemoved lets an owner die after it has created its consumer and
// before it has noted it as the current one. The next owner removes it.
func TestConsumerOfADeadOwnerIsRemoved(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, addr string) {
		b.keep()
		mem := rotatest.NewMemStore()
		l := newLedger(t)
		wire := loseCreation(t, addr)
		store := rotatest.Faulty(mem.Open(), 1)
		ended := l.memberUntil(t.Context(), "a", store, b.SourceAt(wire.l.Addr().String()), func(c *rota.Config) { c.Orphan = rota.AtOnce })
		<-wire.lost
		wire.pull() // a dead process sends nothing more
		store.Fail()
		if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
			t.Fatal(err)
		}
		if left := b.consumers(); len(left) != 1 {
			t.Fatalf("consumers are %q, want what the dead one has made", left)
		}
		b.flow(1, 10)
		l.member("b", mem.Open(), b.Source())
		l.wait("all messages are handled", orphanTime, l.reached(b, 10))
		if err := b.Tidy(); err != nil {
			t.Error(err)
		}
	})
}

// TestOrphanNobodyNotedIsRemoved has a work queue with a consumer that no note names, as
// older versions could leave behind. An owner with a token at least as high removes it, and
// touches no consumer of another application, even if its metadata claims to be rota's.
func TestOrphanNobodyNotedIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL(), func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy })
	named := func(partition, token string) string {
		sum := sha256.Sum256([]byte(b.stream + "\x00rota\x00" + partition))
		return fmt.Sprintf("rota_%x_%s_ABCDEF", sum[:8], token)
	}
	later := fmt.Sprint(uint64(time.Now().Unix()/4+1000) << 32)
	orphan, newer := named(b.names[0], "1"), named(b.names[1], later)
	for name, c := range map[string]struct{ partition, durable, token string }{
		orphan: {b.names[0], "rota", "1"}, newer: {b.names[1], "rota", later}, "foreign": {b.names[2], "rota", "1"},
	} {
		_, err := b.js.CreateConsumer(t.Context(), b.stream, jetstream.ConsumerConfig{Durable: name, FilterSubject: c.partition,
			AckPolicy: jetstream.AckExplicitPolicy, Metadata: map[string]string{"rota.durable": c.durable, "rota.token": c.token}})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.flow(1, 10)
	l := newLedger(t)
	listed, err := b.js.Conn().SubscribeSync("$JS.API.CONSUMER.LIST." + b.stream)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := l.memberUntil(ctx, "a", rotatest.NewMemStore(), b.with("durable=rota").Source())
	l.wait("all messages are handled", orphanTime, l.reached(b, 10))
	for range 8 { // all three have listed the consumers more than once, two of them in vain
		if _, err := listed.NextMsg(orphanTime); err != nil {
			t.Fatal(err)
		}
	}
	left := b.consumers()
	if !slices.Contains(left, newer) || !slices.Contains(left, "foreign") || slices.Contains(left, orphan) {
		t.Errorf("consumers are %q, want foreign and %s beside our own, and not %s", left, newer, orphan)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
