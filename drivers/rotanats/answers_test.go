package rotanats

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Each answer goes to its request, one that comes late to none, and one by another subject to
// the only request there is.
func TestAnswersGoToTheirRequests(t *testing.T) {
	t.Parallel()
	s := storeOfOne(t, "")
	nc, _, err := s.conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var a answers
	expect := func() (string, chan *nats.Msg) {
		reply, answer, err := a.expect(nc)
		if err != nil {
			t.Fatal(err)
		}
		return reply, answer
	}
	first, one := expect()
	second, two := expect()
	mapped := &nats.Msg{Subject: "mapped"}
	a.deliver(mapped)
	if len(one)+len(two) != 0 {
		t.Fatal("an answer by another subject was delivered, and two requests waited")
	}
	a.deliver(&nats.Msg{Subject: second})
	if len(one) != 0 || len(two) != 1 {
		t.Fatalf("%d and %d answers, want none and that of the second", len(one), len(two))
	}
	a.deliver(mapped)
	if len(one) != 1 || <-one != mapped {
		t.Error("an answer by another subject did not go to the only request that waited")
	}
	a.deliver(&nats.Msg{Subject: first}) // late
	if len(one) != 0 || len(a.waiting) != 0 {
		t.Errorf("%d late answers were delivered, and %d requests still wait", len(one), len(a.waiting))
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := nc.SubscribeSync("silent"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ask(ctx, nc, nats.NewMsg("silent")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
	if _, err := a.ask(t.Context(), nc, nats.NewMsg("nobody")); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("nobody listens: %v", err)
	}
	if len(a.waiting) != 0 {
		t.Errorf("%d requests still wait", len(a.waiting))
	}
}

// What gets no answer is asked again later and later, but within two seconds in a cluster: what was
// sent just before a leader was elected is lost.
func TestAskedAgain(t *testing.T) {
	var waits []time.Duration
	for wait := replyTimeout; len(waits) < 5; wait = longer(wait, replyTimeout) {
		waits = append(waits, wait)
	}
	for i, want := range []time.Duration{400, 800, 1600, 1600, 1600} {
		if want *= time.Millisecond; waits[i] != want {
			t.Errorf("attempt %d has %v, want %v", i+1, waits[i], want)
		}
	}
}
