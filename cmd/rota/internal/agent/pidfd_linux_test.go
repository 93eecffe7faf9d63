package agent

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// Only a whole entry of the environment is a mark.
func TestAMarkIsAWholeEntry(t *testing.T) {
	m := newMark()
	if n := len(m) - len(commandMark); n < 20 || m == newMark() {
		t.Fatalf("the mark %s can be guessed, or comes twice", m)
	}
	for env, want := range map[string]int{
		string(m) + "=7":                                7,
		"A=1\x00" + string(m) + "=12\x00B=2\x00":        12,
		string(newMark()) + "=3\x00" + string(m) + "=4": 4,
		"LC_NAME=hello " + string(m) + "=7":             0,
		"X" + string(m) + "=7":                          0,
		string(m) + "X=7":                               0,
		string(m) + "=7x":                               0,
		string(m) + "=07":                               0,
		string(m) + "=-7":                               0,
		string(m) + "=":                                 0,
		string(m):                                       0,
		string(newMark()) + "=7":                        0,
		"":                                              0,
	} {
		if id, ok := m.in([]byte(env)); id != want || ok != (want > 0) {
			t.Errorf("in %q: command %d, %v", env, id, ok)
		}
	}
	if id, ok := mark("").in([]byte("=7")); ok {
		t.Errorf("no mark at all is command %d", id)
	}
}

// stranger starts a process with one more variable.
func stranger(t *testing.T, entry string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "1000")
	c.Env = append(os.Environ(), entry)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c
}

func TestOnlyWhatCarriesTheWholeMarkIsKilled(t *testing.T) {
	t.Run("pidfd", onlyMarked)
	t.Run("no pidfd", func(t *testing.T) { // an older kernel
		was := pidfds
		defer func() { pidfds = was }()
		pidfds = func() bool { return false }
		onlyMarked(t)
	})
}

func onlyMarked(t *testing.T) {
	m := newMark()
	other := []*exec.Cmd{stranger(t, "LC_NAME=hello "+m.entry(1)), stranger(t, newMark().entry(1)), stranger(t, m.entry(1)+"x")}
	ours := stranger(t, m.entry(1))
	trial.Until(t, "the process to be itself", func() bool { _, ok := m.on(ours.Process.Pid); return ok })
	killMarked(m)
	trial.Until(t, "the end of the marked process", func() bool { return !trial.Alive(ours.Process.Pid) })
	for _, c := range other {
		if !trial.Alive(c.Process.Pid) {
			t.Errorf("killed: %s", c.Env[len(c.Env)-1])
		}
	}
}

// A pidfd proves descent: our children are below us, our parent and init are not.
func TestDescentIsProven(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	var b [32]byte
	n, _ := out.Read(b[:])
	below := trial.PIDs(strings.TrimSpace(string(b[:n])))
	if len(below) != 1 {
		t.Fatalf("the shell said %q", b[:n])
	}
	defer killIf(below[0], func(pidfd) bool { return true })
	for pid, want := range map[int]bool{c.Process.Pid: true, below[0]: true, os.Getppid(): false, os.Getpid(): false, 1: false, noProcess: false} {
		fd, err := openPid(pid)
		if err != nil && want {
			t.Skipf("NOT ALLOWED: pidfd_open: %v", err)
		}
		if got := err == nil && descends(pid, fd); got != want {
			t.Errorf("process %d descends from us: %v, want %v", pid, got, want)
		}
		fd.Close()
	}
	if descends(below[0], noPidfd) || !descends(c.Process.Pid, noPidfd) {
		t.Error("without a pidfd our children, and nobody else, are proven to be below us")
	}
}
