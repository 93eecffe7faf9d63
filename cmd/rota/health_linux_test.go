package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// A real member is probed from before it joins until it has left.
func TestProbesFollowAMember(t *testing.T) {
	quick(t)
	y := &yard{t, t.TempDir()}
	server := trial.Start(t, y.dir, "serve")
	trial.Until(t, "the server", func() bool { return strings.Contains(server.Out.String(), "serving") })
	addr := trial.FreePort(t)
	ask := func(path string) string {
		r, err := http.Get("http://" + addr + path)
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return err.Error()
		}
		return r.Status[:3] + " " + string(b)
	}
	becomes := func(want string) {
		t.Helper()
		var got string
		defer func() {
			if t.Failed() {
				t.Logf("/readyz said %q", got)
			}
		}()
		trial.Until(t, "/readyz to say "+want, func() bool {
			got = ask("/readyz")
			return strings.HasPrefix(got, want)
		})
		if got := ask("/healthz"); got != "200 alive\n" {
			t.Errorf("/healthz while %s: %q", want, got)
		}
	}
	gate, done := filepath.Join(y.dir, "gate"), filepath.Join(y.dir, "done")
	p := y.member("c1", "--source", y.source(1), "--health", addr, "--start-gate", gate, "--orphan", "10m",
		"--handle", "exec:while ! [ -e '"+done+"' ]; do sleep 0.05; done")
	becomes("503 not ready: it has not begun to join\n")
	touch(t, gate)
	becomes("200 ready\n")

	server.Process.Signal(syscall.SIGSTOP)
	becomes("503 not ready: it has no lease: the store does not answer: ")
	server.Process.Signal(syscall.SIGCONT)
	becomes("200 ready\n")

	y.must("produce", "--source", y.source(1), "m1")
	trial.Until(t, "a message in hand", func() bool {
		events, _ := os.ReadFile(filepath.Join(y.dir, "c1.jsonl"))
		return strings.Contains(string(events), `"event":"handle"`)
	})
	p.Process.Signal(syscall.SIGTERM)
	becomes("503 not ready: it leaves\n")
	touch(t, done)
	if code := p.Code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}
