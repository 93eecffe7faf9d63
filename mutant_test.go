//go:build mutants

package rota_test

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

// TestMutantEffectUnchecked shows that a member that relies on timers, and does not
// check its lease before each effect, acts on a partition it does not own any more.
func TestMutantEffectUnchecked(t *testing.T) {
	const story = "check-before-every-effect"
	if err := playWhole(t, story, nil); err != nil {
		t.Fatalf("with every rule in: %v", err)
	}
	undo, _ := rule.Take(rule.CheckBeforeEveryEffect)
	defer undo()
	err := playWhole(t, story, nil)
	if err == nil {
		t.Fatal("nobody noticed")
	}
	t.Log(err)
}

// TestMutantShell takes out each rule that only the shell has; the rule's story must
// then fail.
func TestMutantShell(t *testing.T) {
	stories := map[rule.Rule]func(*testing.T) error{
		rule.RejoinedSessionIsNotFresh: comesBack(false), rule.SleepIsSeen: oversleeps, rule.OneAnswerPerCall: answersLate, rule.LeftMeansReturned: diesEarly,
		rule.ShellAbortsAgain: abortsAll, rule.BusyBeforeAsking: asksBusy, rule.BugExtendsNoLease: outlivesBug,
	}
	for _, r := range rule.All() {
		if r.Entry().Layer != rule.Shell || r.Entry().Must(rule.Scenario) {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			story := stories[r]
			if story == nil {
				t.Fatal("it has no story")
			}
			delete(stories, r)
			if err := inBubble(t, story); err != nil {
				t.Fatalf("with every rule in: %v", err)
			}
			undo, _ := rule.Take(r)
			defer undo()
			err := inBubble(t, story)
			if err == nil {
				t.Fatalf("nobody noticed: %s", r.Entry().Without)
			}
			t.Log(err)
		})
	}
	for r := range stories {
		t.Errorf("%s is no rule of the shell alone", r)
	}
}

// TestMutantClockStopsInSuspend shows that the clock of a lease counts suspend, and
// that one that does not makes two owners.
func TestMutantClockStopsInSuspend(t *testing.T) {
	if runtime.GOOS == "linux" {
		off := func() time.Duration { return (rota.LeaseClock() - uptime(t)).Abs() }
		if d := off(); d > time.Second {
			t.Fatalf("the clock of the lease is %v off the one that counts suspend", d)
		}
		undo, _ := rule.Take(rule.ClockCountsSuspend)
		d := off()
		undo()
		if d < 5*time.Second {
			t.Skipf("this machine has been up for %v only", uptime(t))
		}
	}
	const story = "clock-counts-suspend"
	if err := playWhole(t, story, nil); err != nil {
		t.Fatalf("with a clock that runs on: %v", err)
	}
	err := playWhole(t, story, func(p *proc, slept time.Duration) { p.m.Slept(slept) })
	if err == nil {
		t.Fatal("nobody noticed")
	}
	t.Log(err)
}

// uptime is how long the machine has been up, time asleep included.
func uptime(t *testing.T) time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	s, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(s * float64(time.Second))
}

// playWhole plays a scenario with whole members; woken is called when one wakes
// from a suspend.
func playWhole(t *testing.T, name string, woken func(*proc, time.Duration)) (err error) {
	all, failed := scenario.All()
	if failed != nil {
		t.Fatal(failed)
	}
	err = errors.New("no such scenario")
	for _, s := range all {
		if s.Name != name {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			w := newPlay(t)
			defer w.close()
			err = s.Run(&sleepers{w, woken, map[string]time.Time{}})
		})
	}
	return err
}

// sleepers is a play in which clocks may stand still in suspend.
type sleepers struct {
	*play
	woken func(*proc, time.Duration)
	since map[string]time.Time
}

func (w *sleepers) Do(c scenario.Command) error {
	for _, label := range c.Args {
		switch at, asleep := w.since[label]; {
		case c.Verb == "suspend":
			w.since[label] = time.Now()
		case c.Verb == "wake" && asleep && w.woken != nil:
			for _, p := range w.procs() {
				if p.label == label {
					w.woken(p, time.Since(at))
				}
			}
		}
	}
	return w.play.Do(c)
}
