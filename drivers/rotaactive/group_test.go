package rotaactive

import (
	"context"
	"slices"
	"strings"
	"testing"

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

// TestAcknowledgementsAskForOneReceipt checks that the broker need not sync its disk for each.
func TestAcknowledgementsAskForOneReceipt(t *testing.T) {
	c := &stompConn{out: make(chan *frame.Frame, 3), ended: make(chan struct{}), receipts: map[string]func(error){}}
	s := &stompFeed{c: c, gone: make(chan struct{})}
	for range cap(c.out) {
		if err := s.settle(t.Context(), []*delivery{{ack: "a"}, {ack: "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range cap(c.out) {
		f := <-c.out
		if _, asks := f.Header.Contains(frame.Receipt); asks != (i == 0) || f.Header.Get(frame.Id) != "b" {
			t.Errorf("acknowledgement %d: %v", i, f)
		}
	}
	c.receipt("1", rota.ErrNotFound)
	if err := s.settle(t.Context(), []*delivery{{ack: "c"}}); err != rota.ErrNotFound {
		t.Errorf("after a refusal: %v", err)
	}
}
