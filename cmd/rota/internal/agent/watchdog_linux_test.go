package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/ops"
	"github.com/rota-dev/rota/cmd/rota/internal/proc"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/clock"
)

// lasting is a lease that lasts until an instant of CLOCK_BOOTTIME.
type lasting time.Duration

func (l lasting) Remaining() time.Duration { return max(time.Duration(l)-clock.Boot(), 0) }

const forLong = lasting(1 << 62)

// keep starts a watchdog; both ways of holding commands have the same tests.
func keep(t *testing.T, margin time.Duration, args ...string) *keeper {
	t.Helper()
	k, err := startKeeper(margin, os.Environ(), func(err error) { t.Errorf("lost: %v", err) }, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func bothWays(t *testing.T, test func(t *testing.T, args ...string)) {
	t.Run("cgroup", func(t *testing.T) {
		if k := keep(t, time.Millisecond); k.holds != "cgroup" {
			t.Skip("NOT ALLOWED: no cgroup of version 2 may be made here")
		}
		test(t)
	})
	t.Run("process group", func(t *testing.T) { test(t, "--no-cgroup") })
}

// sh is a shell command whose output goes to a file.
func sh(t *testing.T, script string, env ...string) (command, func() string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	read := func() string {
		b, _ := os.ReadFile(f.Name())
		return string(b)
	}
	return command{argv: []string{"/bin/sh", "-c", script}, env: env, out: f, err: f}, read
}

func TestCommandsGetTheirInputAndTellTheirEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, args ...string) {
		k := keep(t, time.Millisecond, args...)
		c, out := sh(t, `cat; echo " $ROTA_PARTITION"; exit 0`, "ROTA_PARTITION=q7")
		c.stdin = []byte("value")
		if err := k.run(t.Context(), forLong, c); err != nil || out() != "value q7\n" {
			t.Errorf("%v, wrote %q", err, out())
		}
		c, _ = sh(t, "exit 3")
		if err := k.run(t.Context(), forLong, c); err == nil || err.Error() != "the command exited with status 3" {
			t.Errorf("exit 3: %v", err)
		}
		c, _ = sh(t, "kill -9 $$")
		if err := k.run(t.Context(), forLong, c); err == nil || err.Error() != "the command was ended by signal 9" {
			t.Errorf("kill -9: %v", err)
		}
		c.argv = []string{"/no/such/command"}
		if err := k.run(t.Context(), forLong, c); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("no such command: %v", err)
		}
	})
}

// What a command leaves behind is gone when its run returns, however it hides.
const hiders = `
sleep 1001 & echo $!
setsid sleep 1002 & echo $!
setsid sh -c 'sleep 1003 & echo $!; exit 0' &
wait $!
`

func TestNothingOfACommandIsLeft(t *testing.T) {
	bothWays(t, func(t *testing.T, args ...string) {
		k := keep(t, time.Millisecond, args...)
		c, out := sh(t, hiders+"exit 0")
		if err := k.run(t.Context(), forLong, c); err != nil {
			t.Error(err)
		}
		left := trial.PIDs(out())
		if len(left) != 3 || slices.ContainsFunc(left, trial.Alive) {
			t.Errorf("left behind, of %v: %v", left, slices.DeleteFunc(slices.Clone(left), func(p int) bool { return !trial.Alive(p) }))
		}
	})
}

func TestCommandsAreGoneBeforeTheLeaseEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, args ...string) {
		k := keep(t, 500*time.Millisecond, args...) // on a busy machine a kill takes a while
		c, out := sh(t, hiders+"sleep 1000")
		end := clock.Boot() + 1500*time.Millisecond
		err := k.run(t.Context(), lasting(end), c)
		if now := clock.Boot(); now >= end {
			t.Errorf("gone %v after the lease end", now-end)
		}
		var exit exitError
		if !errors.As(err, &exit) || !exit.late {
			t.Errorf("run returned %v", err)
		}
		if left := trial.PIDs(out()); len(left) != 3 || slices.ContainsFunc(left, trial.Alive) {
			t.Errorf("left behind: some of %v", left)
		}
	})
}

func TestARenewedLeaseKeepsACommand(t *testing.T) {
	const lease, long = time.Second, 2500 * time.Millisecond // long enough for a machine that is busy elsewhere
	k := keep(t, 100*time.Millisecond)
	began := clock.Boot()
	var by renewed
	by.until = began + lease
	by.more = func() time.Duration { // renewed until more than two leases have passed
		if clock.Boot() < began+long {
			by.until = clock.Boot() + lease
		}
		return by.until
	}
	c, _ := sh(t, "sleep 1000")
	k.run(t.Context(), &by, c)
	if took := clock.Boot() - began; took < long {
		t.Errorf("gone after %v, though renewed for longer", took)
	}
}

type renewed struct {
	until time.Duration
	more  func() time.Duration
}

func (r *renewed) Remaining() time.Duration { return max(r.more()-clock.Boot(), 0) }

func TestCommandsEndWhenAsked(t *testing.T) {
	k := keep(t, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	c, out := sh(t, "trap '' TERM; echo 1; sleep 1000")
	go func() {
		trial.Until(t, "the command", func() bool { return out() != "" })
		cancel()
	}()
	if err := k.run(ctx, forLong, c); err == nil {
		t.Error("cancelled, yet well")
	}
	stop := make(chan struct{})
	c, out = sh(t, "trap 'echo bye; exit 0' TERM; echo 1; while :; do sleep 0.01; done")
	c.stop = stop
	go func() {
		trial.Until(t, "the command", func() bool { return out() != "" })
		close(stop)
	}()
	if err := k.run(t.Context(), forLong, c); err != nil || !strings.HasSuffix(out(), "bye\n") {
		t.Errorf("stopped: %v, wrote %q", err, out())
	}
}

// owners starts a member whose commands say who they are.
func owners(t *testing.T, partitions int, flags ...string) (p *trial.Process, events string, commands func() []int) {
	dir := t.TempDir()
	events = filepath.Join(dir, "events")
	script := "echo $$ >> " + dir + "/$ROTA_PARTITION; " + strings.ReplaceAll(hiders, "echo $!", "echo $! >> "+dir+"/$ROTA_PARTITION") + " sleep 1000"
	p = trial.Start(t, dir, append([]string{"run", "--group", "g", "--store", "mem:", "--source", fmt.Sprintf("none:?partitions=%d", partitions), "--new-group",
		"--own", "exec:" + script, "--events", events, "--trace"}, flags...)...)
	return p, events, func() (all []int) {
		for i := range partitions {
			b, _ := os.ReadFile(fmt.Sprintf("%s/p%d", dir, i))
			all = append(all, trial.PIDs(string(b))...)
		}
		return all
	}
}

func TestB_Agent_CommandsAreGoneBeforeTheLeaseOfAFrozenRota(t *testing.T) {
	for range 5 {
		if freeze(t) {
			return
		}
	}
	t.Fatal("the machine stood still each time")
}

// freeze freezes a rota. It returns false if the machine stood still meanwhile, for as long as
// would explain that the commands ended late.
func freeze(t *testing.T) (shown bool) {
	p, events, commands := owners(t, 2, "--lease", "2s", "--heartbeat", "500ms")
	trial.Until(t, "commands of both partitions", func() bool { return len(commands()) == 8 })
	first := commands()
	stood := trial.Stood(t)
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := int64(clock.Boot())
	trial.Until(t, "the end of all commands", func() bool { return !slices.ContainsFunc(first, trial.Alive) })
	gone, still := int64(clock.Boot()), stood()
	p.Process.Signal(syscall.SIGCONT)
	trial.Until(t, "commands of a new lease", func() bool { return len(commands()) == 16 })
	p.Process.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("exit %d", code)
	}
	lines, err := ops.ReadLines(events)
	if err != nil {
		t.Fatal(err)
	}
	var lease int64 // the last one before the freeze, though it may have been written later
	for _, l := range lines {
		if l.Event == "lease" && l.Boot < stopped {
			lease = l.Lease
		}
	}
	if lease < stopped || gone >= lease {
		if still > 100*time.Millisecond {
			t.Logf("the machine stood still for %v: this shows nothing", still)
			return false
		}
		t.Errorf("frozen at %d, the lease ended at %d, the commands at %d; the machine stood still for %v at most", stopped, lease, gone, still)
	}
	t.Logf("gone %v before the lease end", time.Duration(lease-gone))
	if v := ops.JudgeLines(lines); len(v.Wrong) > 0 || v.Owned == 0 {
		t.Errorf("%s\n%s", v.Summary(1), strings.Join(v.Wrong, "\n"))
	}
	if slices.ContainsFunc(commands(), trial.Alive) {
		t.Error("commands outlive rota")
	}
	return true
}

func TestCommandsEndWithAKilledRota(t *testing.T) {
	p, _, commands := owners(t, 2)
	trial.Until(t, "commands of both partitions", func() bool { return len(commands()) == 8 })
	p.Process.Kill()
	trial.Until(t, "the end of all commands", func() bool { return !slices.ContainsFunc(commands(), trial.Alive) })
}

func TestRotaEndsWithItsWatchdog(t *testing.T) {
	p, _, commands := owners(t, 1)
	trial.Until(t, "the command", func() bool { return len(commands()) == 4 })
	command, _ := proc.Read(commands()[0])
	syscall.Kill(command.Parent, syscall.SIGKILL)
	if code := p.Code(); code != cli.ExitAborted || !strings.Contains(p.Err.String(), "rota: aborted: the watchdog has ended") {
		t.Errorf("exit %d, said %q", code, p.Err.String())
	}
	trial.Until(t, "the end of all commands", func() bool { return !slices.ContainsFunc(commands(), trial.Alive) })
}

// A frozen watchdog ends nothing: then rota does it, and ends.
func TestAFrozenWatchdogDoesNotKeepCommandsAlive(t *testing.T) {
	p, _, commands := owners(t, 1, "--stop-time", "1s")
	trial.Until(t, "the command", func() bool { return len(commands()) == 4 })
	command, _ := proc.Read(commands()[0])
	watchdog := command.Parent
	syscall.Kill(watchdog, syscall.SIGSTOP)
	p.Process.Signal(syscall.SIGTERM)
	if code := p.Code(); code != cli.ExitAborted || !strings.Contains(p.Err.String(), "rota: aborted: ") {
		t.Errorf("exit %d, said %q", code, p.Err.String())
	}
	trial.Until(t, "the end of all commands", func() bool { return !slices.ContainsFunc(append(commands(), watchdog), trial.Alive) })
}

func TestTheWatchdogIsNotForPeople(t *testing.T) {
	p := trial.Start(t, t.TempDir(), "watchdog")
	if code := p.Code(); code != cli.ExitUsage || !strings.Contains(p.Err.String(), "the watchdog is started by rota run, which gives it a socket: ") {
		t.Errorf("exit %d, %q", code, p.Err.String())
	}
}

// A member that waits at a gate leaves, too, when its supervisor is gone.
func TestATetherIsFeltAtTheGate(t *testing.T) {
	p := trial.Start(t, t.TempDir(), strings.Fields("run --group g --store mem: --source none:?partitions=1 --own exec:true --tether --start-gate never")...)
	if code := p.Code(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
