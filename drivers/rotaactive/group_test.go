package rotaactive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stomp/stomp/v3/frame"

	"github.com/rota-dev/rota"
)

// TestKnownQueueIsNotClaimedAnew checks that a member leaves a note only where its group has
// none: to leave one takes long, and a partition that moves is idle meanwhile. A group that is
// new everywhere is not looked for at every queue.
func TestKnownQueueIsNotClaimedAnew(t *testing.T) {
	for _, c := range []struct {
		name          string
		notes         []string // of the first queue
		left, asked   int      // notes that were left, and looks, for the first queue
		asked2, left2 int      // and for both; the second queue has none
		err           string
	}{
		{"nobody's", nil, 1, 1, 1, 2, ""},
		{"ours", []string{"mine"}, 0, 1, 2, 1, ""},
		{"ours, and somebody comes", []string{"mine", "theirs"}, 0, 1, 2, 1, ""},
		{"theirs", []string{"theirs", "mine"}, 1, 1, 1, 2, "group theirs reads queue q0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &notebook{queues: map[string][]*delivery{}}
			for _, group := range c.notes {
				n.queues[notePrefix+"q0"] = append(n.queues[notePrefix+"q0"], &delivery{Message: rota.Message{Value: []byte(group), Headers: []rota.Header{newName()}}})
			}
			s := Source("stomp://127.0.0.1?queues=q0,q1").(*source)
			s.side.dial = func(context.Context, *settings, string) (client, error) { return n, nil }
			if err := s.Bind("mine"); err != nil {
				t.Fatal(err)
			}
			err := s.claim(t.Context(), "q0")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if n.left != c.left || n.asked != c.asked {
				t.Errorf("%d notes were left and %d looked for, want %d and %d", n.left, n.asked, c.left, c.asked)
			}
			if err := s.claim(t.Context(), "q1"); err != nil {
				t.Error(err)
			}
			if n.left != c.left2 || n.asked != c.asked2 {
				t.Errorf("at last %d notes were left and %d looked for, want %d and %d", n.left, n.asked, c.left2, c.asked2)
			}
		})
	}
}

// A notebook is a client of a broker that has nothing but notes.
type notebook struct {
	client
	queues      map[string][]*delivery
	left, asked int
}

func (n *notebook) oldest(_ context.Context, queue string) (*delivery, error) {
	n.asked++
	if len(n.queues[queue]) == 0 {
		return nil, nil
	}
	return n.queues[queue][0], nil
}

func (n *notebook) precede(_ context.Context, msg outgoing) ([]*delivery, error) {
	n.left++
	before := slices.Clone(n.queues[msg.queue])
	n.queues[msg.queue] = append(n.queues[msg.queue], &delivery{Message: msg.Message})
	return before, nil
}

func (n *notebook) remove(_ context.Context, queue, selector string) error {
	n.queues[queue] = slices.DeleteFunc(n.queues[queue], func(d *delivery) bool { return d.selector() == selector })
	return nil
}

func (n *notebook) done() <-chan struct{} { return nil }

// TestReceipts checks that few acknowledgements ask for a receipt, for which the broker syncs its
// disk, and that no more messages are settled without one than are fetched ahead.
func TestReceipts(t *testing.T) {
	for _, c := range []struct{ prefetch, batch, asks, waitsAt int }{
		{100, 1, 4, 100}, // after 1, 33, 65 and 97
		{100, 64, 2, 128},
		{2, 1, 2, 2},
		{1, 1, 1, 1},
	} {
		t.Run(fmt.Sprint(c.prefetch, " by ", c.batch), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &stompConn{out: make(chan *frame.Frame, 1000), ended: make(chan struct{}), receipts: map[string]func(error){}}
				s := &stompFeed{c: conn, prefetch: int64(c.prefetch), gone: make(chan struct{}), more: make(chan struct{}, 1)}
				all := make([]*delivery, c.batch)
				for i := range all {
					all[i] = &delivery{ack: fmt.Sprint(i)}
				}
				settled, done := 0, make(chan error, 1)
				for waits := false; !waits; {
					go func() { done <- s.settle(t.Context(), all) }()
					synctest.Wait()
					settled += c.batch
					select {
					case err := <-done:
						if err != nil {
							t.Fatal(err)
						}
					default:
						waits = true
					}
				}
				if settled != c.waitsAt {
					t.Errorf("it waits after %d messages, want %d", settled, c.waitsAt)
				}
				asks := 0
				for range len(conn.out) {
					f := <-conn.out
					if _, ask := f.Header.Contains(frame.Receipt); ask {
						asks++
					}
					if got, want := f.Header.Get(frame.Id), fmt.Sprint(c.batch-1); got != want {
						t.Errorf("%s was acknowledged, want %s", got, want)
					}
				}
				if asks != c.asks {
					t.Errorf("%d receipts were asked for, want %d", asks, c.asks)
				}
				conn.receipt(fmt.Sprint(asks), nil)
				if err := <-done; err != nil {
					t.Errorf("after a receipt: %v", err)
				}
			})
		})
	}
}

// TestReceiptsThatDoNotCome checks that a broker which confirms nothing any more is told of.
func TestReceiptsThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &stompConn{out: make(chan *frame.Frame, 1), ended: make(chan struct{}), receipts: map[string]func(error){}}
		s := &stompFeed{c: c, prefetch: 1, gone: make(chan struct{}), more: make(chan struct{}, 1)}
		began := time.Now()
		if err := s.settle(t.Context(), []*delivery{{ack: "a"}}); err == nil || !strings.Contains(err.Error(), "has not confirmed acknowledgements of 1 messages") || time.Since(began) != callTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestRefusedReceipt checks that an acknowledgement which is refused ends the feed.
func TestRefusedReceipt(t *testing.T) {
	c := &stompConn{out: make(chan *frame.Frame, 1), ended: make(chan struct{}), receipts: map[string]func(error){}}
	s := &stompFeed{c: c, prefetch: 100, gone: make(chan struct{}), more: make(chan struct{}, 1)}
	if err := s.settle(t.Context(), []*delivery{{ack: "a"}}); err != nil {
		t.Fatal(err)
	}
	c.receipt("1", rota.ErrNotFound)
	if err := s.settle(t.Context(), []*delivery{{ack: "b"}}); !errors.Is(err, rota.ErrNotFound) {
		t.Errorf("after a refusal: %v", err)
	}
}
