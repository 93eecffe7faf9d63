package rotaactive

import (
	"context"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestS0_13c_MembersGoToAnotherEndpoint runs two brokers over one directory of messages, of
// which one serves, with TLS. It is killed under load, again and again.
func TestS0_13c_MembersGoToAnotherEndpoint(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"stomp+ssl", "amqp10s"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newPair(t, scheme) }, rotatest.WithFailovers())
		})
	}
}

// A pairBroker is a broker and its standby.
type pairBroker struct {
	*broker
	pair []*rotatest.RealServer
	send map[string]*source // by partition
}

func newPair(t *testing.T, scheme string) *pairBroker {
	pair := rotatest.StartActiveMQPair(t, rotatest.ActiveMQSetup{TLS: true})
	var trusted []byte // each has a certificate of its own
	for _, s := range pair {
		cert, err := os.ReadFile(s.ActiveMQCertificate())
		if err != nil {
			t.Fatal(err)
		}
		trusted = append(trusted, cert...)
	}
	file := filepath.Join(t.TempDir(), "trusted.pem")
	if err := os.WriteFile(file, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	at := pair[0].At(protocols[scheme]) + "," + pair[1].At(protocols[scheme])
	b := &pairBroker{newBroker(t, scheme, at, "&ca="+neturl.QueryEscape(file)), pair, map[string]*source{}}
	for _, p := range b.names {
		b.send[p] = b.open(b.url(b.addr))
	}
	return b
}

func (b *pairBroker) Send(ctx context.Context, partition string, value []byte) error {
	return b.send[partition].publish(ctx, partition, rota.Message{Value: value})
}

// Serving returns the two in turn: the one that was started again is the standby.
func (b *pairBroker) Serving(_ context.Context, round int) (rotatest.Endpoint, error) {
	active, standby := b.pair[round%2], b.pair[(round+1)%2]
	return rotatest.Endpoint{Name: fmt.Sprint("broker ", round%2+1), Kill: active.Kill, Back: func(ctx context.Context) error {
		if err := standby.Ready(ctx); err != nil {
			return err
		}
		if err := active.Launch(); err != nil {
			return err
		}
		return active.ActiveMQStandby(ctx)
	}}, nil
}

func (b *pairBroker) Unsettled() int { return defaultPrefetch }

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

// TestFrozenOwner stops the connection of an owner without closing it, as SIGSTOP does: the
// next consumer begins with the first message that was not settled, once the broker has
// missed the heart-beats.
func TestFrozenOwner(t *testing.T) {
	t.Parallel()
	s := rotatest.StartActiveMQ6(t, rotatest.ActiveMQSetup{Plugins: rotatest.ActiveMQStatistics, Beat: "1000"})
	for _, scheme := range []string{"stomp", "amqp10"} {
		t.Run(scheme, func(t *testing.T) {
			b := newBroker(t, scheme, s.At(protocols[scheme]))
			for i := range 50 {
				if err := b.Publish(b.names[0], fmt.Append(nil, i)); err != nil {
					t.Fatal(err)
				}
			}
			w := newGate(t, b.addr)
			frozen := b.open(strings.Replace(b.url(w.addr()), "heartbeat=10s", "heartbeat=1s", 1))
			c, err := frozen.connected(t.Context(), frozen.link)
			if err != nil {
				t.Fatal(err)
			}
			f, err := c.consume(t.Context(), b.names[0], 20)
			if err != nil {
				t.Fatal(err)
			}
			var all []*delivery
			for range 10 {
				all = append(all, arrival(t, f))
			}
			if err := f.settle(t.Context(), all[:5]); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the settlement has arrived", func() bool { return b.waiting(t) == 45 })
			w.freeze()
			began := time.Now()
			other, err := b.pub.connected(t.Context(), b.pub.link)
			if err != nil {
				t.Fatal(err)
			}
			next, err := other.consume(t.Context(), b.names[0], 20)
			if err != nil {
				t.Fatal(err)
			}
			defer next.abandon()
			for i := 5; i < 20; i++ {
				if d := arrival(t, next); string(d.Value) != fmt.Sprint(i) {
					t.Fatalf("the next consumer gets %q, want %d", d.Value, i)
				}
				if i == 5 {
					t.Logf("the next consumer begins after %v", time.Since(began).Round(10*time.Millisecond))
				}
			}
		})
	}
}

// waiting is how many messages are in the first queue.
func (b *broker) waiting(t *testing.T) int64 {
	all, _, err := b.pub.statistics(t.Context(), b.names[:1])
	if err != nil {
		t.Fatal(err)
	}
	return all[b.names[0]].size
}

func arrival(t *testing.T, f feed) *delivery {
	t.Helper()
	select {
	case d := <-f.arrived():
		return d
	case <-f.failed():
		t.Fatal(f.err())
	case <-time.After(time.Minute):
		t.Fatal("no message comes")
	}
	return nil
}
