package rotanats_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// requests sees what clients ask of JetStream about a stream.
type requests struct {
	*testing.T
	nc     *nats.Conn
	stream string
	seen   chan *nats.Msg
}

func countRequests(t *testing.T, url, stream string) *requests {
	nc, err := rotanats.Connect(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r := &requests{t, nc, stream, make(chan *nats.Msg, 10_000)}
	if _, err = nc.ChanSubscribe("$JS.API.>", r.seen); err != nil {
		t.Fatal(err)
	}
	r.next()
	return r
}

// next returns how many requests there were since the last call, by verb, but for pulls.
func (r *requests) next() map[string]int {
	r.Helper()
	if err := r.nc.Flush(); err != nil {
		r.Fatal(err)
	}
	n := map[string]int{}
	for len(r.seen) > 0 {
		verb, _, of := strings.Cut((<-r.seen).Subject, "."+r.stream)
		if verb = strings.TrimPrefix(verb, "$JS.API."); of && verb != "CONSUMER.MSG.NEXT" {
			n[verb]++
		}
	}
	return n
}

// TestReadAsksForFewPartitionsAlone counts what a reading asks of the server: a member with
// few partitions asks for their consumers alone, however many the stream has. A list would
// show all of them, and every member reads.
func TestReadAsksForFewPartitionsAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		partitions, asked int
		want              map[string]int
	}{
		{40, 1, map[string]int{"CONSUMER.INFO": 1}},
		{40, 16, map[string]int{"CONSUMER.INFO": 16}},
		{40, 17, map[string]int{"CONSUMER.LIST": 1, "STREAM.INFO": 1}},
		{320, 20, map[string]int{"CONSUMER.INFO": 20}},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.asked, c.partitions), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, serve(t).URL())
			b.names = b.names[:0]
			for i := range c.partitions {
				b.names = append(b.names, fmt.Sprintf("%s.in.%d", b.stream, i))
			}
			src := b.Source()
			leave := consumeAll(t, src, len(b.names))
			r := countRequests(t, b.url, b.stream)
			read := func(m rota.Source, names ...string) map[string]int {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r.next()
				if got, err := m.(rota.Meter).Read(ctx, names); err != nil || len(got) != len(names) {
					t.Errorf("%d readings of %d: %v", len(got), len(names), err)
				}
				return r.next()
			}
			if got := read(src, b.names[:c.asked]...); !maps.Equal(got, c.want) {
				t.Errorf("a reading of %d causes %v, want %v", c.asked, got, c.want)
			}
			other := b.Source() // which consumes none of them
			if err := other.(rota.Binder).Bind("g"); err != nil {
				t.Fatal(err)
			}
			read(other, b.names[0]) // it connects
			if got := read(other, b.names[0]); got["CONSUMER.INFO"] != 0 || got["CONSUMER.LIST"] == 0 {
				t.Errorf("a reading by a source that consumes nothing causes %v", got)
			}
			leave()
			if got := read(src, b.names[0]); got["CONSUMER.INFO"] != 0 || got["CONSUMER.LIST"] == 0 {
				t.Errorf("after it has left, a reading causes %v", got)
			}
		})
	}
}

// consumeAll starts a member and waits until it consumes n partitions.
func consumeAll(t *testing.T, src rota.Source, n int) (leave func()) {
	started := make(chan struct{}, n)
	m, err := rota.New(rota.Config{Group: "g", Store: rotatest.NewMemStore(), Source: src, NewGroup: true,
		Handle: func(context.Context, rota.Message) error { return nil },
		Trace: func(e rota.Event) {
			if e.Kind == rota.EventStart {
				started <- struct{}{}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	for range n {
		select {
		case <-started:
		case err := <-ended:
			t.Fatalf("the member ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("not all partitions are consumed after a minute")
		}
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
