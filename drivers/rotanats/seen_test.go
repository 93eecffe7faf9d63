package rotanats

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestWatchForgetsWhatIsGone: each session there ever was has had a key. When its
// mark has run out, the watch does not remember it either.
func TestWatchForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	server, err := Serve(filepath.Join(t.TempDir(), "data"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := newStore(newLink(server.URL(), nil), "rota")
	defer s.Close()
	w := newWatch(s, "g/")
	_, hush, err := w.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer hush()
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
	for i := 1; i < 50; i++ { // as if the hour were over
		if err := s.ask(t.Context(), "STREAM.PURGE."+s.stream(), map[string]string{"filter": s.subject(fmt.Sprint("g/", i))}, new(answer)); err != nil {
			t.Fatal(err)
		}
	}
	if n := remembered(); n != 1 {
		t.Errorf("%d keys are remembered of which one exists", n)
	}
}
