package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/clock"
)

// The rules of the watchdog that no real process can be made to break on time,
// each as a story that returns what went wrong; with the rule taken out
// (internal/rule) mutant_linux_test.go wants an error.

// stalled is a leaseholder that is frozen between its answer and the caller.
type stalled struct {
	end, freeze time.Duration
}

func (s stalled) Remaining() time.Duration {
	left := s.end - clock.Boot()
	time.Sleep(s.freeze)
	return left
}

// clockFirst is that whatever happens between clock and answer makes a command end
// early, never late.
func clockFirst() error {
	const margin = 100 * time.Millisecond
	end := clock.Boot() + time.Minute
	got := spanOf(stalled{end, 300 * time.Millisecond}, margin).end
	if most := end - margin; got > most || got < most-time.Second {
		return fmt.Errorf("frozen for 300ms meanwhile, commands must be gone %v after the instant they have to be", got-most)
	}
	return nil
}

// noProcess is no process's id: signals to it go nowhere.
const noProcess = 1 << 30

// staysEnding is that a command whose time is over, or that was killed, does not come to
// life by a lease that was on its way.
func staysEnding() error {
	w := newWatchdog(nil)
	w.cmds[1] = &kept{id: 1, pid: noProcess, until: int64(clock.Boot() + time.Hour)}
	w.obey(packet{wish: wish{Do: "lease", ID: 1, Until: int64(clock.Boot() + 2*time.Hour)}})
	if d := time.Duration(w.cmds[1].until) - clock.Boot(); d < time.Hour+time.Minute {
		return fmt.Errorf("a lease for two hours gives a command %v", d)
	}
	w.obey(packet{wish: wish{Do: "kill", ID: 1}})
	w.obey(packet{wish: wish{Do: "lease", ID: 1, Until: int64(clock.Boot() + 2*time.Hour)}})
	if until := w.cmds[1].until; until != 0 {
		return fmt.Errorf("a lease revives a command that is being ended, for %v", time.Duration(until)-clock.Boot())
	}
	return nil
}

// goneIsGone is that what was sent SIGKILL is not gone yet.
func goneIsGone() error {
	w := newWatchdog(nil)
	w.cmds[1] = &kept{id: 1, pid: noProcess, waited: true}
	left, strays := []int{noProcess + 1}, false
	w.below = func() (map[int][]int, bool) { return map[int][]int{1: left}, strays }
	if w.look(); len(w.out) > 0 {
		return errors.New("told gone while a descendant is there")
	}
	left, strays = nil, true
	if w.look(); len(w.out) > 0 {
		return errors.New("told gone while somebody's orphan is there")
	}
	strays = false
	if w.look(); len(w.out) != 1 || (<-w.out).Is != "gone" {
		return errors.New("not told gone when nothing was left")
	}
	return nil
}

// atTheInstant is that the deadline is an instant, not the next tick after it. With a
// short lease a tick is longer than the time there is to end a command.
func atTheInstant() error {
	now := int64(time.Hour)
	in := func(d time.Duration) *kept { return &kept{until: now + int64(d)} }
	for _, c := range []struct {
		cmds []*kept
		want time.Duration
	}{
		{nil, time.Hour},
		{[]*kept{in(time.Minute)}, watchdogTick},
		{[]*kept{in(time.Minute), in(3 * time.Millisecond), in(5 * time.Millisecond)}, 3 * time.Millisecond},
		{[]*kept{in(-time.Second)}, 0},
		{[]*kept{{until: 0}, in(time.Minute)}, watchdogTick},
	} {
		w := newWatchdog(nil)
		for i, k := range c.cmds {
			w.cmds[i] = k
		}
		if got := w.next(now); got != c.want {
			return fmt.Errorf("with %d commands it waits for %v, want %v", len(c.cmds), got, c.want)
		}
	}
	return nil
}

func TestAFreezeBetweenClockAndLeaseEndsCommandsEarly(t *testing.T) { tell(t, clockFirst()) }
func TestACommandThatIsBeingEndedStaysSo(t *testing.T)              { tell(t, staysEnding()) }
func TestGoneIsToldWhenNothingIsLeft(t *testing.T)                  { tell(t, goneIsGone()) }
func TestCommandsAreEndedAtTheInstant(t *testing.T)                 { tell(t, atTheInstant()) }

func tell(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
