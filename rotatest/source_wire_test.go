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

// TestLostAnswersBite shows the suite a broker where an owner takes a seat first.
// A source that takes it by a new name each time stands in its own way when it has
// not heard that it sits there already, or leaves a seat behind.
func TestLostAnswersBite(t *testing.T) {
	for _, c := range []struct {
		name   string
		many   bool // a partition has any number of seats
		newIDs bool
		says   string
	}{
		{"a sound source", false, false, ""},
		{"a sound source, many seats", true, false, ""},
		{"it is in its own way", false, true, "all messages are handled, answer 1 being lost"},
		{"it leaves seats behind", true, true, "q0 has 2 seats"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said := probed(t, func(tb testing.TB) {
				lostAnswers(tb, func() *sourceTest {
					st := newSourceTest(tb, newSeats(tb, c.many, c.newIDs))
					st.bound = 3 * time.Second
					return st
				})
			})
			if c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("it did not say %q, but: %s", c.says, said)
			}
		})
	}
}

// seats is a MemSource whose partitions have seats, to be taken by TCP.
type seats struct {
	memBroker
	l            net.Listener
	many, newIDs bool
	mu           sync.Mutex
	taken        map[string][]string // partition → who sits there
}

func newSeats(t testing.TB, many, newIDs bool) *seats {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b := &seats{memBroker: memBroker{NewMemSource(8, "q0")}, l: l, many: many, newIDs: newIDs, taken: map[string][]string{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.serve(c)
		}
	}()
	return b
}

// serve answers "take PARTITION NAME".
func (b *seats) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		var partition, name string
		fmt.Sscanf(in.Text(), "take %s %s", &partition, &name)
		fmt.Fprintln(c, b.take(partition, name))
	}
}

func (b *seats) take(partition, name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.taken[partition]
	switch {
	case slices.Contains(in, name):
	case len(in) > 0 && !b.many:
		return "taken"
	default:
		b.taken[partition] = append(in, name)
	}
	return "yours"
}

func (b *seats) Addr() string { return b.l.Addr().String() }

func (b *seats) Tidy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, in := range b.taken {
		if len(in) != 1 {
			return fmt.Errorf("%s has %d seats", p, len(in))
		}
	}
	return nil
}

func (b *seats) SourceAt(addr string) rota.Source { return &seated{b.MemSource, b, addr} }

// seated takes a seat before it consumes.
type seated struct {
	*MemSource
	b    *seats
	addr string
}

func (s *seated) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	name := own.String()
	if s.b.newIDs {
		name = rand.Text()
	}
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(c, "take %s %s\n", own.Partition(), name)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if line != "yours\n" {
		return errors.New("somebody sits there")
	}
	return s.MemSource.Consume(ctx, own, deliver)
}
