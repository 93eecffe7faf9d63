package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// shows waits until rota status ends with a code, and says all of want then.
func (y *yard) shows(code int, want ...string) {
	y.t.Helper()
	var stdout string
	trial.Until(y.t, "rota status to say "+strings.Join(want, ", "), func() bool {
		var got int
		got, stdout, _ = y.rota("status")
		for _, w := range want {
			if !strings.Contains(stdout, w) {
				return false
			}
		}
		return got == code
	})
	if code != 0 && (strings.Contains(stdout, "at rest") || strings.Contains(stdout, " runs ")) {
		y.t.Errorf("exit %d, and yet all is well:\n%s", code, stdout)
	}
}

// A group is followed through its life by rota status alone: what it says, and its exit
// code, tell a group that is well from one without members, with a dead one, or with
// members that may do nothing.
func TestStatusIsTrueOfAGroupThatIsNotWell(t *testing.T) {
	y := newYard(t)
	c1 := y.member("c1", "--source", y.source(2), "--handle", "none")
	y.shows(0, "c1 leads", "at rest", " runs ")

	c1.Process.Signal(syscall.SIGTERM)
	c1.Code()
	y.shows(cli.ExitUndone, "nobody leads: the last member, c1, left", "nothing runs", "problem: c1: no member is left", "nobody, owner left")

	c2 := y.member("c2", "--source", y.source(2), "--handle", "none")
	y.shows(0, "c2 leads", "at rest", " runs ")
	c2.Process.Kill()
	y.shows(cli.ExitUndone, "nobody is heard: c2 led", "problem: c2: it sends no heartbeats", "silent, ", "owner silent")
	code, stdout, _ := y.rota("status", "-o", "json")
	if st := parseStatus(t, stdout); code != cli.ExitUndone || len(st.Problems) != 1 || st.Problems[0].Code != "silent" || st.Problems[0].Member != "c2" {
		t.Errorf("-o json: exit %d, problems %v", code, st.Problems)
	}
	if _, stdout, _ := y.rota("explain", "orders.0"); strings.Contains(stdout, "It runs") || !strings.Contains(stdout, "Nothing was heard of c2") || !strings.Contains(stdout, "nobody takes it over") {
		t.Errorf("explain says %s", stdout)
	}

	y.member("c3", "--source", y.source(2), "--handle", "none")
	y.shows(0, "c3 leads", "at rest", " runs ")
	y.must("drain", "c3")
	y.shows(cli.ExitUndone, "needs attention", "problem: orders.0, orders.1: no member may take it: every member is drained")
	y.must("undrain", "c3")
	y.shows(0, "c3 leads", "at rest")
}

// A member that waits for leases of before says so as soon as it waits, and so does
// rota status, which calls it no problem.
func TestAHoldIsSaidWhenItBegins(t *testing.T) {
	y := newYard(t)
	c1 := trial.Start(t, y.dir, "run", "--group", "g", "--name", "c1", "--source", y.source(1), "--handle", "none", "--lease", "10s")
	trial.Until(t, "the hold", func() bool { return strings.Contains(c1.Err.String(), "nothing is granted for another 10.") })
	if strings.Contains(c1.Err.String(), "runs orders.0") {
		t.Error("it said so when it was over")
	}
	y.shows(0, "hold: a new group, in a store that may have been emptied: nothing is granted for another ")
	y.shows(0, " runs ")
	if _, stdout, _ := y.rota("status"); strings.Contains(stdout, "hold") {
		t.Errorf("it is over, and status says\n%s", stdout)
	}
}
