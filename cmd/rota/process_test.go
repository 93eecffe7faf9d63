package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// The test binary is rota itself when it is asked to be: real processes are
// started from it, and its watchdogs are.
func TestMain(m *testing.M) {
	if os.Getenv("ROTA_TEST_AS") == "rota" || len(os.Args) > 1 && os.Args[1] == "watchdog" {
		main()
	}
	os.Exit(m.Run())
}

// process is one real rota process.
type process struct {
	*exec.Cmd
	t      *testing.T
	out    lockedBuffer
	err    lockedBuffer
	exited chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts rota with the given arguments, in the given folder, and makes
// sure that it does not outlive the test.
func start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), t: t, exited: make(chan struct{})}
	p.Env = append(os.Environ(), "ROTA_TEST_AS=rota")
	p.Dir, p.Stdout, p.Stderr = dir, &p.out, &p.err
	p.Cancel = nil
	p.WaitDelay = time.Second // what it left behind may hold its output open
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("rota %s\nexit %d\n%s%s", strings.Join(args, " "), p.ProcessState.ExitCode(), &p.out, &p.err)
		}
	})
	return p
}

// code waits for its end.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("rota did not end within %v", patience)
	}
	return p.ProcessState.ExitCode()
}

// patience is how long tests wait for what must come: machines are slow at times.
const patience = 60 * time.Second

// until waits for a condition that real processes bring about.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// rotaRuns runs the whole program within the test.
func rotaRuns(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}
