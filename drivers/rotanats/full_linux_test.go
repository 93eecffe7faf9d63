package rotanats_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/rotatest"
)

// TestFullDisk fills the disk of a server and makes space again. The server says which
// folder it is and what to do, and writes go on by themselves, for a store, for a source's
// stream and for the member that hosts the server. What was acknowledged is still there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T, dir string, log *slog.Logger) rota.Store{
		"serve": func(t *testing.T, dir string, log *slog.Logger) rota.Store {
			s, err := embedded.Serve("embed:"+dir, "", rotanats.Log(log))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return rotanats.Store("folder:" + dir)
		},
		"embed": func(t *testing.T, dir string, log *slog.Logger) rota.Store {
			return embedded.Store("embed:"+dir, rotanats.Log(log))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, fill := rotatest.SmallDisk(t)
			dir := filepath.Join(disk, "data")
			var said logged
			store := begin(t, dir, slog.New(slog.NewTextHandler(&said, nil)))
			t.Cleanup(func() { store.Close() })
			w := writer{t: t, store: store, revs: map[string]rota.Rev{}}
			w.mustPut(20)
			js := folderBucket(t, dir)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
				t.Fatal(err)
			}
			p := publisher{t: t, js: js}
			for range 12 { // of 24 MB
				p.until("a large message", make([]byte, 1<<20), func() bool { return !p.failed })
			}
			p.until("before", make([]byte, 5000), func() bool { return p.acked >= 20 })

			free := fill()
			w.until("a write that fails", func(err error) bool { return err != nil })
			p.until("a publish that fails", make([]byte, 5000), func() bool { return p.failed })
			said.until(t, "no space is left for the folder "+dir+": make space")
			w.until("an error that names the disk", func(err error) bool {
				return err != nil && strings.Contains(err.Error(), "no space is left for the folder "+dir)
			})
			free()
			began := time.Now()
			w.until("a write that succeeds", func(err error) bool { return err == nil })
			p.until("a publish that succeeds", make([]byte, 5000), func() bool { return !p.failed })
			t.Logf("writes go on %v after there was space", time.Since(began).Round(time.Millisecond))
			said.until(t, "accepts writes again")
			w.mustPut(20)
			w.check()
			p.check()
			if n := strings.Count(said.String(), "the server cannot write"); n != 1 {
				t.Errorf("the server says %d times that it cannot write:\n%s", n, &said)
			}
		})
	}
}

// A writer writes records, a new one each time, and remembers which were acknowledged.
type writer struct {
	t     *testing.T
	store rota.Store
	n     int
	revs  map[string]rota.Rev
}

func (w *writer) put() error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 500*time.Millisecond)
	defer cancel()
	w.n++
	key := fmt.Sprintf("g/member/%d", w.n)
	rev, err := w.store.Put(ctx, key, bytes.Repeat([]byte{byte(w.n)}, 1000), 0)
	if err == nil {
		w.revs[key] = rev
	}
	return err
}

func (w *writer) mustPut(n int) {
	w.t.Helper()
	for range n {
		w.until("a write", func(err error) bool { return err == nil })
	}
}

func (w *writer) until(what string, ok func(error) bool) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if err = w.put(); ok(err) {
			return
		}
	}
	w.t.Fatalf("no %s; the last one: %v", what, err)
}

// check reads everything that was acknowledged.
func (w *writer) check() {
	w.t.Helper()
	for key, rev := range w.revs {
		if e, err := w.store.Get(w.t.Context(), key); err != nil || e.Rev != rev {
			w.t.Errorf("%s was acknowledged at %d: now %d, %v", key, rev, e.Rev, err)
		}
	}
}

// A publisher publishes messages and counts those that were acknowledged.
type publisher struct {
	t      *testing.T
	js     jetstream.JetStream
	acked  int
	failed bool // the last one
	seqs   []uint64
}

func (p *publisher) until(what string, message []byte, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(p.t.Context(), 500*time.Millisecond)
		ack, err := p.js.Publish(ctx, "s.1", message)
		cancel()
		if p.failed = err != nil; err == nil {
			p.acked++
			p.seqs = append(p.seqs, ack.Sequence)
		}
		if ok() {
			return
		}
	}
	p.t.Fatalf("no %s", what)
}

func (p *publisher) check() {
	p.t.Helper()
	s, err := p.js.Stream(p.t.Context(), "S")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, seq := range p.seqs {
		if _, err := s.GetMsg(p.t.Context(), seq); err != nil {
			p.t.Errorf("message %d was acknowledged: %v", seq, err)
		}
	}
}
