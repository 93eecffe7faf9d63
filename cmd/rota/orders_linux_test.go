package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// pair is a yard with two members that run sleeping commands.
func pair(t *testing.T) *yard {
	t.Helper()
	y := newYard(t)
	for _, name := range []string{"c1", "c2"} {
		y.member(name, "--source", "none:?partitions=4", "--own", "exec:sleep 1000")
	}
	trial.Until(t, "two each", func() bool { s := spreadOf(y); return s["c1"] == 2 && s["c2"] == 2 })
	return y
}

// With --wait a command returns when its order is in effect, and not before: nothing
// is waited for after it.
func TestWaitedOrdersAreInEffect(t *testing.T) {
	y := pair(t)
	status := func() rota.Status {
		_, stdout, _ := y.rota("status", "-o", "json")
		return parseStatus(t, stdout)
	}
	find := func(name string) rota.PartitionInfo {
		st := status()
		return st.Partitions[slices.IndexFunc(st.Partitions, func(p rota.PartitionInfo) bool { return p.Name == name })]
	}
	if got := y.must("drain", "c2", "--wait", "--why", "service"); got != "c2: drained; it gets nothing until rota undrain; it is in effect\n" {
		t.Errorf("said %q", got)
	}
	if s := spread(status()); s["c2"] != 0 {
		t.Errorf("c2 has %d", s["c2"])
	}
	trial.In(t, y.must("status"), "order: drained c2 (rota undrain), by ", ": service\n")
	y.must("pause", "p1", "p2", "--wait")
	if p := find("p2"); p.State != rota.PartitionFree || p.Reason != rota.ReasonPaused {
		t.Errorf("paused: %+v", p)
	}
	var done struct {
		Order    string
		Ver      uint64
		Changed  bool
		InEffect *bool `json:"in_effect"`
	}
	if err := json.Unmarshal([]byte(y.must("resume", "p1", "p2", "--wait", "-o", "json")), &done); err != nil || done.Order != "resume p1 p2" || done.Ver != 3 || !done.Changed || done.InEffect == nil || !*done.InEffect {
		t.Errorf("%v, %+v", err, done)
	}
	if p := find("p2"); p.Member != "c1" {
		t.Errorf("resumed: %+v", p)
	}
	y.must("undrain", "c2", "--wait")
	y.must("pin", "p0", "c2", "--wait")
	if p := find("p0"); p.Member != "c2" || p.State != rota.PartitionOwned {
		t.Errorf("pinned: %+v", p)
	}
	y.must("unpin", "p0", "--wait")
	y.must("ban", "p0", "c2", "--wait")
	if p := find("p0"); p.Member == "c2" {
		t.Errorf("banned: %+v", p)
	}
	y.must("partitions", "add", "p9", "--wait")
	if p := find("p9"); p.State != rota.PartitionOwned {
		t.Errorf("added: %+v", p)
	}
	y.must("partitions", "remove", "p9", "--wait")
	if p := find("p9"); p.State != rota.PartitionFree || p.Reason != rota.ReasonRemoved {
		t.Errorf("removed: %+v", p)
	}
	y.must("partitions", "set", "p3", "region=eu", "--wait")
	if got := y.must("freeze", "--wait"); got != "frozen: nothing moves that need not, until rota thaw; it is in effect\n" {
		t.Errorf("said %q", got)
	}
	if st := status(); st.Orders.Obeyed != st.Orders.Ver || !st.Orders.Log[len(st.Orders.Log)-1].Planned {
		t.Errorf("waited for, and the plan obeys version %d of %d", st.Orders.Obeyed, st.Orders.Ver)
	}
	trial.In(t, y.must("orders"), "frozen, nothing moves that need not (rota thaw), by ", "p0 is kept away from c2 (rota unban), by ", "TIME", "STATE", "planned", "drain c2", "service", "planned", "freeze")
	trial.In(t, y.must("history"), "PLAN", "MOVES", "MEMBERS", "BECAUSE", "an operator ordered it")
	if got := y.must("history", "--last", "1"); strings.Count(got, "\n") != 2 {
		t.Errorf("the last plan: %q", got)
	}
	code, groups, stderr := rotaRuns(t.Context(), "groups", "--dir", y.data())
	if fields := strings.Fields(strings.TrimPrefix(groups, strings.SplitAfter(groups, "\n")[0])); code != 0 || len(fields) < 6 || fields[0] != "g" || fields[2] != "2" || fields[3] != "4" {
		t.Errorf("groups: exit %d, %q, %q", code, groups, stderr)
	}
}

// An order that does not take effect is told with its cause, and stands.
func TestOrdersThatDoNotTakeEffectSayWhy(t *testing.T) {
	y := pair(t)
	y.must("drain", "c2", "--wait")
	code, stdout, stderr := y.rota("pin", "p0", "c2", "--wait", "--wait-time", "1s")
	if code != cli.ExitFailed || stdout != "p0: pinned to c2; but c2 is drained, so the pin is ignored until rota undrain\n" ||
		stderr != "rota: not in effect after 1s: p0 stays where it is, since c2 is drained; the order stands\n" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	y.says("It is pinned to c2 by order. c2 is drained, so the pin is ignored.", "explain", "p0")
	p := trial.Start(t, y.dir, "pin", "p1", "c2", "--wait", "--group", "g", "--dir", connect.DefaultDir)
	trial.Until(t, "the order", func() bool { return strings.Contains(y.must("orders"), "pin p1 c2") })
	p.Process.Signal(syscall.SIGINT)
	if code := p.Code(); code != cli.ExitInterrupted || !strings.HasPrefix(p.Err.String(), "rota: interrupted: the order stands, and is not in effect yet: ") {
		t.Errorf("Ctrl-C: exit %d, %q", code, p.Err.String())
	}
	y.must("unpin", "p1")
	for _, c := range []struct {
		order string
		says  string
	}{
		{"ban p0 c2", "p0 is pinned to c2 by order: rota unpin p0 first\n"},
		{"unpin p7", `there is no partition called "p7"; there are p0, p1, p2, p3` + "\n"},
		{"resume p7", `there is no partition called "p7"`},
		{"unban p7", `there is no partition called "p7"`},
		{"unban p1 c7", "p1 is not kept away from c7, and there is no live member of that name\n"},
		{"undrain c7", `there is no member called "c7"; there are c`},
	} {
		if code, stdout, stderr := y.rota(strings.Fields(c.order)...); code == 0 || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("rota %s: exit %d, %q, %q", c.order, code, stdout, stderr)
		}
	}
	if got := y.must("unpin", "p1"); got != "no change: already in effect\n" {
		t.Errorf("said %q", got)
	}
	y.must("unpin", "p0")
	y.must("ban", "p0", "c2")
	if code, _, stderr := y.rota("pin", "p0", "c2"); code != cli.ExitUsage || !strings.HasSuffix(stderr, "p0 is kept away from c2 by order: rota unban p0 c2 first\n") {
		t.Errorf("a pin against a ban: exit %d, %q", code, stderr)
	}
	if got := y.must("drain", "c1"); got != "c1: drained; it gets nothing until rota undrain; every live member is drained now, so nobody runs anything\n" {
		t.Errorf("the last one: %q", got)
	}
}
