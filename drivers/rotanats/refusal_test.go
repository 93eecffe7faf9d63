package rotanats_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// requestsIn is how many requests a partition may cost while something is wrong with it,
// in the first watchTime of that. A lone retry every 0.7 s, as rota alone would make,
// costs 190.
const (
	watchTime  = 10 * time.Second
	requestsIn = 120
	many       = 300 // messages: more than are fetched at once
)

// Attacks that stop one partition. Each is told in the server's own words, costs few
// requests, and ends by itself when its cause ends.
func TestRefusalsAreToldPacedAndEnd(t *testing.T) {
	type attack struct {
		tune   func(*jetstream.StreamConfig)
		begin  func(t *testing.T, g *guarded)
		end    func(t *testing.T, g *guarded)
		says   []string
		poison bool // the first message is bad, and is dead-lettered at the end
		late   bool // it begins when messages have been handled
	}
	without := func(right string) func(*testing.T, *guarded) {
		return func(_ *testing.T, g *guarded) { g.without(right) }
	}
	all := func(t *testing.T, g *guarded) { g.grant(t, g.may) }
	dead := func(change func(*jetstream.StreamConfig)) func(*testing.T, *guarded) {
		return func(t *testing.T, g *guarded) {
			c := jetstream.StreamConfig{Name: g.stream + "_dead", Subjects: []string{"dead." + g.stream + ".>"}, MaxMsgSize: 2 << 20}
			change(&c)
			if _, err := g.js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	asBefore := dead(func(*jetstream.StreamConfig) {})
	foreign := func(t *testing.T, g *guarded) {
		_, err := g.js.CreateConsumer(t.Context(), g.stream, jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: g.names[0]})
		if err != nil {
			t.Fatal(err)
		}
	}
	noForeign := func(t *testing.T, g *guarded) {
		if err := g.js.DeleteConsumer(t.Context(), g.stream, "billing"); err != nil {
			t.Fatal(err)
		}
	}
	denied := "permissions violation: Permissions Violation for Publish to"
	for name, c := range map[string]attack{
		"no right to create a consumer":     {begin: without("$JS.API.CONSUMER.CREATE."), end: all, says: []string{"source-failed", denied}},
		"no right to pull":                  {begin: without("$JS.API.CONSUMER.MSG.NEXT."), end: all, says: []string{"source-failed", denied}},
		"no right to settle":                {begin: without("$JS.ACK."), end: all, says: []string{"source-failed", denied, "$JS.ACK."}},
		"the right to settle is taken away": {begin: without("$JS.ACK."), end: all, says: []string{"source-failed", denied, "$JS.ACK."}, late: true},
		"no right to write notes":           {begin: without("$KV.rota-sources.>"), end: all, says: []string{"source-failed", denied}},
		"no right to read notes":            {begin: without("$JS.API.STREAM.MSG.GET.KV_rota-sources"), end: all, says: []string{"source-failed", denied}},
		"no right to dead letters":          {begin: without("dead."), end: all, says: []string{"source-failed", "cannot dead-letter", denied}, poison: true},
		"dead letters are full": {begin: dead(func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 10, jetstream.DiscardNew }), end: asBefore,
			says: []string{"source-failed", "cannot dead-letter", "maximum bytes exceeded"}, poison: true},
		"dead letters have another subject": {begin: dead(func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.>"} }), end: asBefore,
			says: []string{"source-failed", "cannot dead-letter", "other.>"}, poison: true},
		"the stream has enough consumers": {tune: func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 }, begin: foreign, end: noForeign,
			says: []string{"source-failed", "maximum consumers limit reached"}},
		"a work queue has another reader": {tune: func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, begin: foreign, end: noForeign,
			says: []string{"source-failed", "consumer billing, which no group of rota has made"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, func(s *jetstream.StreamConfig) {
				if c.tune != nil {
					c.tune(s)
				}
			})
			g.names = g.names[:1]
			l, h := newLedger(t), newFindings()
			if !c.late {
				c.begin(t, g)
			}
			calls := atomic.Int64{}
			x := newTap(t, g.Addr())
			g.flow(1, many)
			ctx, leave := context.WithCancel(t.Context())
			ended := l.memberUntil(ctx, "a", rotatest.NewMemStore(), g.SourceAt(x.l.Addr().String()), h.tune, func(cfg *rota.Config) {
				cfg.Handle = func(ctx context.Context, m rota.Message) error {
					calls.Add(1)
					if c.poison && strings.HasSuffix(string(m.Value), " 1") {
						l.handle(ctx, m) // which is how it is done with here
						return fmt.Errorf("%w: poison", rota.ErrBad)
					}
					return l.handle(ctx, m)
				}
			})
			if c.late {
				l.wait("the first messages", 30*time.Second, l.reached(g.broker, many))
				c.begin(t, g)
				g.flow(many+1, 2*many)
				calls.Store(0)
				x.n.Store(0)
				h.began = time.Now()
			}
			h.wait(t, c.says...)
			if c.late {
				calls.Store(0) // messages were handled before the refusal was heard: acknowledgements are sent for several
			}
			time.Sleep(watchTime - time.Since(h.began)) // how much it costs in this time
			n, handled := x.n.Load(), calls.Load()
			if n > requestsIn {
				t.Errorf("%d requests in %v, want %d at most", n, watchTime, requestsIn)
			}
			if handled > 100 {
				t.Errorf("the handler was called %d times", handled)
			}
			t.Logf("%d requests and %d calls of the handler in %v", n, handled, watchTime)
			c.end(t, g)
			l.wait("it ends by itself", 40*time.Second, l.reached(g.broker, map[bool]int{true: 2 * many, false: many}[c.late]))
			leave()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			letters, err := g.Dead()
			if want := map[bool]int{true: 1, false: 0}[c.poison]; err != nil || len(letters) != want {
				t.Errorf("%d dead letters, error %v; want %d", len(letters), err, want)
			}
		})
	}
}

// A source has all that it needs by the rights on the page, and no more.
func TestSourceWithItsRights(t *testing.T) {
	t.Parallel()
	// Answers that are lost need no other rights, and take long: so it has no wire here.
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return struct{ rotatest.RefusingBroker }{newGuarded(t)} })
}
