package rotaactive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// protocols are the ports of a broker, by the schemes of URLs.
var protocols = map[string]string{"stomp": "stomp", "amqp10": "amqp", "stomp+ssl": "stomp+ssl", "amqp10s": "amqp+ssl"}

// TestBroker runs everything that one broker can serve, by each protocol.
func TestBroker(t *testing.T) {
	t.Parallel()
	s := rotatest.StartActiveMQ6(t, rotatest.ActiveMQSetup{Plugins: rotatest.ActiveMQStatistics, Beat: "2000"})
	for _, scheme := range []string{"stomp", "amqp10"} {
		t.Run(scheme, func(t *testing.T) {
			open := func(t *testing.T) *broker { return newBroker(t, scheme, s.At(protocols[scheme])) }
			rotatest.Source(t, func(t *testing.T) rotatest.Broker { return open(t) })
			for name, run := range map[string]func(*testing.T, *broker){
				"messages are as they were sent":           sameMessages,
				"a group takes over":                       groupTakeover,
				"a foreign consumer is reported":           foreignConsumer,
				"plain consumers are replaced":             migrates,
				"a prefetch is obeyed":                     prefetchObeyed,
				"what others left as dead letters is read": foreignLetters,
				"what an attach needs is there before it":  prepared,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					run(t, open(t))
				})
			}
		})
	}
}

// prepared checks that a subscription needs no session of AMQP to be opened once there is one, and
// that no more of them are kept than may be.
func prepared(t *testing.T, b *broker) {
	s := b.Source().(*source)
	defer s.Close()
	if err := s.Bind("prepared"); err != nil {
		t.Fatal(err)
	}
	c, err := s.link.client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var g sync.WaitGroup
	for range mostReady + 8 {
		g.Go(func() {
			if err := s.Prepare(t.Context(), rota.Partition{Name: b.names[0]}); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	conn, ok := c.(*amqpConn)
	if ok && len(conn.ready) != mostReady {
		t.Errorf("%d sessions are ready, want %d", len(conn.ready), mostReady)
	}
	if err := b.Publish(b.names[0], []byte("1")); err != nil {
		t.Fatal(err)
	}
	f, err := c.consume(t.Context(), b.names[0], 10)
	if err != nil {
		t.Fatal(err)
	}
	if ok && len(conn.ready) != mostReady-1 {
		t.Errorf("%d sessions are ready after one was used, want %d", len(conn.ready), mostReady-1)
	}
	select {
	case d := <-f.arrived():
		if string(d.Value) != "1" {
			t.Errorf("%q has arrived", d.Value)
		}
	case <-time.After(time.Minute):
		t.Error("no message has arrived")
	}
	if err := f.end(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestServer runs the cases that stop, kill and freeze the broker.
func TestServer(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"stomp", "amqp10"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s := rotatest.StartActiveMQ6(t, rotatest.ActiveMQSetup{})
			rotatest.Source(t, func(t *testing.T) rotatest.Broker {
				b := newBroker(t, scheme, s.At(protocols[scheme]))
				b.params = "&heartbeat=2s"
				return unmetered{b}
			}, rotatest.WithServer(s))
		})
	}
}

// TestDebian runs the suite with Debian's broker: it is older, and has no statistics.
func TestDebian(t *testing.T) {
	t.Parallel()
	s := rotatest.StartActiveMQ(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return unmetered{newBroker(t, "stomp", s.Addr())} })
	t.Run("missing statistics are reported", func(t *testing.T) {
		b := newBroker(t, "stomp", s.Addr())
		m := b.Source().(rota.Meter)
		for range 2 {
			began := time.Now()
			_, err := m.Read(t.Context(), b.names)
			if err == nil || !strings.Contains(err.Error(), "add <plugins><statisticsBrokerPlugin/></plugins>") {
				t.Errorf("without the plugin: %v", err)
			}
			t.Log(time.Since(began), err)
		}
	})
}

// unmetered is a broker without statistics and without a view of consumers.
type unmetered struct{ b *broker }

func (u unmetered) Partitions() []string { return u.b.Partitions() }
func (u unmetered) Publish(partition string, values ...[]byte) error {
	return u.b.Publish(partition, values...)
}
func (u unmetered) Dead() ([][]byte, error) { return u.b.Dead() }

func (u unmetered) Source() rota.Source {
	return struct {
		rota.Source
		rota.Binder
		rota.Preparer
		rota.DeadLetters
	}{u.b.Source(), u.b.last, u.b.last, u.b.last}
}

// A broker has queues of its own in a broker that all tests share.
type broker struct {
	t      testing.TB
	scheme string
	user   string // user:password@, or nothing
	addr   string
	prefix string
	names  []string
	params string // further parameters of URLs
	pub    *source
	last   *source
}

// newBroker makes a broker at [user:password@]host:port.
func newBroker(t testing.TB, scheme, addr string, params ...string) *broker {
	at := strings.LastIndexByte(addr, '@') + 1
	b := &broker{t: t, scheme: scheme, user: addr[:at], addr: addr[at:], prefix: "t" + rand.Text()[:10], params: strings.Join(params, "")}
	for i := range 3 {
		b.names = append(b.names, fmt.Sprintf("%s.%d", b.prefix, i))
	}
	b.pub = b.open(b.url(b.addr))
	return b
}

// url has long heart-beats: a busy machine is no reason to lose a connection.
func (b *broker) url(addr string) string {
	return b.scheme + "://" + b.user + addr + "?heartbeat=10s&queues=" + b.prefix + ".{0..2}" + b.params
}

func (b *broker) open(url string) *source {
	s := Source(url).(*source)
	b.t.Cleanup(func() { s.Close() })
	return s
}

func (b *broker) Source() rota.Source {
	b.last = b.open(b.url(b.addr))
	return b.last
}

// SourceAt is a source whose heart-beats are short: the suite freezes its wire.
func (b *broker) SourceAt(addr string) rota.Source {
	return b.open(strings.Replace(b.url(addr), "heartbeat=10s", "heartbeat=2s", 1))
}

// Foreign is a consumer that is exclusive too, and no member's.
func (b *broker) Foreign(partition string) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := b.pub.connected(ctx, b.pub.link)
	if err != nil {
		return nil, err
	}
	f, err := c.consume(ctx, partition, 10)
	if err != nil {
		return nil, err
	}
	return f.abandon, nil
}

func (b *broker) Largest() int         { return 100 << 20 }
func (b *broker) Addr() string         { return b.addr }
func (b *broker) Partitions() []string { return b.names }

func (b *broker) Publish(partition string, values ...[]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	msgs := make([]rota.Message, len(values))
	for i, v := range values {
		msgs[i] = rota.Message{ID: rand.Text(), Value: v} // which AMQP sends
	}
	for {
		err := b.pub.publish(ctx, partition, msgs...)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "connect to") {
			return err // a broker that is just coming back has got nothing
		}
	}
}

func (b *broker) Dead() (out [][]byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for l, err := range b.pub.Letters(ctx, "") {
		if err != nil {
			return nil, err
		}
		out = append(out, l.Message.Value)
	}
	return out, nil
}

// Tidy counts consumers: one for each queue, and none for the notes.
func (b *broker) Tidy() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	all := append([]string{b.pub.set.deadQueue()}, b.names...)
	for _, n := range b.names {
		all = append(all, notePrefix+n)
	}
	counts, _, err := b.pub.statistics(ctx, all)
	for _, n := range b.names {
		if c := counts[n].consumers; c != 1 {
			err = errors.Join(err, fmt.Errorf("queue %s has %d consumers", n, c))
		}
		if c := counts[notePrefix+n]; c.consumers != 0 || c.size != 1 {
			err = errors.Join(err, fmt.Errorf("there are %d notes of %s, which %d consumers read", c.size, n, c.consumers))
		}
	}
	return err
}

// member runs a member until the test ends. Every message goes to got.
func (b *broker) member(t *testing.T, src rota.Source, got chan<- rota.Message, tune ...func(*rota.Config)) (end func() error) {
	t.Helper()
	cfg := rota.Config{Group: "g" + b.prefix, Name: "m" + rand.Text()[:4], Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(ctx context.Context, m rota.Message) error {
			select {
			case got <- m:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
	for _, f := range tune {
		f(&cfg)
	}
	m, err := rota.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = m.Run(ctx)
	}()
	end = func() error { cancel(); <-done; return err }
	t.Cleanup(func() { end() })
	return end
}

// receive waits for a message.
func receive(t *testing.T, got <-chan rota.Message) rota.Message {
	t.Helper()
	select {
	case m := <-got:
		return m
	case <-time.After(time.Minute):
		t.Fatal("no message comes")
		return rota.Message{}
	}
}

// sameMessages sends a message of every kind and compares what arrives.
func sameMessages(t *testing.T, b *broker) {
	large := make([]byte, 10<<20)
	for i := range large {
		large[i] = byte(i * i >> 8)
	}
	sent := []rota.Message{
		{Value: []byte{}},
		{Value: []byte("plain"), ID: "order-1"},
		{Value: []byte("all"), Key: []byte("customer 7"), Headers: []rota.Header{
			{Key: "color", Value: []byte("red: \\ \n line 2")}, {Key: "content-type", Value: []byte("application/json")}, {Key: "correlation-id", Value: []byte("c-1")}}},
		{Value: large},
		{Value: []byte("end\x00after")},
	}
	if err := b.pub.publish(t.Context(), b.names[0], sent...); err != nil {
		t.Fatal(err)
	}
	got := make(chan rota.Message)
	b.member(t, b.Source(), got)
	ids := map[string]bool{}
	for i, want := range sent {
		m := receive(t, got)
		if string(m.Value) != string(want.Value) || string(m.Key) != string(want.Key) {
			t.Errorf("message %d has %d bytes and key %q, want %d and %q", i, len(m.Value), m.Key, len(want.Value), want.Key)
		}
		for _, h := range want.Headers {
			if v := header(m, h.Key); v != string(h.Value) {
				t.Errorf("message %d has %s %q, want %q", i, h.Key, v, h.Value)
			}
		}
		for _, h := range m.Headers {
			if ofProtocol[h.Key] || len(want.Headers) == 0 && h.Key != "content-type" {
				t.Errorf("message %d has a header %s: %q that nobody sent", i, h.Key, h.Value)
			}
		}
		if age := time.Since(m.Time); age > time.Hour || age < -time.Hour {
			t.Errorf("message %d is of %v", i, m.Time)
		}
		if own := want.ID != "" || strings.HasPrefix(b.scheme, "stomp"); own != (m.ID != "") || own && ids[m.ID] {
			t.Errorf("message %d has ID %q", i, m.ID)
		}
		ids[m.ID] = true
	}
}

func header(m rota.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// groupTakeover lets a second group take the queues over from one that has ended.
func groupTakeover(t *testing.T, b *broker) {
	got := make(chan rota.Message)
	first := b.member(t, b.Source(), got, func(c *rota.Config) { c.Group = "first" })
	if err := b.Publish(b.names[0], []byte("1")); err != nil {
		t.Fatal(err)
	}
	receive(t, got)
	if err := first(); err != nil {
		t.Fatal(err)
	}
	b.params = "&takeover=first"
	second := b.member(t, b.Source(), got, func(c *rota.Config) { c.Group = "second" })
	for i := range 20 {
		if err := b.Publish(b.names[i%3], fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		receive(t, got)
	}
	if err := second(); err != nil {
		t.Fatal(err)
	}
	s := b.Source().(*source)
	s.set.takeover = ""
	if err := s.Bind("first"); err != nil {
		t.Fatal(err)
	}
	for _, n := range b.names {
		if err := s.claim(t.Context(), n); err == nil || !strings.Contains(err.Error(), "group second reads queue "+n) || !strings.Contains(err.Error(), "takeover=second") {
			t.Errorf("%s was taken over, and the first group gets %v", n, err)
		}
	}
}

// foreignConsumer lets an exclusive consumer that is no member hold a queue.
func foreignConsumer(t *testing.T, b *broker) {
	c, err := b.pub.connected(t.Context(), b.pub.link)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := c.consume(t.Context(), b.names[0], 10)
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan string, 100)
	got := make(chan rota.Message, 100)
	b.member(t, b.Source(), got, func(c *rota.Config) {
		c.Trace = func(e rota.Event) {
			if e.Kind == rota.EventCondition && e.Condition == conditionForeign {
				reported <- e.Partition + ": " + e.Because
			}
		}
	})
	if err := b.Publish(b.names[0], []byte("1"), []byte("2")); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-reported:
		if !strings.Contains(text, b.names[0]+": the queue has 1 consumers besides its owner") {
			t.Errorf("reported is %q", text)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody tells of the foreign consumer")
	}
	if err := foreign.end(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "2"} {
		if m := receive(t, got); string(m.Value) != want {
			t.Errorf("got %q when the foreign consumer had ended, want %q", m.Value, want)
		}
	}
}

// prefetchObeyed consumes without settling: no more than the prefetch arrives.
func prefetchObeyed(t *testing.T, b *broker) {
	for i := range 50 {
		if err := b.Publish(b.names[0], fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := b.pub.connected(t.Context(), b.pub.link)
	if err != nil {
		t.Fatal(err)
	}
	const prefetch = 7
	f, err := c.consume(t.Context(), b.names[0], prefetch)
	if err != nil {
		t.Fatal(err)
	}
	var all []*delivery
	for range prefetch {
		select {
		case d := <-f.arrived():
			all = append(all, d)
		case <-time.After(time.Minute):
			t.Fatalf("%d messages arrive", len(all))
		}
	}
	if err := f.settle(t.Context(), all[:2]); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		select {
		case d := <-f.arrived():
			all = append(all, d)
		case <-time.After(time.Minute):
			t.Fatalf("%d messages arrive behind those that were settled", i)
		}
	}
	if err := f.end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(f.arrived()); n > 0 {
		t.Errorf("%d messages came beyond the prefetch", n)
	}
	for i, d := range all {
		if string(d.Value) != fmt.Sprint(i) {
			t.Errorf("message %d is %q", i, d.Value)
		}
	}
	next, err := c.consume(t.Context(), b.names[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	defer next.abandon()
	select {
	case d := <-next.arrived():
		if string(d.Value) != "2" {
			t.Errorf("2 were settled, and the next consumer begins with %q", d.Value)
		}
	case <-time.After(time.Minute):
		t.Fatal("the next consumer is given nothing")
	}
}

// foreignLetters puts a message without a history into the queue of dead letters.
func foreignLetters(t *testing.T, b *broker) {
	at := b.pub.set.deadQueue()
	if err := b.pub.publish(t.Context(), at, rota.Message{ID: "lost-1", Value: []byte("lost"), Headers: []rota.Header{{Key: "color", Value: []byte("red")}, {Key: headerAttempts, Value: []byte("many")}}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for l, err := range b.pub.Letters(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if string(l.Message.Value) != "lost" || header(l.Message, "color") != "red" || l.Message.Attempt != 1 || !strings.HasPrefix(l.Reason, "not known") || l.Group != "" {
			t.Errorf("the letter is %+v", l)
		}
		if b.scheme == "amqp10" {
			if err := b.pub.DropLetter(t.Context(), l.ID); err == nil || !strings.Contains(err.Error(), "drop it with a URL of STOMP") {
				t.Errorf("it was dropped: %v", err)
			}
			continue
		}
		if err := b.pub.DropLetter(t.Context(), l.ID); err != nil {
			t.Error(err)
		}
		if err := b.pub.DropLetter(t.Context(), l.ID); !errors.Is(err, rota.ErrNotFound) {
			t.Errorf("it was dropped twice: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d letters are listed", n)
	}
}
