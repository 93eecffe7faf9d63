package shop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// begin runs a member until the function that it returns is called.
func begin(t *testing.T, c rota.Config) (end func()) {
	c.Log = slog.New(slog.DiscardHandler) // trouble is made on purpose
	m, err := rota.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-over; err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// A member is cut off from the store. The other one takes its partition over, and ships
// what waits there.
func TestOrdersGoOutWhenAMemberIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := rotatest.NewMemStore()
		wire := rotatest.Faulty(store.Open(), 1) // c1's connection, which can be cut
		orders := rotatest.NewMemSource(0, "orders.0", "orders.1")
		var w Warehouse
		end1 := begin(t, Member("c1", wire, orders, &w))
		end2 := begin(t, Member("c2", store.Open(), orders, &w))
		time.Sleep(10 * time.Second) // both have joined, and each has a partition

		wire.Cut()
		time.Sleep(6 * time.Second) // c1 has stopped by itself, and its lease is over
		orders.Publish("orders.0", []byte("shoes"))
		orders.Publish("orders.1", []byte("a hat"))
		synctest.Wait()
		got := w.Shipped()
		slices.Sort(got)
		if !slices.Equal(got, []string{"a hat", "shoes"}) {
			t.Errorf("%q went out, want both", got)
		}
		wire.Heal()
		time.Sleep(10 * time.Second) // c1 comes back, as a new session
		end2()
		end1()
	})
}

// A member freezes between its last look at the lease and the effect, for longer than
// the lease. The warehouse refuses it, since another owner was there meanwhile.
func TestAFormerOwnerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := rotatest.NewMemStore()
		wire := rotatest.Faulty(store.Open(), 1)
		orders := rotatest.NewMemSource(0, "orders.0")
		orders.Publish("orders.0", []byte("shoes"))
		var w Warehouse
		late := make(chan error, 1)
		frozen := Member("c1", wire, orders, &w)
		frozen.Handle = func(_ context.Context, msg rota.Message) error {
			wire.Cut() // a frozen process sends no heartbeats
			time.Sleep(20 * time.Second)
			err := w.Ship(msg.Partition, msg.Token, "twice")
			late <- err
			return err
		}
		frozen.Abort = func(error) { time.Sleep(20 * time.Second) } // nor can it end itself
		end1 := begin(t, frozen)
		time.Sleep(10 * time.Second)
		end2 := begin(t, Member("c2", store.Open(), orders, &w))

		if err := <-late; !errors.Is(err, rota.ErrLost) {
			t.Errorf("the warehouse said %v to a former owner", err)
		}
		if got := w.Shipped(); !slices.Equal(got, []string{"shoes"}) {
			t.Errorf("%q went out", got)
		}
		wire.Heal()
		time.Sleep(10 * time.Second) // c1 comes back, as a new session
		end2()
		end1()
	})
}
