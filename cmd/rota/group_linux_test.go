package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// store is the yard's, for what no command would write.
func (y *yard) store() rota.Store {
	y.t.Helper()
	st, err := connect.OpenStore("folder:" + y.data())
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() { st.Close() })
	return st
}

// judge lets rota check judge the event files of all members.
func (y *yard) judge() {
	y.t.Helper()
	files, err := filepath.Glob(filepath.Join(y.dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		y.t.Fatalf("event files: %v, %v", files, err)
	}
	if code, stdout, stderr := y.rota(append([]string{"check"}, files...)...); code != 0 {
		y.t.Errorf("rota check: exit %d, %q\n%s", code, stderr, stdout)
	}
}

// TestResetWhileMembersRun: every session ends once, nothing is granted before the
// leases are over, and all partitions run again; by the members' own files no
// promise is broken.
func TestResetWhileMembersRun(t *testing.T) {
	y := newYard(t)
	flags := []string{"--source", "none:?partitions=6", "--own", "exec:sleep 1000", "--rejoin"}
	names := map[string]int{"c1": 2, "c2": 2, "c3": 2}
	for name := range names {
		y.member(name, flags...)
	}
	trial.Until(t, "two each", func() bool { return mapIs(spreadOf(y), names) })
	sessions := func() map[string]string {
		out := map[string]string{}
		for _, m := range parseStatus(t, y.must("status", "-o", "json")).Members {
			if m.State == "LIVE" {
				out[m.Name] = m.Session
			}
		}
		return out
	}
	store := y.store()
	before, old := sessions(), readPlan(t, store)

	code, stdout, stderr := y.rota("group", "reset")
	trial.In(t, stdout, "g/plan", "6 of 6 partitions have an owner", "every session ends once")
	if code != cli.ExitUndone || stderr != "rota: nothing was done; --yes does it\n" || readPlan(t, store).Gen != old.Gen {
		t.Errorf("without leave: exit %d, %q", code, stderr)
	}

	began := time.Now()
	var did struct {
		Done  bool
		Steps []struct{ Key string }
	}
	if err := json.Unmarshal([]byte(y.must("group", "reset", "--yes", "-o", "json", "--why", "a test")), &did); err != nil || !did.Done || len(did.Steps) != 1 {
		t.Errorf("%v: %+v", err, did)
	}
	trial.Until(t, "two each again", func() bool { return !readPlan(t, store).Hold && mapIs(spreadOf(y), names) })
	if took := time.Since(began); took < (core.Timing{Lease: 3 * time.Second}).W() {
		t.Errorf("all ran again after %v, though leases last 3 s", took)
	}
	for name, s := range sessions() {
		if before[name] == s {
			t.Errorf("%s goes on as session %s", name, s)
		}
	}
	if now := readPlan(t, store); now.Incarnation <= old.Incarnation {
		t.Errorf("incarnation %d after %d", now.Incarnation, old.Incarnation)
	}
	e, err := store.Get(t.Context(), "g/orders")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := record.DecodeOrders(e.Value); err != nil || len(o.Log) != 1 || o.Log[0].What != "group reset" || o.Log[0].Why != "a test" || o.Log[0].Who == "" {
		t.Errorf("the log says %+v, %v", o, err)
	}
	y.judge()
}

func readPlan(t *testing.T, store rota.Store) *record.Plan {
	t.Helper()
	e, err := store.Get(t.Context(), "g/plan")
	if err != nil {
		t.Fatal(err)
	}
	p, err := record.DecodePlan(e.Value)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDeclaredDeadFreesAtOnce (rota check has no say in it: by what members wrote, the
// one that was killed may still run): a member with a long lease is killed; its partitions
// would wait for minutes. An operator's word frees them. Nobody who lives, or may,
// can be declared dead.
func TestDeclaredDeadFreesAtOnce(t *testing.T) {
	y := newYard(t)
	flags := []string{"--source", "none:?partitions=4", "--own", "exec:sleep 1000"}
	// The one with the long lease comes first: it takes in those with shorter ones.
	long := y.member("long", append(flags, "--lease", "10m", "--heartbeat", "1s", "--stop-time", "2m")...)
	trial.Until(t, "four", func() bool { return mapIs(spreadOf(y), map[string]int{"long": 4}) })
	y.member("c1", flags...)
	trial.Until(t, "two each", func() bool { return mapIs(spreadOf(y), map[string]int{"long": 2, "c1": 2}) })
	session := ""
	for _, m := range parseStatus(t, y.must("status", "-o", "json")).Members {
		if m.Name == "long" {
			session = m.Session
		}
	}
	store := y.store()
	lives := func(says string, args ...string) {
		t.Helper()
		code, stdout, stderr := y.rota(append([]string{"declare-dead"}, args...)...)
		if code == 0 || code == cli.ExitUndone || !strings.Contains(stderr, says) {
			t.Errorf("declare-dead %v: exit %d, %q\n%s", args, code, stderr, stdout)
		}
		e, err := store.Get(t.Context(), "g/member/"+session)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := record.DecodeMember(e.Value); err != nil || m.State != record.Live {
			t.Errorf("declare-dead %v: the record says %+v, %v", args, m, err)
		}
	}
	lives("long lives: its process runs on this machine (pid "+fmt.Sprint(long.Process.Pid)+")", "long", "--yes")
	lives(`there is no member called "c9"; there are c1, long`, "c9", "--yes")
	lives(`no session "0000000000000001" is called "long"`, "long", "--session", "0000000000000001", "--yes")
	long.Process.Signal(syscall.SIGSTOP)
	lives("long lives: its process runs on this machine", "long", "--yes") // a frozen one acts again when it wakes
	long.Process.Kill()
	<-long.Exited

	code, stdout, stderr := y.rota("declare-dead", "long")
	trial.In(t, stdout, "g/member/"+session, "it did not beat while this command looked", "2 partitions get other owners at once", "only a sink that checks tokens")
	if code != cli.ExitUndone || stderr != "rota: nothing was done; --yes does it\n" {
		t.Errorf("without leave: exit %d, %q", code, stderr)
	}
	if got := spreadOf(y); !mapIs(got, map[string]int{"long": 2, "c1": 2}) {
		t.Errorf("without leave: %v", got)
	}
	began := time.Now()
	y.must("declare-dead", "long", "--yes", "--why", "killed")
	trial.Until(t, "all four at c1", func() bool { return mapIs(spreadOf(y), map[string]int{"c1": 4}) })
	t.Logf("free after %v", time.Since(began))
	trial.In(t, y.must("declare-dead", "long", "--yes"), "has ended already: its record says DEAD")
}

// TestAKeyThatRotaCannotNameIsLeftToOthers: NATS takes more letters than rota.
func TestAKeyThatRotaCannotNameIsLeftToOthers(t *testing.T) {
	y := newYard(t)
	y.member("c1", "--source", "none:?partitions=1", "--own", "exec:sleep 1000")
	y.says("nothing is wrong", "group", "check")
	nc, err := connect.Dial(t.Context(), "embed:"+y.data())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("$KV.rota.g.x=y", []byte("junk"), trial.Patience); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"check", "repair"} {
		if code, stdout, stderr := y.rota("group", verb); code != cli.ExitUndone || stderr != "" || !strings.Contains(stdout, "g/x=y") || !strings.Contains(stdout, "the store's own tools") {
			t.Errorf("%s: exit %d, %q\n%s", verb, code, stderr, stdout)
		}
	}
	h := nats.NewMsg("$KV.rota.g.x=y") // as nats kv del does
	h.Header.Set("KV-Operation", "DEL")
	if _, err := nc.RequestMsg(h, trial.Patience); err != nil {
		t.Fatal(err)
	}
	y.says("nothing is wrong", "group", "check")
}
