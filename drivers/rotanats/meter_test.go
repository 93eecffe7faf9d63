package rotanats_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// buckets makes buckets that rota must not use.
type buckets struct {
	t  *testing.T
	js jetstream.JetStream
}

func newBuckets(t *testing.T, url string) *buckets {
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &buckets{t, js}
}

// makeOdd makes each bucket, and returns the reason for which rota must refuse it.
func (b *buckets) makeOdd() map[string]string {
	odd := map[string]jetstream.KeyValueConfig{
		"expiring": {Bucket: "expiring", TTL: time.Hour},
		"foreign":  {Bucket: "foreign"},
	}
	for _, c := range odd {
		if _, err := b.js.CreateKeyValue(b.t.Context(), c); err != nil {
			b.t.Fatal(err)
		}
	}
	return map[string]string{"expiring": "expire after 1h", "foreign": "was not made by rota"}
}

// TestMeter reads the arrived and the waiting messages of a partition before, while and
// after it is consumed.
func TestMeter(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newBroker(t, s.URL())
	src := b.Source()
	if err := src.(rota.Binder).Bind("g"); err != nil {
		t.Fatal(err)
	}
	read := func() map[string]rota.Reading {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		list, err := src.(rota.Meter).Read(ctx, b.names)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]rota.Reading{}
		for _, r := range list {
			all[r.Partition] = r
		}
		if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, b.names) {
			t.Fatalf("readings of %q, want %q", got, b.names)
		}
		return all
	}
	p := b.names[0]
	b.Publish(p, []byte("1"), []byte("2"), []byte("3"))
	if r := read()[p]; r.Arrived != 3 || r.Backlog != 3 || r.Epoch == "" {
		t.Errorf("before: %+v", r)
	}
	if r := read()[b.names[1]]; r.Arrived != 0 || r.Backlog != 0 {
		t.Errorf("of nothing: %+v", r)
	}
	goOn := make(chan struct{})
	begun, handled := make(chan struct{}, 10), make(chan struct{}, 10)
	m, err := rota.New(rota.Config{Group: "g", Store: rotatest.NewMemStore(), Source: b.Source(), NewGroup: true,
		Handle: func(context.Context, rota.Message) error {
			begun <- struct{}{}
			<-goOn
			handled <- struct{}{}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	until := func(what string, cond func(rota.Reading) bool) (r rota.Reading) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if r = read()[p]; cond(r) {
				return r
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: still %+v", what, r)
			}
		}
	}
	<-begun // the others were delivered with it
	before := until("while it is consumed", func(r rota.Reading) bool { return r.Epoch[:2] == "g_" && r.Arrived == 3 && r.Backlog == 3 })
	close(goOn)
	for range 3 {
		<-handled
	}
	until("when all is done", func(r rota.Reading) bool { return r.Arrived == 3 && r.Backlog == 0 })
	b.Publish(p, []byte("4"))
	after := until("after one more", func(r rota.Reading) bool { return r.Arrived == 4 && r.Backlog == 0 })
	if before.Epoch != after.Epoch {
		t.Errorf("the counter began anew: %q, %q", before.Epoch, after.Epoch)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestPartitionsAppear checks that without partitions=N the partitions are the subjects
// with messages.
func TestPartitionsAppear(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newBroker(t, s.URL())
	src := b.discovering("")
	list := func() (names []string) {
		t.Helper()
		all, err := src.Partitions(t.Context())
		if err != nil && !errors.Is(err, rota.ErrPartial) { // an empty stream may get some
			t.Fatal(err)
		}
		for _, p := range all {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		return names
	}
	if got := list(); len(got) != 0 {
		t.Errorf("of an empty stream: %q", got)
	}
	b.Publish(b.names[1], []byte("x"))
	b.Publish(b.names[0], []byte("x"), []byte("y"))
	if got := list(); !slices.Equal(got, b.names[:2]) {
		t.Errorf("%q, want %q", got, b.names[:2])
	}
	none := rotanats.Source(s.URL() + "?stream=NONE&subject=none.*")
	if _, err := none.Partitions(t.Context()); err == nil {
		t.Error("a stream that does not exist has partitions")
	}
	made := rotanats.Source(s.URL() + "?stream=MADE&subject=made.*&partitions=2&create=true")
	if got, err := made.Partitions(t.Context()); err != nil || len(got) != 2 || got[1].Name != "made.1" {
		t.Errorf("a stream made by its source: %v, %v", got, err)
	}
	if _, err := b.js.Stream(t.Context(), "MADE"); err != nil {
		t.Error(err)
	}
}
