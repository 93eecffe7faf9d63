package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/proc"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// With --on-store-loss continue a command may act for as long as its member works on,
// and a look says so; after a freeze of everything for longer than a lease it says no.
func TestALookFollowsWorkWithoutAStore(t *testing.T) {
	quick(t)
	dir := t.TempDir()
	server := trial.Start(t, dir, "serve")
	trial.Until(t, "the server", func() bool { return strings.Contains(server.Out.String(), "serving") })
	script := `echo $$ $PPID $ROTA_LEASE_FILE >pid.new && mv pid.new pid; while ` + os.Args[0] + ` lease --quiet; do echo acts >>acts; done; echo refused >>acts; sleep 1000`
	p := trial.Start(t, dir, "run", "--group", "g", "--source", "none:?partitions=1", "--own", "exec:"+script, "--on-store-loss", "continue", "--orphan", "0s", "--lease", "2s", "--heartbeat", "500ms")
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	acts := func() int { return strings.Count(read("acts"), "acts") }
	trial.Until(t, "the command to act", func() bool { return acts() > 2 })
	server.Process.Kill()
	trial.Until(t, "the lease to be over", func() bool { return strings.Contains(p.Err.String(), "works on") })
	before := acts()
	trial.Until(t, "the command to act on", func() bool { return acts() > before+3 })
	if strings.Contains(read("acts"), "refused") {
		t.Fatalf("it was refused while its member works on:\n%s", &p.Err)
	}
	pids := trial.PIDs(read("pid"))
	command, watchdog, file := pids[0], pids[1], strings.Fields(read("pid"))[2]
	for _, pid := range []int{p.Process.Pid, watchdog, -command} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	// A shell that has just forked sleeps deeply until its child runs another program, and the
	// child is frozen.
	trial.Until(t, "all to be frozen", func() bool { s, ok := proc.Read(command); return ok && (s.State == 'T' || s.State == 'D') })
	code := func() int {
		c, _, _ := rotaRuns(t.Context(), "lease", "--quiet", "--lease-file", file)
		return c
	}
	trial.Until(t, "what was trusted to be over", func() bool { return code() == 1 })
	before = acts()
	if err := syscall.Kill(-command, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	trial.Until(t, "the command to be refused", func() bool { return strings.Contains(read("acts"), "refused") })
	if n := acts() - before; n > 1 { // one look may have passed before the freeze
		t.Errorf("%d looks passed after the freeze", n)
	}
	p.Process.Kill()
	syscall.Kill(watchdog, syscall.SIGCONT)
}
