//go:build linux

package processes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/servers"
)

// need skips a test, or fails it, if a program is not installed.
func need(t *testing.T, find func() (string, error)) string {
	t.Helper()
	path, err := find()
	if m, ok := errors.AsType[*servers.Missing](err); ok {
		if os.Getenv("ROTA_REQUIRE_REAL") == "1" {
			t.Fatalf("MISSING %v", m)
		}
		t.Skipf("SKIP %v", m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// example is the path of a file in examples.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// lookers are the examples of commands that look at their lease, by language: what runs
// them.
var lookers = []struct {
	name string
	argv func(t *testing.T) string
}{
	{"bash", func(t *testing.T) string { return need(t, servers.FindBash) + " " + example(t, "lease/look.sh") }},
	{"python", func(t *testing.T) string { return need(t, servers.FindPython) + " " + example(t, "lease/look.py") }},
	{"node", func(t *testing.T) string { return need(t, servers.FindNode) + " " + example(t, "lease/look.js") }},
	{"c", func(t *testing.T) string {
		bin := filepath.Join(t.TempDir(), "look")
		if out, err := exec.Command(need(t, servers.FindCC), "-Wall", "-Werror", "-o", bin, example(t, "lease/look.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return bin
	}},
}

// Rota, its watchdog and a command are frozen together and wake up when another member
// has the partition: no look of the command passes after the lease end. ROTA_FREEZES says
// how often (make freezes).
func TestB_Agent_NoLookPassesAfterTheLease(t *testing.T) {
	t.Parallel()
	times, _ := strconv.Atoi(os.Getenv("ROTA_FREEZES"))
	times = max(times, 5)
	h := serveEmbedded(t)
	t.Run("freezes", func(t *testing.T) {
		for n := range times {
			l := lookers[n%len(lookers)]
			t.Run(fmt.Sprintf("%d-%s", n, l.name), func(t *testing.T) {
				t.Parallel()
				f := &frozen{T: t, h: h, dir: t.TempDir(), argv: l.argv(t)}
				// The command is let go before the watchdog that would end it, or with it.
				f.trial(time.Duration(n)*heartbeat/time.Duration(times), n%8 < 6)
			})
		}
	})
}

// A frozen is one such freeze.
type frozen struct {
	*testing.T
	h         *host
	dir, argv string
}

func (f *frozen) start(name string) *exec.Cmd {
	f.Helper()
	c := exec.Command(program(f.T), "run", "--group", "g", "--name", name, "--new-group", "--store", f.h.storeURL(f.T, f.h.doors()), "--source", "none:?partitions=2",
		"--own", "exec:"+f.argv+" "+filepath.Join(f.dir, name), "--events", filepath.Join(f.dir, name+".jsonl"), "--trace", "--lease", lease.String(), "--heartbeat", heartbeat.String())
	var out lockedBuffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if f.Failed() {
			f.Logf("%s: %s", name, &out)
		}
	})
	return c
}

// An act is one line of an example.
type act struct {
	word, partition string
	token           uint64
	at              time.Duration
}

func (f *frozen) acts(name string) (all []act) {
	b, _ := os.ReadFile(filepath.Join(f.dir, name))
	for l := range strings.Lines(string(b)) {
		var a act
		if _, err := fmt.Sscan(l, &a.word, &a.partition, &a.token, (*int64)(&a.at)); err == nil {
			all = append(all, a)
		}
	}
	return all
}

func (f *frozen) until(what string, done func() bool) {
	f.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// partitions are those that a member's commands have acted on.
func (f *frozen) partitions(name string) map[string]uint64 {
	all := map[string]uint64{}
	for _, a := range f.acts(name) {
		all[a.partition] = a.token
	}
	return all
}

func (f *frozen) trial(phase time.Duration, commandFirst bool) {
	f.start("s")
	f.until("the first member", func() bool { return len(f.partitions("s")) == 2 })
	v := f.start("v")
	f.until("the second member", func() bool { return len(f.partitions("v")) == 1 })
	time.Sleep(phase)
	var mine act
	for _, a := range f.acts("v") {
		mine = a
	}
	commands := freezeAll(v.Process.Pid)
	at := clock.Boot()
	f.until("the other to act", func() bool {
		got := f.acts("s")
		last := got[len(got)-1]
		return f.partitions("s")[mine.partition] > mine.token && last.at > at
	})
	if commandFirst {
		signalAll(commands, syscall.SIGCONT)
		f.until("the command to look", func() bool { got := f.acts("v"); return got[len(got)-1].word == "refused" })
	}
	signalAll(below(v.Process.Pid), syscall.SIGCONT)
	v.Process.Signal(syscall.SIGCONT)
	// On a machine that is busy elsewhere the watchdog may be too slow to end the command,
	// which rota then does by itself, with 4.
	if err := v.Wait(); v.ProcessState.ExitCode() != 3 && v.ProcessState.ExitCode() != 4 {
		f.Errorf("the zombie ended with %v, want 3 or 4", err)
	}
	f.Logf("the zombie ended with %d", v.ProcessState.ExitCode())
	f.judge(mine, at, commandFirst)
}

// judge compares what the commands noted with the lease as the member knew it.
func (f *frozen) judge(mine act, at time.Duration, commandFirst bool) {
	var end time.Duration
	b, _ := os.ReadFile(filepath.Join(f.dir, "v.jsonl"))
	for l := range bytes.Lines(b) {
		if e, err := line.Parse(bytes.TrimSpace(l)); err == nil && e.Event == "lease" && e.Boot < int64(at) {
			end = time.Duration(e.Lease)
		}
	}
	if end < at || end > at+lease {
		f.Fatalf("frozen at %v, and the lease ended at %v", at, end)
	}
	heir := time.Duration(0)
	for _, a := range f.acts("s") {
		if a.partition == mine.partition && a.token > mine.token && heir == 0 {
			heir = a.at
		}
	}
	late := 0
	for _, a := range f.acts("v") {
		if a.word == "acts" && (a.at >= end || a.at >= heir) {
			f.Errorf("a look passed %v after the lease end, %v after the first act of the next owner", a.at-end, a.at-heir)
		}
		if a.word == "refused" && a.at >= end {
			late++
		}
	}
	if commandFirst && late == 0 {
		f.Error("no look came after the lease end: this has shown nothing")
	}
}

// freezeAll stops a process and everything below it, and returns the commands of its
// watchdog.
func freezeAll(pid int) (commands []int) {
	syscall.Kill(pid, syscall.SIGSTOP)
	for range 3 { // what is stopped forks no more
		signalAll(below(pid), syscall.SIGSTOP)
	}
	all := below(pid)
	return all[1:] // the first is the watchdog
}

func signalAll(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		syscall.Kill(pid, s)
	}
}

// below are the descendants of a process, parents first.
func below(pid int) (all []int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if len(tasks) > 0 {
		b = nil
	}
	for _, t := range tasks {
		more, _ := os.ReadFile(t)
		b = append(append(b, ' '), more...)
	}
	for w := range strings.FieldsSeq(string(b)) {
		child, err := strconv.Atoi(w)
		if err != nil {
			continue
		}
		all = append(append(all, child), below(child)...)
	}
	return all
}
