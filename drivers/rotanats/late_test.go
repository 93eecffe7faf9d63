package rotanats_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// unaware is a source whose context does not end with the lease, like one in a process
// that goes on after SIGSTOP: only Check shows that the lease has expired.
type unaware struct {
	rota.Source
	once sync.Once
	own  chan rota.Ownership
	done chan struct{}
}

func (u *unaware) Bind(group string) error { return u.Source.(rota.Binder).Bind(group) }

func (u *unaware) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	u.once.Do(func() { u.own <- own })
	defer close(u.done)
	return u.Source.Consume(context.WithoutCancel(ctx), own, deliver)
}

// TestNothingIsBegunAfterTheLease lets requests of an owner go unanswered until its lease
// expires, so that they are retried. No attempt may begin after that.
func TestNothingIsBegunAfterTheLease(t *testing.T) {
	for _, c := range []struct {
		name, request string
		poison        bool
		before        bool // a former owner was cut off, and its consumer is to be removed
	}{
		{name: "a consumer is made", request: "$JS.API.CONSUMER.CREATE."},
		{name: "a consumer is removed", request: "$JS.API.CONSUMER.DELETE.", before: true},
		{name: "a message is dead-lettered", request: "dead.", poison: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			b := newBroker(t, s.URL())
			b.names = b.names[:1]
			l := newLedger(t)
			mem := rotatest.NewMemStore()
			cutOff := func(store *rotatest.FaultyStore, ended chan error) {
				t.Helper()
				store.Fail()
				if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
					t.Fatal(err)
				}
			}
			calm := func(c *rota.Config) { c.Orphan, c.Abort = rota.AtOnce, func(error) {} }
			b.flow(1, 1)
			if c.before {
				store := rotatest.Faulty(mem.Open(), 1)
				ended := l.memberUntil(t.Context(), "before", store, b.Source(), calm)
				l.wait("the first message", 20*time.Second, l.reached(b, 1))
				cutOff(store, ended)
			}
			asked := make(chan *nats.Msg, 1000)
			if _, err := b.js.Conn().ChanSubscribe(c.request+">", asked); err != nil {
				t.Fatal(err)
			}
			wire := newSnip(t, s.Addr(), "PUB "+c.request, "")
			u := &unaware{Source: b.SourceAt(wire.l.Addr().String()), own: make(chan rota.Ownership, 1), done: make(chan struct{})}
			store := rotatest.Faulty(mem.Open(), 1)
			ended := l.memberUntil(t.Context(), "late", store, u, calm, func(cfg *rota.Config) {
				if c.poison {
					cfg.Attempts, cfg.Handle = 1, func(context.Context, rota.Message) error { return errors.New("poison") }
				}
			})
			own := <-u.own
			<-asked
			store.Fail()
			for own.Check() == nil {
				time.Sleep(time.Millisecond) // until the lease expires
			}
			over := time.Now()
			for {
				select {
				case <-asked:
					// A request that began just before may have been in flight.
					if late := time.Since(over); late > 300*time.Millisecond {
						t.Fatalf("%s… was sent %v after the lease was over", c.request, late.Round(time.Millisecond))
					}
					continue
				case <-u.done:
				}
				break
			}
			cutOff(store, ended)
		})
	}
}
