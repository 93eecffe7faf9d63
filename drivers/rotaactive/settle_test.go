package rotaactive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestSettledTogether checks that quick messages which arrive one by one are settled together,
// and soon; slow ones, and what was handled before an end, at once.
func TestSettledTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages int
		each     time.Duration // what a message takes
		fails    error         // of the last one
		stop     bool          // after the last one
		apart    bool          // each message is settled by itself
		at       int           // from this message on they arrive together; 0 for never
		want     []int         // messages per settlement
		after    time.Duration // the last of them, behind the last message
	}{
		{name: "quick", messages: 150, each: 10 * time.Microsecond, want: []int{50, 50, 50}},
		{name: "quick, and then none", messages: 60, each: 10 * time.Microsecond, want: []int{50, 10}, after: delayTime},
		{name: "not quite as quick", messages: 320, each: 190 * time.Microsecond, want: []int{50, 50, 50, 50, 50, 50, 20}, after: delayTime},
		{name: "one by one, then many together", messages: 130, each: 10 * time.Microsecond, at: 30, want: []int{64, 64, 2}, after: delayTime},
		{name: "slow", messages: 3, each: time.Millisecond, want: []int{1, 1, 1}},
		{name: "quick, and settled each by itself", messages: 3, each: 10 * time.Microsecond, apart: true, want: []int{1, 1, 1}},
		{name: "a stop", messages: 10, each: 10 * time.Microsecond, stop: true, want: []int{10}},
		{name: "a dead letter that cannot be stored", messages: 10, each: 10 * time.Microsecond, fails: rota.ErrBad, want: []int{9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &script{in: make(chan *delivery, c.messages), apart: c.apart}
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				var last time.Time
				m, err := rota.New(rota.Config{Group: "g", NewGroup: true, Store: rotatest.NewMemStore(), Source: f,
					Handle: func(context.Context, rota.Message) error {
						time.Sleep(c.each)
						if n++; n < c.messages {
							return nil
						}
						last = time.Now()
						if c.stop {
							cancel()
						}
						return c.fails
					}})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- m.Run(ctx) }()
				for i := range c.messages {
					f.in <- &delivery{Message: rota.Message{Value: []byte(fmt.Sprint(i))}}
					if c.at == 0 || i < c.at {
						for len(f.in) > 0 {
							time.Sleep(time.Microsecond)
						}
						time.Sleep(c.each)
					}
				}
				time.Sleep(time.Second)
				f.mu.Lock()
				if !slices.Equal(f.settled, c.want) || c.fails == nil && f.at.Sub(last) != c.after {
					t.Errorf("settled %v, the last %v behind the last message, want %v and %v", f.settled, f.at.Sub(last), c.want, c.after)
				}
				f.mu.Unlock()
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLittlePrefetch checks that with any prefetch the broker may send while settlements are
// delayed.
func TestLittlePrefetch(t *testing.T) {
	for prefetch := 1; prefetch <= 300; prefetch++ {
		if waiting := max(mostDelayed(prefetch), 1) - 1; waiting >= prefetch {
			t.Errorf("with a prefetch of %d the settlement of %d messages is delayed", prefetch, waiting)
		}
	}
}

// A script is a source of one queue that has the messages of a test.
type script struct {
	in    chan *delivery
	apart bool

	mu      sync.Mutex
	settled []int     // messages per settlement
	at      time.Time // of the last one
}

func (f *script) Partitions(context.Context) ([]rota.Partition, error) {
	return []rota.Partition{{Name: "q"}}, nil
}

func (f *script) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	own.Started()
	s := Source("stomp://127.0.0.1?queues=q").(*source)
	s.link.dial = func(context.Context, *settings, string) (client, error) { return nil, errors.New("there is no broker") }
	s.side.dial = s.link.dial
	defer s.Close()
	return (&pump{s: s, own: own, feed: f, batch: 1}).run(ctx, deliver)
}

func (f *script) arrived() <-chan *delivery { return f.in }
func (f *script) failed() <-chan struct{}   { return nil }
func (f *script) err() error                { return nil }
func (f *script) end(context.Context) error { return nil }
func (f *script) abandon()                  {}
func (f *script) together() bool            { return !f.apart }

func (f *script) settle(_ context.Context, all []*delivery) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled, f.at = append(f.settled, len(all)), time.Now()
	return nil
}
