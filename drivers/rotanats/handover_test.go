package rotanats_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestHandOverAsksLittle counts the requests of a hand-over: one in good order only reads
// and writes the note in memory. Only an owner that creates a consumer writes the note on
// disk before.
func TestHandOverAsksLittle(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	b.names = b.names[:1]
	l := newLedger(t)
	mem := rotatest.NewMemStore()
	seen := make(chan *nats.Msg, 10_000)
	for _, subject := range []string{"$JS.API.CONSUMER.>", "$JS.API.STREAM.INFO." + b.stream, "$JS.API.STREAM.MSG.GET.>", "$KV.>"} {
		if _, err := b.js.Conn().ChanSubscribe(subject, seen); err != nil {
			t.Fatal(err)
		}
	}
	asked := func() map[string]int { // since the last time
		t.Helper()
		if err := b.js.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for len(seen) > 0 {
			kind, _, _ := strings.Cut((<-seen).Subject, "."+b.stream)
			kind, _, _ = strings.Cut(kind, ".post")
			if kind != "$JS.API.CONSUMER.MSG.NEXT" {
				n[kind]++
			}
		}
		return n
	}
	sent := 0
	// requestsUntilTakeover returns the requests until the next owner has handled a message.
	requestsUntilTakeover := func(name string) (store *rotatest.FaultyStore, ended chan error, leave context.CancelFunc, n map[string]int) {
		t.Helper()
		asked()
		store = rotatest.Faulty(mem.Open(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended = l.memberUntil(ctx, name, store, b.Source(), func(c *rota.Config) { c.Orphan = rota.AtOnce })
		b.flow(sent+1, sent+1)
		sent++
		l.wait("the next message", 20*time.Second, l.reached(b, sent))
		return store, ended, cancel, asked()
	}
	want := func(what string, got, most map[string]int) {
		t.Helper()
		for _, k := range slices.Sorted(maps.Keys(got)) {
			if got[k] > most[k] {
				t.Errorf("%s: %d of %s, want %d at most", what, got[k], k, most[k])
			}
		}
		t.Logf("%s: %v", what, got)
	}
	_, ended, leave, _ := requestsUntilTakeover("a")
	leave()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	const disk, memory, get = "$KV.rota-sources", "$KV.rota-sources-now", "$JS.API.STREAM.MSG.GET.KV_rota-sources"
	store, ended, _, n := requestsUntilTakeover("b")
	want("after one that left", n, map[string]int{memory: 1, get + "-now": 1, "$JS.API.STREAM.INFO": 1})
	store.Fail()
	if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
		t.Fatal(err)
	}
	_, _, _, n = requestsUntilTakeover("c")
	want("after one that was cut off", n, map[string]int{memory: 1, get + "-now": 1, disk: 2, get: 1, "$JS.API.STREAM.INFO": 3,
		"$JS.API.CONSUMER.INFO": 1, "$JS.API.CONSUMER.CREATE": 1, "$JS.API.CONSUMER.DELETE": 2})
}
