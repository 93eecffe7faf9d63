package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A relay is one partition that goes from owner to owner.
type relay struct {
	*ledger
	*findings
	b   *broker
	mem *rotatest.MemStore
	n   int
}

func newRelay(t *testing.T, b *broker) *relay {
	b.names = b.names[:1]
	return &relay{ledger: newLedger(t), findings: newFindings(), b: b, mem: rotatest.NewMemStore()}
}

// begin starts the next owner. leave lets it leave in good order, cut as one that died.
func (r *relay) begin(query string) (leave, cut func()) {
	r.Helper()
	b := r.b
	if query != "" {
		b = b.with(query)
	}
	return r.keep("m", r.mem, b.Source, r.tune)
}

// flow publishes n messages and waits until they are handled.
func (r *relay) flow(n int) {
	r.Helper()
	r.b.flow(r.n+1, r.n+n)
	r.n += n
	r.ledger.wait(fmt.Sprint("all up to ", r.n), 30*time.Second, r.reached(r.b, r.n))
}

// once checks that no message came again.
func (r *relay) once(what string) {
	r.Helper()
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	if r.again > 0 {
		r.Errorf("%s: %d of %d messages came again", what, r.again, r.n)
		r.again = 0
	}
}

// TestDeletedConsumerForgetsNothing deletes the consumer of a partition under its owner,
// and between two owners. What was settled does not come again.
func TestDeletedConsumerForgetsNothing(t *testing.T) {
	t.Parallel()
	r := newRelay(t, newBroker(t, serve(t).URL()))
	remove := func() {
		t.Helper()
		if err := r.b.js.DeleteConsumer(t.Context(), r.b.stream, r.b.consumer(r.b.names[0])); err != nil {
			t.Fatal(err)
		}
	}
	leave, _ := r.begin("")
	r.flow(300)
	remove()
	r.flow(10)
	r.once("under its owner")
	remove()
	leave()
	leave, _ = r.begin("")
	r.flow(10)
	r.once("just before its owner left")
	leave()
	remove()
	leave, _ = r.begin("")
	r.flow(10)
	r.once("between two owners")
	leave()
}

// TestLostNotesForgetNothing deletes both buckets of notes. The consumers know what was
// settled; none of them stays behind or blocks a work queue.
func TestLostNotesForgetNothing(t *testing.T) {
	for name, retention := range map[string]jetstream.RetentionPolicy{"limits": jetstream.LimitsPolicy, "work queue": jetstream.WorkQueuePolicy} {
		for _, how := range []string{"left", "was cut off", "is at work"} {
			t.Run(name+", the owner "+how, func(t *testing.T) {
				t.Parallel()
				r := newRelay(t, newBroker(t, serve(t).URL(), func(c *jetstream.StreamConfig) { c.Retention = retention }))
				leave, cut := r.begin("")
				r.flow(300)
				switch how {
				case "left":
					leave()
				case "was cut off":
					cut()
				}
				for _, bucket := range []string{"rota-sources", "rota-sources-now"} {
					if err := r.b.js.DeleteStream(t.Context(), "KV_"+bucket); err != nil {
						t.Fatal(err)
					}
				}
				if how == "is at work" {
					leave()
				}
				leave, _ = r.begin("")
				r.flow(10)
				r.once("without notes")
				if err := r.b.Tidy(); err != nil {
					t.Error(err)
				}
				leave()
			})
		}
	}
}

// TestAsManyConsumersAsPartitions has a stream that permits one consumer for its one
// partition: the old one must go before the new one can be made, and what was settled must
// not go with it.
func TestAsManyConsumersAsPartitions(t *testing.T) {
	t.Parallel()
	r := newRelay(t, newBroker(t, serve(t).URL(), func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 }))
	for range 3 {
		_, cut := r.begin("")
		r.flow(20)
		cut()
	}
	r.once("after owners were cut off")
	if at := r.find("maximum consumers"); at != "" {
		t.Error(at)
	}
}

// TestPrefetchOfTheNextOwner hands a consumer over to an owner that prefetches more: the
// limit of the consumer must not slow it down.
func TestPrefetchOfTheNextOwner(t *testing.T) {
	t.Parallel()
	r := newRelay(t, newBroker(t, serve(t).URL()))
	pending := func() int {
		t.Helper()
		c, err := r.b.js.Consumer(t.Context(), r.b.stream, r.b.consumer(r.b.names[0]))
		if err != nil {
			t.Fatal(err)
		}
		return c.CachedInfo().Config.MaxAckPending
	}
	var names []string
	for _, c := range []struct {
		prefetch, want int
		same           bool
	}{{1, 2, false}, {256, 512, false}, {256, 512, true}, {8, 512, true}} {
		leave, _ := r.begin(fmt.Sprint("prefetch=", c.prefetch))
		r.flow(20)
		names = append(names, r.b.consumer(r.b.names[0]))
		if got := pending(); got != c.want {
			t.Errorf("prefetch=%d: the consumer permits %d unacknowledged messages, want %d", c.prefetch, got, c.want)
		}
		if n := len(names); n > 1 && (names[n-1] == names[n-2]) != c.same {
			t.Errorf("prefetch=%d: the consumer was %s and is %s", c.prefetch, names[n-2], names[n-1])
		}
		leave()
	}
	r.once("after hand-overs")
}

// TestStreamSetBack restores the files of a stream to an earlier state, under members that
// have settled more. New messages have numbers that were settled once: all of them must
// be handled, and a condition says what happened.
func TestStreamSetBack(t *testing.T) {
	for _, c := range []struct {
		name      string
		published int // after it was set back from 200 to 100
		live      bool
		away      bool // the owner comes back when they are there
		says      string
	}{
		{"the owner was cut off", 51, false, false, "but stream"},
		{"under its owner", 51, true, false, "but stream"},
		{"under its owner, and it has caught up", 150, true, true, "is another one now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			opts := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir}
			start := func(port int) *server.Server {
				t.Helper()
				opts.Port = port
				ns, err := server.NewServer(opts.Clone())
				if err != nil {
					t.Fatal(err)
				}
				ns.Start()
				if !ns.ReadyForConnections(30 * time.Second) {
					t.Fatal("the server does not start")
				}
				return ns
			}
			stop := func(ns *server.Server) { ns.Shutdown(); ns.WaitForShutdown() }
			ns := start(-1)
			port := ns.Addr().(*net.TCPAddr).Port
			r := newRelay(t, newBroker(t, ns.ClientURL()))
			_, cut := r.begin("")
			r.flow(100)
			cut()
			stop(ns)
			files, kept := filepath.Join(dir, "jetstream", "$G", "streams", r.b.stream), filepath.Join(t.TempDir(), "kept")
			if err := os.CopyFS(kept, os.DirFS(files)); err != nil {
				t.Fatal(err)
			}
			ns = start(port)
			_, cut = r.begin("") // replaces the consumer: the note has a start of its own
			r.flow(100)
			if !c.live {
				cut()
				_, cut = r.begin("")
				r.flow(1)
				cut()
			}
			stop(ns)
			if err := errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(kept))); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			r.ledger.mu.Lock()
			r.other = func(m rota.Message) bool {
				isNew := strings.HasPrefix(string(m.Value), "new ")
				if isNew {
					got[string(m.Value)] = true
					close(r.changed)
					r.changed = make(chan struct{})
				}
				return isNew
			}
			r.ledger.mu.Unlock()
			publish := func(at *server.Server) {
				t.Helper()
				nc, err := nats.Connect(at.ClientURL())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				for i := range c.published {
					if _, err := nc.Request(r.b.names[0], fmt.Appendf(nil, "new %d", i), 10*time.Second); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.away {
				elsewhere := start(-1)
				publish(elsewhere)
				stop(elsewhere)
			}
			ns = start(port)
			t.Cleanup(func() { stop(ns) })
			if !c.away {
				publish(ns)
			}
			if !c.live {
				r.begin("")
			}
			r.ledger.wait("all new messages are handled", 30*time.Second, func() bool { return len(got) == c.published })
			r.findings.wait(t, "stream-went-back", r.b.names[0], c.says)
		})
	}
}

// TestADeletedConsumerIsNotHandedOver deletes a consumer that was released. The next owner
// stops before it has noticed that nobody answers its pulls; the one after it must not get
// that consumer again. The server would refuse pulls of that consumer, if nobody else
// listened to such requests: somebody who observes the API does.
func TestADeletedConsumerIsNotHandedOver(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	b.names = b.names[:1]
	l, mem := newLedger(t), rotatest.NewMemStore()
	if _, err := b.js.Conn().Subscribe("$JS.API.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	var said diary
	join := func(name string) (started chan struct{}, leave func()) {
		source := rotanats.Source(with(b.url, fmt.Sprintf("stream=%s&subject=%[1]s.in.*&partitions=1", b.stream)),
			rotanats.Log(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		ctx, cancel := context.WithCancel(t.Context())
		started = make(chan struct{}, 8)
		ended := l.memberUntil(ctx, name, mem.Open(), source, func(c *rota.Config) {
			c.Lease, c.Heartbeat = 15*time.Second, 0
			c.Trace = func(e rota.Event) {
				if e.Kind == rota.EventStart {
					started <- struct{}{}
				}
			}
		})
		return started, func() {
			t.Helper()
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			source.(interface{ Close() error }).Close()
		}
	}
	_, leave := join("a")
	b.flow(1, 5)
	l.wait("the first messages", 20*time.Second, l.reached(b, 5))
	leave()
	if err := b.js.DeleteConsumer(t.Context(), b.stream, b.consumer(b.names[0])); err != nil {
		t.Fatal(err)
	}
	started, leave := join("b")
	<-started
	leave()
	said.forget()
	_, leave = join("c")
	b.flow(6, 10)
	l.wait("all messages", 60*time.Second, l.reached(b, 10))
	leave()
	if text := said.about(b.names[0]); strings.Contains(text, "attach again") {
		t.Errorf("the third owner got the deleted consumer:\n%s", text)
	}
	if l.again > 0 {
		t.Errorf("%d messages came again", l.again)
	}
}
