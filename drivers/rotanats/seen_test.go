package rotanats

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
)

// storeOfOne returns a store on a server of its own.
func storeOfOne(t *testing.T, query string) *store {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	s := newStore(newLink(ns.ClientURL()+query, nil), "rota")
	t.Cleanup(func() { s.Close() })
	return s
}

// TestClassFollowsTheReplicas lets a store believe that its bucket has three replicas, as
// before somebody changed it to one. It learns the number when it next looks at the bucket.
func TestClassFollowsTheReplicas(t *testing.T) {
	t.Parallel()
	s := storeOfOne(t, "?sync=always")
	if _, err := s.Identity(t.Context()); err != nil { // the first is that of the bucket just read
		t.Fatal(err)
	}
	for what, look := range map[string]func() error{
		"a watch":      func() error { _, err := s.made(t.Context()); return err },
		"the identity": func() error { _, err := s.Identity(t.Context()); return err },
	} {
		s.observe(&streamInfo{Config: jetstream.StreamConfig{Replicas: 3}})
		if got := s.Class(); got != rota.ClassA {
			t.Fatalf("class %v with three replicas", got)
		}
		if err := look(); err != nil {
			t.Fatal(err)
		}
		if got := s.Class(); got != rota.ClassB {
			t.Errorf("after %s: class %v with one replica", what, got)
		}
	}
}

// TestWatchForgetsWhatIsGone checks that a watch forgets a deleted key when its mark has
// expired: every session that ever was has had a key.
func TestWatchForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	s := storeOfOne(t, "")
	w := newWatch(s, "g/")
	_, unsubscribe, err := w.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unsubscribe()
	for i := range 50 {
		key := fmt.Sprint("g/", i)
		rev, err := s.Put(t.Context(), key, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue // this one stays
		}
		if err := s.Delete(t.Context(), key, rev); err != nil {
			t.Fatal(err)
		}
	}
	remembered := func() int {
		t.Helper()
		if err := w.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.seen)
	}
	if n := remembered(); n != 50 {
		t.Errorf("%d keys are remembered while there are marks of 49, want 50", n)
	}
	for i := 1; i < 50; i++ { // marks that last a second instead of an hour
		key := fmt.Sprint("g/", i)
		mark, err := s.get(t.Context(), key)
		if err == nil {
			_, err = s.write(t.Context(), key, nil, mark.Rev, nats.Header{headerOperation: {"DEL"}, headerTTL: {"1s"}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := remembered()
	for deadline := time.Now().Add(30 * time.Second); n != 1 && time.Now().Before(deadline); n = remembered() {
	}
	if n != 1 {
		t.Errorf("%d keys are remembered of which one exists", n)
	}
}

// TestALostVersionIsBelievedInTheEnd lets a store have seen more than the bucket has, as after
// a loss of data. It must show that, though it does not believe the first answer.
func TestALostVersionIsBelievedInTheEnd(t *testing.T) {
	t.Parallel()
	s := storeOfOne(t, "")
	rev, err := s.Put(t.Context(), "k", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]error{"k": nil, "gone": rota.ErrNotFound} {
		s.newest.set(key, rev+100)
		begun := time.Now()
		if _, err := s.Get(t.Context(), key); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", key, err, want)
		}
		if took := time.Since(begun); took < deposedTime {
			t.Errorf("%s: believed after %v", key, took)
		}
		if got := s.newest.get(key); got > rev {
			t.Errorf("%s: the newest revision is still %d", key, got)
		}
	}
	s.newest.set("k", rev+100)
	s.observe(&streamInfo{Config: jetstream.StreamConfig{Replicas: 3}})
	if _, err := s.Put(t.Context(), "k", []byte("x"), rev+100); err == nil || errors.Is(err, rota.ErrConflict) {
		t.Errorf("a write over a version that is gone: %v, want an unknown outcome", err)
	}
	s.forget()
	s.since = time.Time{} // as if the bucket was deleted and created again
	if _, err := s.open(t.Context()); err != nil || s.newest.get("k") != 0 {
		t.Errorf("revisions of another bucket are remembered: %v", err)
	}
}

func TestMismatchesAreRead(t *testing.T) {
	api := func(code int, text string) error {
		return &jetstream.APIError{ErrorCode: jetstream.ErrorCode(code), Description: text}
	}
	for _, c := range []struct {
		err  error
		want *mismatch
	}{
		{api(codeWrongSequence, "wrong last sequence: 17"), &mismatch{at: 17}},
		{api(codeWrongSequence, "wrong last sequence: 0"), &mismatch{}},
		{api(codeWrongSequence, "something else"), &mismatch{}},
		{api(codeWrongSequence, "wrong last sequence: 99999999999999999999999"), &mismatch{}},
		{api(codeWrongInFlight, "wrong last sequence"), &mismatch{inFlight: true}},
		{api(codeSameInFlight, "duplicate message id is in process"), &mismatch{inFlight: true}},
		{api(codeNoStream, "wrong last sequence: 17"), nil},
		{errors.New("wrong last sequence: 17"), nil},
		{nil, nil},
	} {
		if got := readMismatch(c.err); (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%v: read %+v, want %+v", c.err, got, c.want)
		}
	}
}

// TestAServerThatStandsAloneIsAskedOnce checks that a server that is late is not asked again
// within the time of a member's call: hundreds of members would keep it late.
func TestAServerThatStandsAloneIsAskedOnce(t *testing.T) {
	t.Parallel()
	s := storeOfOne(t, "")
	nc, _, err := s.conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range []string{"", "of.others"} { // the second is passed on: another server may answer
		s.set.API = api
		asked, err := nc.SubscribeSync(s.api("x")) // where nobody answers
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
		err = s.ask(ctx, "x", nil, &struct{ answer }{})
		cancel()
		if got, _, _ := asked.Pending(); err == nil || got == 0 || (got == 1) != (api == "") {
			t.Errorf("API %q: %d requests in 1.9 s (%v), want one, and more where they are passed on", api, got, err)
		}
	}
}
