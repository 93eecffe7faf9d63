package rotanats

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// TestWarningsArePaced checks that a store gives each warning at once, again after a minute
// if the cause remains, and not in between, whatever else it warns of.
func TestWarningsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := Store("nats://127.0.0.1:1", Log(slog.New(slog.NewTextHandler(&log, nil)))).(*store)
		defer s.Close()
		var warner rota.Warner = s
		began := time.Now()
		want := func(texts ...string) {
			t.Helper()
			if got := warner.Warnings(); !slices.Equal(got, texts) {
				t.Errorf("after %v it warns of %q, not of %q", time.Since(began), got, texts)
			}
		}
		want()
		s.warn("a forger")
		s.warn("a forger")
		want("a forger")
		want() // each is returned once
		time.Sleep(warnEvery / 2)
		s.warn("no seal")
		s.warn("a forger")
		want("no seal")
		time.Sleep(warnEvery/2 - 1)
		s.warn("a forger")
		want()
		time.Sleep(time.Nanosecond)
		s.warn("a forger")
		s.warn("no seal") // half a minute old
		want("a forger")
		time.Sleep(warnEvery - 1)
		for range 1000 {
			s.warn("a forger")
		}
		s.warn("no seal")
		want("no seal")
		if n := strings.Count(log.String(), "a forger"); n != 2 {
			t.Errorf("the log tells of a forger %d times: %s", n, log.String())
		}
	})
}
