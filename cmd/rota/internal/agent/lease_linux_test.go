package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/rotatest"
)

// rota lease exits with 0 only while a lease lasts, by a clock that is the lease's.
func TestLeaseTellsWhetherItLasts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lease")
	t.Setenv("ROTA_LEASE_FILE", file)
	now := clock.Boot()
	for _, c := range []struct {
		text, says string
		code       int
	}{
		{span{now, now + time.Hour}.String(), "59m", 0},
		{span{now - 2*time.Second, now - time.Second}.String(), "the lease is over: it ended ", 1}, // a machine may have started a minute ago
		{over.String(), "the lease is over: it was withdrawn", 1},
		{span{now + time.Hour, now + 2*time.Hour}.String(), "this is another machine or time namespace than rota's", 1},
		{"", "is no lease: want two numbers of nanoseconds", 1},
		{"1", "is no lease", 1},
		{"-1 99999999999999999", "is no lease", 1},
		{"1 9999999999999999999", "is no lease", 1},
		{"1 2 3", "is no lease", 1},
	} {
		if err := os.WriteFile(file, []byte(c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, stderr strings.Builder
		code := agentRuns(t.Context(), []string{"lease"}, &out, &stderr)
		if code != c.code || !strings.Contains(out.String()+stderr.String(), c.says) || (code == 0) != (stderr.Len() == 0) {
			t.Errorf("%q: exit %d, %q, %q", c.text, code, &out, &stderr)
		}
		var quiet strings.Builder
		if code := agentRuns(t.Context(), []string{"lease", "--quiet"}, &quiet, &quiet); code != c.code || quiet.Len() > 0 {
			t.Errorf("%q, quietly: exit %d, %q", c.text, code, &quiet)
		}
	}
	os.Remove(file)
	var stderr strings.Builder
	if code := agentRuns(t.Context(), []string{"lease"}, &stderr, &stderr); code != cli.ExitFailed || !strings.Contains(stderr.String(), "is gone") {
		t.Errorf("without its file: exit %d, %q", code, &stderr)
	}
	t.Setenv("ROTA_LEASE_FILE", "")
	stderr.Reset()
	if code := agentRuns(t.Context(), []string{"lease", "--quiet"}, &stderr, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), "no lease to look at") {
		t.Errorf("without the variable: exit %d, %q", code, &stderr)
	}
}

// FuzzSpan reads anything: what it reads as a span is written the same, and holds at no
// clock outside of it.
func FuzzSpan(f *testing.F) {
	for _, s := range []string{"0 0\n", "1 2\n", "9223372036854775807 9223372036854775807", "1  2", "-1 5", "+1 5", "1 2\n\n", "01 2"} {
		f.Add(s, int64(1))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		s, err := parseSpan(text)
		if err != nil {
			if s != over {
				t.Errorf("%q is no span, and yet %v", text, s)
			}
			return
		}
		if again, err := parseSpan(s.String()); err != nil || again != s || s.since < 0 || s.end < 0 {
			t.Errorf("%q is %v, and then %v, %v", text, s, again, err)
		}
		if s.holds(time.Duration(now)) && (now < int64(s.since) || now >= int64(s.end)) {
			t.Errorf("%v holds at %d", s, now)
		}
	})
}

// The file of a command shows a renewed lease, never more than the lease, and no lease
// as soon as it is withdrawn; it is gone with the command.
func TestTheLeaseFileFollowsTheLease(t *testing.T) {
	const margin = 200 * time.Millisecond
	k := keep(t, margin)
	own := newHolding("q0")
	set := func(d time.Duration) (end time.Duration) {
		own.mu.Lock()
		defer own.mu.Unlock()
		own.until = lasting(clock.Boot() + d)
		return time.Duration(own.until)
	}
	end := set(time.Minute)
	c, out := sh(t, "echo $ROTA_LEASE_FILE; trap '' TERM; sleep 1000")
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- k.run(ctx, own, c) }()
	trial.Until(t, "the command", func() bool { return out() != "" })
	file := strings.TrimSpace(out())
	reads := func(what string, want func(span) bool) {
		t.Helper()
		trial.Until(t, what, func() bool {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseSpan(string(b))
			if err != nil || s.end > end-margin {
				t.Fatalf("it reads %q, %v, and the lease ends at %d", b, err, end)
			}
			return want(s)
		})
	}
	reads("the first lease", func(s span) bool { return s.holds(clock.Boot()) })
	end = set(time.Hour)
	reads("the next one", func(s span) bool { return s.end > clock.Boot()+59*time.Minute })
	own.lose()
	reads("that it is withdrawn", func(s span) bool { return s == over })
	cancel()
	if err := <-ended; err == nil {
		t.Error("killed, yet well")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// A rota that is killed leaves no files for its commands behind: the watchdog removes them.
func TestAKilledRotaLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	p := trial.Start(t, dir, "run", "--group", "g", "--store", "mem:", "--source", "none:?partitions=2", "--new-group", "--own", "exec:sleep 1000")
	files := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(dir, "rota-run-*", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	trial.Until(t, "files of leases and metadata", func() bool { return len(files("*")) == 4 })
	p.Process.Kill()
	trial.Until(t, "their end", func() bool { return len(files(".")) == 0 })
}

// A command whose file cannot be written runs without it, and that is told.
func TestWithoutALeaseFileACommandRuns(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	k := keep(t, time.Millisecond)
	own := newHolding("q0")
	c, _ := sh(t, `[ -z "$ROTA_LEASE_FILE" ]`)
	c.tell = own.Tell
	if err := k.run(t.Context(), forLong, c); err != nil || !strings.HasPrefix(own.says(), "no-lease-file: its command runs without a file of its lease") {
		t.Errorf("%v, told %q", err, own.says())
	}
}

// A server learns what a command learns, and how long the lease lasts.
func TestServersLearnTheLease(t *testing.T) {
	got := make(chan http.Header, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer srv.Close()
	h := &handler{group: "g", member: "c1", deed: deed{kind: "http", url: srv.URL}, margin: 250 * time.Millisecond}
	src := rotatest.NewMemSource(1, "q0")
	m, err := rota.New(rota.Config{Group: "g", Store: rotatest.NewMemStore(), Source: src, NewGroup: true, Handle: h.handle()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	src.Publish("q0", []byte("v"))
	before := clock.Boot()
	header := <-got
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s, err := parseSpan(header.Get("Rota-Lease"))
	if err != nil || s.end <= s.since || s.end-s.since > 5*time.Second || s.end < before {
		t.Errorf("Rota-Lease is %q", header.Get("Rota-Lease"))
	}
	for name, want := range map[string]string{"Rota-Member": "c1", "Rota-Message-Headers": "[]", "Rota-Partition": "q0"} {
		if header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, header.Get(name), want)
		}
	}
}
