package rotanats_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

// A formerLeader answers requests beside the bucket's leader and mostly before it, as a
// server does that was frozen while it led: it has an old copy, accepts nothing and
// refuses what does not fit to that copy.
type formerLeader struct {
	*nats.Conn
	t    *testing.T
	last atomic.Uint64 // the revision in its copy
}

func newFormerLeader(t *testing.T, url string) *formerLeader {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &formerLeader{Conn: nc, t: t}
}

// answer answers the requests of a subject until it is told to end.
func (f *formerLeader) answer(subject string, with func() any) (end func()) {
	f.t.Helper()
	sub, err := f.Subscribe(subject, func(m *nats.Msg) {
		text, err := json.Marshal(with())
		if err == nil {
			err = m.Respond(text)
		}
		if err != nil {
			f.t.Error(err)
		}
	})
	if err == nil {
		err = f.Flush()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return func() { sub.Unsubscribe() }
}

// refuse refuses the writes of a key.
func (f *formerLeader) refuse(key string) (end func()) {
	f.t.Helper()
	return f.answer("$KV.rota."+key, func() any {
		text := fmt.Sprint("wrong last sequence: ", f.last.Load())
		return map[string]any{"error": map[string]any{"code": 400, "err_code": 10071, "description": text}, "stream": "KV_rota", "seq": 0}
	})
}

// TestFormerLeader: a write that a former leader refuses and the leader accepts has happened,
// and one that was replaced since is not called refused. What a former leader knows is not
// read by a store that has seen more.
func TestFormerLeader(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	open := func() rota.Store {
		s := rotanats.Store(c.URL() + "?sync=always")
		t.Cleanup(func() { s.Close() })
		return s
	}
	f, a, b := newFormerLeader(t, c.URL()), open(), open()
	const rounds = 30
	begin := func(t *testing.T, key string) rota.Rev {
		t.Helper()
		one, err := a.Put(t.Context(), key, []byte("one"), 0)
		if err != nil {
			t.Fatal(err)
		}
		two, err := a.Put(t.Context(), key, []byte("two"), one)
		if err != nil {
			t.Fatal(err)
		}
		f.last.Store(uint64(one))
		return two
	}
	t.Run("accepted", func(t *testing.T) {
		rev := begin(t, "accepted")
		defer f.refuse("accepted")()
		for i := range rounds {
			next, err := a.Put(t.Context(), "accepted", fmt.Appendf(nil, "%d", i), rev)
			if err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
			if e, err := b.Get(t.Context(), "accepted"); err != nil || e.Rev != next || string(e.Value) != fmt.Sprint(i) {
				t.Fatalf("write %d made revision %d, and there is %v, %v", i, next, e, err)
			}
			rev = next
		}
		if err := a.Delete(t.Context(), "accepted", rev); err != nil {
			t.Errorf("delete: %v", err)
		}
		if _, err := b.Get(t.Context(), "accepted"); !errors.Is(err, rota.ErrNotFound) {
			t.Errorf("after the deletion: %v", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		rev := begin(t, "refused")
		if _, err := b.Put(t.Context(), "refused", []byte("another"), rev); err != nil {
			t.Fatal(err)
		}
		defer f.refuse("refused")()
		if _, err := a.Put(t.Context(), "refused", []byte("x"), rev); !errors.Is(err, rota.ErrConflict) {
			t.Errorf("over a revision that another write has replaced: %v", err)
		}
		if _, err := a.Put(t.Context(), "refused", []byte("x"), rev+1000); !errors.Is(err, rota.ErrConflict) {
			t.Errorf("over a revision that never was: %v", err)
		}
	})
	t.Run("replaced", func(t *testing.T) { replacedAtOnce(t, f, a, b, begin(t, "replaced"), rounds) })
	t.Run("read", func(t *testing.T) { readOfAFormerLeader(t, f, a, begin(t, "read"), rounds) })
}

// replacedAtOnce lets b replace each write of a as soon as it has happened.
func replacedAtOnce(t *testing.T, f *formerLeader, a, b rota.Store, rev rota.Rev, rounds int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := make(chan rota.Entry, 16)
	go func() {
		for batch, err := range b.Watch(ctx, "replaced") {
			if err != nil {
				return
			}
			for _, e := range batch {
				changes <- e
			}
		}
	}()
	<-changes
	defer f.refuse("replaced")()
	unknown := 0
	for i := range rounds {
		outcome := make(chan error, 1)
		go func() { _, err := a.Put(t.Context(), "replaced", fmt.Appendf(nil, "a%d", i), rev); outcome <- err }()
		var e rota.Entry
		select {
		case e = <-changes:
		case <-time.After(30 * time.Second):
			t.Fatalf("write %d did not happen: %v", i, <-outcome)
		}
		next, err := b.Put(t.Context(), "replaced", fmt.Appendf(nil, "b%d", i), e.Rev)
		if err != nil {
			t.Fatalf("b over write %d: %v", i, err)
		}
		if err := <-outcome; errors.Is(err, rota.ErrConflict) {
			t.Fatalf("write %d happened, and was called refused: %v", i, err)
		} else if err != nil {
			unknown++
		}
		for e.Rev != next {
			e = <-changes
		}
		rev = next
	}
	t.Logf("the outcome of %d of %d writes is unknown", unknown, rounds)
}

// readOfAFormerLeader lets the former leader answer the first reads of each round.
func readOfAFormerLeader(t *testing.T, f *formerLeader, a rota.Store, rev rota.Rev, rounds int) {
	old := map[string]any{"type": "io.nats.jetstream.api.v1.stream_msg_get_response", "message": map[string]any{
		"subject": "$KV.rota.read", "seq": f.last.Load(), "data": base64.StdEncoding.EncodeToString([]byte("one")), "time": time.Now()}}
	for i := range rounds {
		end := f.answer("$JS.API.STREAM.MSG.GET.KV_rota", func() any { return old })
		thaw := time.AfterFunc(20*time.Millisecond, end)
		e, err := a.Get(t.Context(), "read")
		thaw.Stop()
		end()
		if err != nil || e.Rev != rev || string(e.Value) != "two" {
			t.Fatalf("read %d: %q at %d, %v; want revision %d", i, e.Value, e.Rev, err, rev)
		}
	}
}
