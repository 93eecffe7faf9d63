package rotanats

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestWhatIsReadBackIsAll reads messages back of which the last owner has settled two of five. Where
// the broker has counted more or fewer deliveries than the stream has messages, what is read cannot be
// what was given back: that is an error, after which the consumer is replaced and nothing is skipped.
func TestWhatIsReadBackIsAll(t *testing.T) {
	t.Parallel()
	url := rotatest.StartNATS(t).URL()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BACK", Subjects: []string{"back.*"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := js.Publish(t.Context(), "back.0", fmt.Append(nil, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "back.1", nil); err != nil {
		t.Fatal(err)
	}
	src := Source(url + "?stream=BACK&subject=back.*&partitions=1")
	own := owned(t, src)
	for _, c := range []struct {
		what string
		back pair
		read int  // messages, until
		ends bool // all are read; otherwise it is an error
	}{
		{"as many as the stream has", pair{Consumer: 5, Stream: 5}, 3, true},
		{"as many as the stream has up to there", pair{Consumer: 4, Stream: 4}, 2, true},
		{"and others of another partition", pair{Consumer: 5, Stream: 6}, 3, true},
		{"the stream has more", pair{Consumer: 4, Stream: 5}, 2, false},
		{"the stream has fewer", pair{Consumer: 6, Stream: 5}, 3, false},
		{"the stream has fewer up to there", pair{Consumer: 5, Stream: 4}, 2, false},
	} {
		p := &pump{s: src.(*source), own: own, claim: &claim{next: 3}, back: c.back, received: 2, reply: "$JS.ACK.BACK.c.1.2.2.0.0"}
		var err error
		read := 0
		for ; err == nil && p.owed() > 0; read += len(p.buf) {
			err = p.readBack(t.Context())
		}
		if read != c.read || c.ends != (err == nil) || err != nil && !errors.Is(err, errStray) {
			t.Errorf("%s: %d messages and %v, want %d and an error: %v", c.what, read, err, c.read, !c.ends)
		}
	}
}

// owned returns the ownership of a partition by a member that consumes nothing.
func owned(t *testing.T, src rota.Source) rota.Ownership {
	owns := make(chan rota.Ownership, 1)
	m, err := rota.New(rota.Config{Group: "g", NewGroup: true, Store: rotatest.NewMemStore(), Source: idler{src, owns}, Handle: func(context.Context, rota.Message) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return <-owns
}

type idler struct {
	rota.Source
	owns chan<- rota.Ownership
}

func (i idler) Consume(ctx context.Context, own rota.Ownership, _ rota.Deliver) error {
	own.Started()
	i.owns <- own
	select {
	case <-own.Stop():
	case <-ctx.Done():
	}
	return nil
}
