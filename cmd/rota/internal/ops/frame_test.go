package ops

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

var update = flag.Bool("update", false, "write the pictures of testdata anew")

// TestStatusFitsTheTerminal draws groups of all sizes on terminals of all sizes: no
// line is too wide, no picture too high, and what matters most is in it.
func TestStatusFitsTheTerminal(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, size := range trial.Sizes {
		for _, members := range trial.Crowds {
			for _, trouble := range []bool{false, true} {
				width, height := size[0], size[1]
				lines := screen.Texts(statusFrame(trial.Crowd(members, trouble, now), "nats://localhost:4222", now, width, height))
				what := fmt.Sprintf("%d members on %d x %d, trouble %v", members, width, height, trouble)
				if len(lines) > height {
					t.Errorf("%s: %d lines", what, len(lines))
				}
				for _, l := range lines {
					if screen.Cells(l) > width {
						t.Errorf("%s: %d cells: %q", what, screen.Cells(l), l)
					}
				}
				text := strings.Join(lines, "\n")
				trial.Tame(t, what, text)
				if width < 80 {
					continue
				}
				want := []string{"group orders: c1 leads", "MEMBER", "c1", "PARTITION"}
				if trouble {
					want = []string{"group orders:", "problem: orders.6: no member may take it", "PARTITION", "orders.6", "unplaced", "MEMBER", "c2", "silent"}
				}
				trial.In(t, text, want...)
			}
		}
	}
}

// TestPicturesOfStatus compares a few pictures with those that people have looked at.
func TestPicturesOfStatus(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		width, height, members int
		trouble                bool
	}{{80, 24, 3, false}, {80, 24, 20, true}, {80, 24, 1000, true}, {120, 40, 20, true}, {200, 50, 1000, true}} {
		st := trial.Crowd(c.members, c.trouble, now)
		text := strings.Join(screen.Texts(statusFrame(st, "nats://localhost:4222", now, c.width, c.height)), "\n") + "\n"
		golden(t, fmt.Sprintf("status-%dx%d-%d.txt", c.width, c.height, c.members), text)
	}
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: run the test with -update and look at it\n%s", file, text)
	}
}

// TestAPipeGetsEverything: without a terminal, and with --all, nothing is left out and
// nothing moves a cursor; NO_COLOR takes the colours from a terminal, and nothing else.
func TestAPipeGetsEverything(t *testing.T) {
	now := time.Now()
	st := trial.Crowd(1000, true, now)
	draw := func(v view, width, height int) string {
		v.frame = func(st *rota.Status, width, height int) []screen.Line {
			return statusFrame(st, "mem:", now, width, height)
		}
		text, err := v.text(st, width, height, func(w io.Writer, st *rota.Status) error {
			return printStatus(w, &connect.Target{Group: "g", Store: "mem:"}, st, now)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	for what, text := range map[string]string{"a pipe": draw(view{}, 0, 0), "--all": draw(view{all: true}, 80, 24), "--watch in a pipe": draw(view{watch: true}, 0, 0)} {
		trial.Tame(t, what, text)
		trial.In(t, text, "problem: ", "waiting (2):", "orders.8 waits for its owner to stop", "MEMBER", "c1000 ", "PARTITION", "orders.3999 ")
	}
	once, watched := draw(view{}, 80, 24), draw(view{watch: true}, 80, 24)
	if n := strings.Count(once, "\n"); n > 23 || !strings.Contains(once, "\x1b[31m") {
		t.Errorf("%d lines on a terminal of 24:\n%s", n, once)
	}
	if !strings.HasPrefix(watched, "\x1b[H") || strings.Count(watched, "\n") > 23 || strings.Contains(watched, "\x1b[2J") {
		t.Errorf("--watch prints %q", watched)
	}
	t.Setenv("NO_COLOR", "1")
	if text := draw(view{}, 80, 24); strings.Contains(text, "\x1b") || strings.Count(text, "\n") != strings.Count(once, "\n") {
		t.Errorf("with NO_COLOR: %q", text)
	}
}

// TestListsFitUnderWatch draws a list of a thousand lines again and again.
func TestListsFitUnderWatch(t *testing.T) {
	now := time.Now()
	v := view{watch: true}
	text, err := v.text(trial.Crowd(1000, true, now), 80, 24, func(w io.Writer, st *rota.Status) error { return printPartitions(w, st, now, true) }, nil)
	if err != nil || strings.Count(text, "\n") > 23 || !strings.Contains(text, "more; without --watch all are shown") {
		t.Errorf("%v, %q", err, text)
	}
}
