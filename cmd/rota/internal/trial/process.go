package trial

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A Process is one real rota process.
type Process struct {
	*exec.Cmd
	t      *testing.T
	Out    Buffer
	Err    Buffer
	Exited chan struct{}
}

// Start starts rota with the given arguments, in the given folder, and makes
// sure that it does not outlive the test. The program is the test binary: see Main.
func Start(t *testing.T, dir string, args ...string) *Process {
	t.Helper()
	return StartBy(t, exec.Command(os.Args[0], args...), dir)
}

// StartBy is Start for a command that starts rota.
func StartBy(t *testing.T, c *exec.Cmd, dir string) *Process {
	t.Helper()
	p := &Process{Cmd: c, t: t, Exited: make(chan struct{})}
	p.Env = append(os.Environ(), "ROTA_TEST_AS=rota")
	p.Dir, p.Stdout, p.Stderr = dir, &p.Out, &p.Err
	p.Cancel = nil
	p.WaitDelay = time.Second // what it left behind may hold its output open
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Wait()
		close(p.Exited)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.Exited
		if t.Failed() {
			t.Logf("rota %s\nexit %d\n%s%s", strings.Join(c.Args[1:], " "), p.ProcessState.ExitCode(), &p.Out, &p.Err)
		}
	})
	return p
}

// Code waits for its end.
func (p *Process) Code() int {
	p.t.Helper()
	select {
	case <-p.Exited:
	case <-time.After(Patience):
		p.t.Fatalf("rota did not end within %v", Patience)
	}
	return p.ProcessState.ExitCode()
}

// Main makes the test binary rota itself when it is asked to be: real processes are
// started from it, and its watchdogs are.
func Main(m *testing.M, rota func()) {
	if os.Getenv("ROTA_TEST_AS") == "rota" || len(os.Args) > 1 && os.Args[1] == "watchdog" {
		rota()
	}
	os.Exit(m.Run())
}

// Watch makes a Process of a command that was started by other means.
func Watch(t *testing.T, c *exec.Cmd) *Process {
	p := &Process{Cmd: c, t: t, Exited: make(chan struct{})}
	go func() {
		c.Wait()
		close(p.Exited)
	}()
	return p
}
