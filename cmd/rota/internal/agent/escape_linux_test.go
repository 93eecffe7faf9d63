package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// What cannot be ended holds up its own command until that must end, and nobody
// else's; it is told once.
func TestAnEscapeHoldsUpItsOwnCommandAlone(t *testing.T) {
	w := newWatchdog(nil)
	w.cmds[1] = &kept{id: 1, pid: noProcess, waited: true}
	w.cmds[2] = &kept{id: 2, pid: noProcess, waited: true}
	w.below = func() (map[int][]int, bool) { return map[int][]int{1: {noProcess + 1}}, false }
	w.kill = func(int) error { return syscall.EPERM }
	for range 3 {
		w.look()
	}
	if r := <-w.out; r.Is != "escaped" || r.ID != 1 || r.PID != noProcess+1 {
		t.Errorf("told %+v", r)
	}
	if r := <-w.out; r.Is != "gone" || r.ID != 2 {
		t.Errorf("told %+v, want that the other command is gone", r)
	}
	if len(w.out) > 0 {
		t.Errorf("told %+v besides", <-w.out)
	}
	w.obey(packet{wish: wish{Do: "kill", ID: 1}})
	if w.look(); len(w.out) != 1 || (<-w.out).Is != "gone" {
		t.Error("what has escaped holds up a command that must end")
	}
	// One whose first process has escaped did not end well.
	w.cmds[3] = &kept{id: 3, pid: noProcess, forced: true}
	w.below = func() (map[int][]int, bool) { return map[int][]int{3: {noProcess}}, false }
	w.look()
	<-w.out
	if r := <-w.out; r.Is != "gone" || r.Code == 0 {
		t.Errorf("told %+v", r)
	}
}

const daemonArg = "be-a-daemon"

// A daemon of another user, as setuid programs start them.
func init() {
	if len(os.Args) != 3 || !strings.HasPrefix(os.Args[1], daemonArg) {
		return
	}
	if os.Args[1] == daemonArg+"-now" {
		os.WriteFile(os.Args[2]+".new", []byte(strconv.Itoa(os.Getpid())), 0o644)
		os.Rename(os.Args[2]+".new", os.Args[2])
		time.Sleep(time.Hour) // as daemons do; the test ends it
	}
	if err := syscall.Setuid(0); err != nil {
		os.WriteFile(os.Args[2]+".not", []byte(err.Error()), 0o644)
		os.Exit(1)
	}
	c := exec.Command("/proc/self/exe", daemonArg+"-now", os.Args[2])
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A rota that is nobody's, one of whose commands calls a setuid program that
// becomes a daemon of root's: rota tells, and its other commands end in time.
func TestASetuidDaemonHoldsUpNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT ALLOWED: only root can make a setuid program of root's")
	}
	dir, err := os.MkdirTemp("", "rota-setuid")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program := func(name string, mode os.FileMode) string {
		b, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rota, daemon, pidFile := program("rota", 0o755), program("daemon", 0o755|os.ModeSetuid), filepath.Join(dir, "pid")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var out trial.Buffer
	c := exec.Command(rota, "run", "--group", "g", "--store", "mem:", "--source", "none:?partitions=3", "--new-group", "--stop-time", "5s", "--own",
		"exec:trap 'exit 0' TERM; [ $ROTA_PARTITION = p0 ] && "+daemon+" "+daemonArg+" "+pidFile+"; touch "+dir+"/up.$ROTA_PARTITION; while :; do sleep 0.02; done")
	c.Env, c.Dir = append(os.Environ(), "ROTA_TEST_AS=rota"), dir
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := c.Start(); err != nil {
		t.Skipf("NOT ALLOWED: a process of nobody's: %v", err)
	}
	p := trial.Watch(t, c)
	defer c.Process.Kill()
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	trial.Until(t, "the commands and the daemon", func() bool {
		return exists("pid.not") || exists("pid") && exists("up.p0") && exists("up.p1") && exists("up.p2")
	})
	if why, err := os.ReadFile(pidFile + ".not"); err == nil {
		t.Skipf("NOT ALLOWED: setuid programs do not work here: %s", why)
	}
	b, _ := os.ReadFile(pidFile)
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	c.Process.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("exit %d: %s", code, &out)
	}
	if !trial.Alive(pid) {
		t.Error("the daemon was ended, so nothing was tried")
	}
	if want := fmt.Sprintf("process %d (/proc/self/exe %s-now %s) has escaped", pid, daemonArg, pidFile); strings.Count(out.String(), want) != 1 {
		t.Errorf("said %q, want %q once", &out, want)
	}
}
