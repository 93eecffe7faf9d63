//go:build !race

package rota_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// uneven is a source of full queues whose fetches take unequally long.
type uneven struct {
	names   []string
	latency map[string]time.Duration
	work    map[string]time.Duration // how long the handler takes; a microsecond by default
	mu      sync.Mutex
	left    map[string]int
	batch   int  // messages of a delivery
	unpaced bool // serve it without the gate
}

const (
	unevenQueues = 16
	unevenSize   = 10_000
)

// newUneven makes queues q0 … q15 but those in without: q0 answers at once, q15
// after 5 ms.
func newUneven(without ...string) *uneven {
	u := &uneven{latency: map[string]time.Duration{}, left: map[string]int{}, batch: 8}
	for i, name := range rotatest.Names(unevenQueues) {
		if slices.Contains(without, name) {
			continue
		}
		u.latency[name] = time.Duration(i) * 5 * time.Millisecond / (unevenQueues - 1)
		u.left[name] = unevenSize
		u.names = append(u.names, name)
	}
	return u
}

func (u *uneven) Partitions(context.Context) ([]rota.Partition, error) {
	var out []rota.Partition
	for _, n := range u.names {
		out = append(out, rota.Partition{Name: n})
	}
	return out, nil
}

func (u *uneven) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	own.Started()
	for {
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(u.latency[own.Partition()]):
		}
		u.mu.Lock()
		msgs := make([]rota.Message, min(u.left[own.Partition()], u.batch))
		u.mu.Unlock()
		if len(msgs) == 0 {
			<-own.Stop()
			return nil
		}
		n, err := deliver(ctx, msgs...)
		u.mu.Lock()
		u.left[own.Partition()] -= n
		u.mu.Unlock()
		if err != nil {
			return nil
		}
	}
}

// serve lets one member serve u until half of all messages that count are
// handled, and tells how many of each queue were by then and how long it took.
// odd is called for the messages of queue q7, which do not count; nil: no queue
// is odd.
func serve(t *testing.T, u *uneven, odd func(ctx context.Context, n int)) (handled map[string]int, took time.Duration) {
	handled = map[string]int{}
	queues := len(u.names)
	if odd != nil {
		queues--
	}
	half := make(chan struct{})
	var mu sync.Mutex
	total, odds := 0, 0
	m, err := rota.New(rota.Config{
		Group: "test", Store: rotatest.NewMemStore(), Source: u, NewGroup: true,
		Abort: func(err error) { t.Errorf("abort: %v", err) },
		Handle: func(ctx context.Context, msg rota.Message) error {
			time.Sleep(max(time.Microsecond, u.work[msg.Partition])) // or else one queue might be half empty before the next is started
			mu.Lock()
			defer mu.Unlock()
			if odd != nil && msg.Partition == "q7" {
				odds++
				n := odds
				mu.Unlock()
				odd(ctx, n)
				mu.Lock()
				return nil
			}
			if total++; total > queues*unevenSize/2 {
				return nil
			}
			handled[msg.Partition]++
			if total == queues*unevenSize/2 {
				close(half)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if u.unpaced {
		m.Unpaced()
	}
	ctx, cancel := context.WithCancel(context.Background())
	began := time.Now()
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	<-half
	took = time.Since(began)
	st := m.Status()
	if got := counts(st); got != fmt.Sprintf("map[%s:%d]", m.Name(), len(u.names)) || st.Leader != st.Members[0].Session {
		t.Errorf("one member does not own everything: %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return handled, took
}

// spread is (max − min)/mean.
func spread(handled map[string]int) float64 {
	least, most, sum := unevenSize, 0, 0
	for _, n := range handled {
		least, most, sum = min(least, n), max(most, n), sum+n
	}
	if len(handled) < unevenQueues {
		least = 0
	}
	return float64(most-least) * unevenQueues / float64(sum)
}

func TestS0_01_BackloggedQueuesAreServedAtAnEqualRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled, took := serve(t, newUneven(), nil)
		t.Logf("spread %.2f %% after %v", 100*spread(handled), took)
		if s := spread(handled); s >= 0.05 {
			t.Errorf("(max − min)/mean = %.1f %% over %v", 100*s, handled)
		}
	})
}

// Where sources bring many messages at once, partitions may be further ahead of each other.
func TestS0_01_LargeDeliveriesAreServedAtAnEqualRate(t *testing.T) {
	for _, batch := range []int{64, 1000} {
		u := newUneven()
		u.batch = batch
		synctest.Test(t, func(t *testing.T) {
			handled, took := serve(t, u, nil)
			t.Logf("%d at once: spread %.2f %% after %v", batch, 100*spread(handled), took)
			if s := spread(handled); s >= 0.05 {
				t.Errorf("%d at once: (max − min)/mean = %.1f %% over %v", batch, 100*s, handled)
			}
		})
	}
}

// laborious is newUneven with handlers that take 10 to 25 ms.
func laborious(without ...string) *uneven {
	u := newUneven(without...)
	u.work = map[string]time.Duration{}
	for i, name := range rotatest.Names(unevenQueues) {
		u.work[name] = time.Duration(10+i) * time.Millisecond
	}
	return u
}

// Where all handlers take long, none counts as slow.
func TestS0_01_SlowHandlersAreServedAtAnEqualRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled, took := serve(t, laborious(), nil)
		t.Logf("spread %.2f %% after %v", 100*spread(handled), took)
		if s := spread(handled); s >= 0.05 {
			t.Errorf("(max − min)/mean = %.1f %% over %v", 100*s, handled)
		}
	})
}

// The same without the gate: the tests above would fail.
func TestS0_01_UnpacedTheRatesDiffer(t *testing.T) {
	for _, u := range []*uneven{newUneven(), laborious()} {
		u.unpaced = true
		synctest.Test(t, func(t *testing.T) {
			handled, _ := serve(t, u, nil)
			if s := spread(handled); s <= 0.05 {
				t.Errorf("(max − min)/mean = %.1f %% though nothing holds the fast ones back", 100*s)
			}
		})
	}
}

// A queue whose handler hangs, or is just slow, is not waited for: the other 15
// keep at least 0.95 of the rate they have without it.
func TestS0_01_HungHandlerIsNotWaitedFor(t *testing.T) {
	took := func(u *uneven, odd func(context.Context, int)) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) { _, took = serve(t, u, odd) })
		return took
	}
	for name, odd := range map[string]func(ctx context.Context, n int){
		"hangs while all are slow": func(ctx context.Context, n int) {
			if n == 100 {
				time.Sleep(150 * time.Second) // longer than all the others need
			}
		},
		"six times as slow": func(ctx context.Context, n int) { time.Sleep(100 * time.Millisecond) },
	} {
		alone, with := took(laborious("q7"), nil), took(laborious(), odd)
		t.Logf("%s: %v with it, %v without", name, with, alone)
		if rate := float64(alone) / float64(with); rate < 0.95 {
			t.Errorf("%s: the others keep %.2f of their rate", name, rate)
		}
	}
	alone := took(newUneven("q7"), nil)
	for name, odd := range map[string]func(ctx context.Context, n int){
		"hangs": func(ctx context.Context, n int) {
			if n == 100 {
				time.Sleep(10 * time.Second) // longer than all the others need, and than a lease
			}
		},
		"busy":      func(ctx context.Context, n int) { time.Sleep(6 * time.Millisecond) },
		"busier":    func(ctx context.Context, n int) { time.Sleep(40 * time.Millisecond) },
		"very busy": func(ctx context.Context, n int) { time.Sleep(100 * time.Millisecond) },
	} {
		with := took(newUneven(), odd)
		t.Logf("%s: %v with it, %v without", name, with, alone)
		if with > 9*time.Second {
			t.Fatalf("%s: the others needed %v: it did not hang all the while", name, with)
		}
		if rate := float64(alone) / float64(with); rate < 0.95 {
			t.Errorf("%s: the others keep %.2f of their rate", name, rate)
		}
	}
}

// A partition that was told to stop does not wait at the gate for a slow one: messages
// that were fetched are finished at once.
func TestStoppingWaitsForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 0)
		g.src = rotatest.NewMemSource(2000, "fast", "slow")
		g.src.Publish("fast", make([][]byte, 2000)...)
		g.src.Publish("slow", make([][]byte, 1000)...)
		var last time.Time
		fast := 0
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(_ context.Context, msg rota.Message) error {
				if msg.Partition == "slow" {
					time.Sleep(4 * time.Millisecond)
				} else {
					time.Sleep(time.Microsecond)
					last = time.Now()
					fast++
				}
				return nil
			}
		})
		pass(time.Second)
		if fast > 500 {
			t.Fatalf("%d of the fast queue handled: it does not wait for the slow one", fast)
		}
		asked := time.Now()
		if err := leave(); err != nil {
			t.Error(err)
		}
		if fast != 2000 || last.Sub(asked) > 100*time.Millisecond {
			t.Errorf("%d handled, the last one %v after the stop", fast, last.Sub(asked))
		}
	})
}
