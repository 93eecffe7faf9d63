package rotatest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// TestLostAnswersBite gives the suite a broker where an owner must reserve a
// partition first. A source that reserves it under a new name each time is refused
// because of its own reservation if the answer to that was lost, or leaves a
// reservation behind.
func TestLostAnswersBite(t *testing.T) {
	for _, c := range []struct {
		name   string
		many   bool // a partition may have several reservations
		newIDs bool
		says   string
	}{
		{"a sound source", false, false, ""},
		{"a sound source, many reservations", true, false, ""},
		{"it is refused because of itself", false, true, "all messages are handled, answer 1 being lost"},
		{"it leaves reservations behind", true, true, "q0 has 2 reservations"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said := probed(t, func(tb testing.TB) {
				open := func() *sourceTest {
					st := newSourceTest(tb, newReservations(tb, c.many, c.newIDs))
					st.bound = 3 * time.Second
					return st
				}
				for n := 1; n <= mostAnswers && lostAnswer(open(), n); n++ {
				}
			})
			if c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("it did not say %q, but: %s", c.says, said)
			}
		})
	}
}

// reservations is a MemSource whose partitions must be reserved by TCP.
type reservations struct {
	memBroker
	l            net.Listener
	many, newIDs bool
	mu           sync.Mutex
	names        map[string][]string // partition → names that have reserved it
}

func listen(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// accept serves every connection until the listener is closed.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

func newReservations(t testing.TB, many, newIDs bool) *reservations {
	l := listen(t)
	b := &reservations{memBroker: memBroker{NewMemSource(8, "q0")}, l: l, many: many, newIDs: newIDs, names: map[string][]string{}}
	go accept(l, b.serve)
	return b
}

// serve answers "reserve PARTITION NAME".
func (b *reservations) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		var partition, name string
		fmt.Sscanf(in.Text(), "reserve %s %s", &partition, &name)
		fmt.Fprintln(c, b.reserve(partition, name))
	}
}

func (b *reservations) reserve(partition, name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.names[partition]
	switch {
	case slices.Contains(in, name):
	case len(in) > 0 && !b.many:
		return "taken"
	default:
		b.names[partition] = append(in, name)
	}
	return "yours"
}

func (b *reservations) Addr() string { return b.l.Addr().String() }

func (b *reservations) Tidy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, in := range b.names {
		if len(in) != 1 {
			return fmt.Errorf("%s has %d reservations", p, len(in))
		}
	}
	return nil
}

func (b *reservations) SourceAt(addr string) rota.Source { return &reserving{b.MemSource, b, addr} }

// reserving is a source that reserves a partition before it consumes it.
type reserving struct {
	*MemSource
	b    *reservations
	addr string
}

func (s *reserving) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	name := own.String()
	if s.b.newIDs {
		name = rand.Text()
	}
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(c, "reserve %s %s\n", own.Partition(), name)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if line != "yours\n" {
		return errors.New("it is reserved")
	}
	return s.MemSource.Consume(ctx, own, deliver)
}

// TestSlowStopBites gives the suite a broker that is told of settlements by TCP. A source
// that does not wait for the answers has stopped before its last settlement arrives.
func TestSlowStopBites(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits bool
		says  string
	}{
		{"a sound source", true, ""},
		{"it does not wait for the broker", false, "are done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said := probed(t, func(tb testing.TB) { slowStop(newSourceTest(tb, newPosted(tb, c.waits))) })
			if c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("it did not say %q, but: %s", c.says, said)
			}
		})
	}
}

// posted is a MemSource whose messages are settled by TCP.
type posted struct {
	memBroker
	l     net.Listener
	waits bool
}

func newPosted(t testing.TB, waits bool) *posted {
	l := listen(t)
	b := &posted{memBroker{NewMemSource(8, "q0", "q1")}, l, waits}
	go accept(l, b.serve)
	return b
}

// serve answers "settle PARTITION UPTO".
func (b *posted) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		var partition string
		var upTo uint64
		fmt.Sscanf(in.Text(), "settle %s %d", &partition, &upTo)
		b.mu.Lock()
		q := b.queues[partition]
		q.msgs = slices.DeleteFunc(slices.Clone(q.msgs), func(m rota.Message) bool { return m.Position <= upTo })
		b.mu.Unlock()
		fmt.Fprintln(c, "settled")
	}
}

func (b *posted) Addr() string { return b.l.Addr().String() }

func (b *posted) Tidy() error { return nil }

func (b *posted) SourceAt(addr string) rota.Source { return &posting{b.MemSource, addr, b.waits} }

func (b *posted) Source() rota.Source { return b.SourceAt(b.Addr()) }

// posting is a source that settles by TCP.
type posting struct {
	*MemSource
	addr  string
	waits bool
}

func (s *posting) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	q, next, answers := s.queues[own.Partition()], uint64(0), bufio.NewReader(c)
	own.Started()
	for {
		msgs, arrived := s.fetch(q)
		msgs = slices.DeleteFunc(msgs, func(m rota.Message) bool { return m.Position <= next })
		if len(msgs) == 0 {
			select {
			case <-own.Stop():
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-arrived:
			case <-time.After(time.Millisecond): // more may be left once these are settled
			}
			continue
		}
		n, err := deliver(ctx, msgs[0])
		if n == 1 {
			next = msgs[0].Position
			settled := own.Settle(func() error {
				fmt.Fprintf(c, "settle %s %d\n", own.Partition(), next)
				if !s.waits {
					return nil
				}
				_, err := answers.ReadString('\n')
				return err
			})
			if settled != nil {
				return settled
			}
		}
		if errors.Is(err, rota.ErrStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
