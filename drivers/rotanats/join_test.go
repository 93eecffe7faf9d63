package rotanats_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A member that joins asks the server for little: hundreds may join at once.
func TestJoinAsksForLittle(t *testing.T) {
	t.Parallel()
	url := serve(t).URL()
	const others = 4 // a leader, its two deputies and one that is like the newcomer
	names := rotatest.Names(others + 1)
	started := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var stores []rota.Store
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		for _, s := range stores {
			s.Close()
		}
	})
	join := func(name string) {
		store := rotanats.Store(url)
		stores = append(stores, store)
		m, err := rota.New(rota.Config{Group: "join", Name: name, Store: store, NewGroup: true,
			Source: rota.Func(names, func(ctx context.Context, own rota.Ownership) error {
				own.Started()
				started <- name
				<-own.Stop()
				return nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := m.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	until := func(name string) {
		t.Helper()
		for {
			select {
			case who := <-started:
				if who == name {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s starts nothing", name)
			}
		}
	}
	for i := range others {
		join(fmt.Sprint("m", i))
		until(fmt.Sprint("m", i))
	}
	r := countRequests(t, url, "KV_rota")
	join("newcomer")
	until("newcomer")
	got := r.next()
	t.Log(got)
	// The bucket once. Plan, roster and the leader's record, each by the watch and by the
	// session itself, which trusts no watch when it joins; the plan before that, and what the
	// others read of their own.
	if got["STREAM.INFO"] > 1 || got["STREAM.MSG.GET"] > 10 {
		t.Errorf("joining causes %v, want one STREAM.INFO and ten STREAM.MSG.GET at most", got)
	}
}
