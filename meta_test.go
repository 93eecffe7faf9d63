package rota_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
)

// give writes an order, as the command does.
func (g *group) give(verb string, args ...string) {
	g.t.Helper()
	o := &record.Orders{}
	e, err := g.store.Get(context.Background(), "test/orders")
	if err == nil {
		o, err = record.DecodeOrders(e.Value)
	}
	if err != nil && !errors.Is(err, rota.ErrNotFound) {
		g.t.Fatal(err)
	}
	if _, err := o.Give(verb, args...); err != nil {
		g.t.Fatal(err)
	}
	o.Ver++
	b, err := record.Encode(o)
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := g.store.Put(context.Background(), "test/orders", b, e.Rev); err != nil {
		g.t.Fatal(err)
	}
}

// TestS1_Meta_OfATopicReachesItsOwners orders metadata for a topic and for one of its
// partitions. Their owners see it within a second, by Ownership.Meta and by an event, and
// nothing is restarted. What is ordered for the partition wins over the topic's, that over
// the source's, and when an order is taken back the value below it counts again.
func TestS1_Meta_OfATopicReachesItsOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3)
		var mu sync.Mutex
		seen, told, starts := map[string]rota.Meta{}, map[string]rota.Meta{}, 0
		src := &lists{
			Source: &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, _ rota.Deliver) error {
				own.Started()
				for {
					meta, changed := own.Meta()
					meta["topic"] = own.Topic()
					mu.Lock()
					seen[own.Partition()] = meta
					mu.Unlock()
					select {
					case <-changed:
					case <-own.Stop():
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			}},
			answers: []func() ([]rota.Partition, error){func() ([]rota.Partition, error) {
				return []rota.Partition{{Name: "q0", Topic: "t", Meta: rota.Meta{"a": "source"}}, {Name: "q1", Topic: "t"}, {Name: "q2", Topic: "u"}}, nil
			}},
		}
		tune := func(c *rota.Config) {
			c.Source = src
			c.Trace = func(e rota.Event) {
				mu.Lock()
				defer mu.Unlock()
				switch e.Kind {
				case rota.EventStart:
					starts++
				case rota.EventMeta, rota.EventGrant:
					meta := maps.Clone(e.Meta)
					meta["topic"] = e.Topic
					told[e.Partition] = meta
				}
			}
		}
		m1, leave1 := g.start("c1", tune)
		pass(time.Second)
		_, leave2 := g.start("c2", tune)
		pass(time.Second)
		began := starts
		for _, step := range []struct{ verb, of, pair, q0, q1, q2 string }{
			{"", "", "", "map[a:source topic:t]", "map[topic:t]", "map[topic:u]"},
			{"set-topic", "t", "a=topic", "map[a:topic topic:t]", "map[a:topic topic:t]", "map[topic:u]"},
			{"set", "q1", "a=own", "map[a:topic topic:t]", "map[a:own topic:t]", "map[topic:u]"},
			{"set-topic", "t", "a=more", "map[a:more topic:t]", "map[a:own topic:t]", "map[topic:u]"},
			{"set-topic", "u", "b=1", "map[a:more topic:t]", "map[a:own topic:t]", "map[b:1 topic:u]"},
			{"set", "q1", "a=", "map[a:more topic:t]", "map[a:more topic:t]", "map[b:1 topic:u]"},
			{"set-topic", "t", "a=", "map[a:source topic:t]", "map[topic:t]", "map[b:1 topic:u]"},
		} {
			if step.verb != "" {
				g.give(step.verb, step.of, step.pair)
				pass(time.Second)
			}
			mu.Lock()
			for name, want := range map[string]string{"q0": step.q0, "q1": step.q1, "q2": step.q2} {
				if got := fmt.Sprint(map[string]string(seen[name])); got != want {
					t.Errorf("after %v its owner sees %s of %s", step, got, name)
				}
				if got := fmt.Sprint(map[string]string(told[name])); got != want {
					t.Errorf("after %v the last event about %s says %s", step, name, got)
				}
			}
			mu.Unlock()
		}
		if starts != began {
			t.Errorf("%d partitions were restarted", starts-began)
		}
		if _, p := row(m1.Status(), "q2"); p.Topic != "u" || p.Meta["b"] != "1" {
			t.Errorf("Status shows %+v", p)
		}
		if st, err := rota.Inspect(t.Context(), g.store, "test"); err != nil || fmt.Sprint(st.Orders.Topics) != "map[u:map[b:1]]" {
			t.Errorf("Inspect shows the orders %v, %v", st.Orders.Topics, err)
		}
		leave1()
		leave2()
		g.wg.Wait()
	})
}
