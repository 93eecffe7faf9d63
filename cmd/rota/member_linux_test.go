package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// yard is an embedded server with a stream, for real members.
type yard struct {
	t   *testing.T
	dir string
}

func newYard(t *testing.T, flags ...string) *yard {
	t.Helper()
	quick(t)
	y := &yard{t, t.TempDir()}
	p := trial.Start(t, y.dir, append([]string{"serve"}, flags...)...)
	trial.Until(t, "the server", func() bool { return strings.Contains(p.Out.String(), "serving") })
	return y
}

func (y *yard) data() string { return filepath.Join(y.dir, connect.DefaultDir) }

// source is a stream of n partitions; whoever comes first makes it.
func (y *yard) source(n int) string {
	return fmt.Sprintf("embed:%s?stream=ORDERS&subject=orders.*&partitions=%d&create=true", y.data(), n)
}

func (y *yard) member(name string, flags ...string) *trial.Process {
	return trial.Start(y.t, y.dir, append([]string{"run", "--group", "g", "--name", name, "--new-group", "--events", name + ".jsonl", "--trace"}, flags...)...)
}

func (y *yard) rota(args ...string) (code int, stdout, stderr string) {
	at := len(args)
	if args[0] == "check" || args[0] == "produce" {
		return rotaRuns(y.t.Context(), args...)
	}
	return rotaRuns(y.t.Context(), slices.Insert(args, at, "--group", "g", "--dir", y.data())...)
}

func (y *yard) must(args ...string) string {
	y.t.Helper()
	code, stdout, stderr := y.rota(args...)
	if code != 0 || stderr != "" {
		y.t.Fatalf("rota %s: exit %d, %q, %q", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// says waits until a command says something.
func (y *yard) says(what string, args ...string) {
	y.t.Helper()
	var last string
	defer func() {
		if y.t.Failed() {
			y.t.Logf("rota %s said %s", strings.Join(args, " "), last)
		}
	}()
	trial.Until(y.t, fmt.Sprintf("rota %s to say %q", strings.Join(args, " "), what), func() bool {
		_, stdout, stderr := y.rota(args...)
		last = stdout + stderr
		return strings.Contains(last, what)
	})
}

func TestB_Agent_CommandsHandleMessagesInOrderAcrossAKill(t *testing.T) {
	y := newYard(t)
	log := filepath.Join(y.dir, "handled")
	// It fails the first try of every message that ends in 3.
	script := `v=$(cat); case $v.$ROTA_ATTEMPT in *3.1) exit 1;; esac; echo $ROTA_GROUP $ROTA_PARTITION $ROTA_TOKEN $ROTA_SESSION $ROTA_MESSAGE_ID $v >> ` + log
	c1 := y.member("c1", "--source", y.source(2), "--handle", "exec:"+script)
	y.says("runs", "status")
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("m%d", i))
		y.must("produce", "--source", y.source(2), "--partition", "orders.0", want[i])
	}
	handled := func() (got [][]string) {
		b, _ := os.ReadFile(log)
		for l := range strings.Lines(string(b)) {
			got = append(got, strings.Fields(l))
		}
		return got
	}
	trial.Until(t, "five messages", func() bool { return len(handled()) >= 5 })
	c2 := y.member("c2", "--source", y.source(2), "--handle", "exec:"+script)
	trial.Until(t, "one each", func() bool { return mapIs(spreadOf(y), map[string]int{"c1": 1, "c2": 1}) })
	procs := map[string]*trial.Process{"c1": c1, "c2": c2}
	owner := ownerOf(y, "orders.0")
	for i := 30; i < 60; i++ {
		want = append(want, fmt.Sprintf("m%d", i))
	}
	y.must(append([]string{"produce", "--source", y.source(2), "--partition", "orders.0"}, want[30:]...)...)
	trial.Until(t, "some of the rest", func() bool { return len(handled()) >= 33 })
	procs[owner].Process.Kill()
	delete(procs, owner)
	trial.Until(t, "all messages", func() bool {
		h := handled()
		return len(h) > 0 && h[len(h)-1][5] == "m59"
	})
	next, tokens := 0, map[string]string{}
	for _, h := range handled() {
		if h[0] != "g" || h[1] != "orders.0" || len(h) != 6 {
			t.Fatalf("handled %q", h)
		}
		tokens[h[2]] = h[3]
		i := slices.Index(want, h[5])
		if i > next || i < 0 {
			t.Errorf("%s comes before %s", h[5], want[next])
		}
		next = max(next, i+1)
	}
	if next != 60 || len(tokens) < 2 {
		t.Errorf("%d of 60 handled, under tokens %v", next, tokens)
	}
	for _, p := range procs {
		p.Process.Signal(syscall.SIGTERM)
		if code := p.Code(); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
	y.must("check", filepath.Join(y.dir, "c1.jsonl"), filepath.Join(y.dir, "c2.jsonl"))
}

func TestB_Agent_ServersGetMessagesWithHeaders(t *testing.T) {
	y := newYard(t)
	var mu sync.Mutex
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		h := r.Header
		if h.Get("Rota-Token") == "" || h.Get("Rota-Session") == "" || h.Get("Rota-Message-Id") == "" {
			t.Errorf("headers: %v", h)
		}
		got = append(got, strings.Join([]string{r.Method, h.Get("Rota-Group"), h.Get("Rota-Partition"), h.Get("Rota-Attempt"), string(b)}, " "))
		if len(got) == 1 {
			http.Error(w, "not yet", http.StatusInternalServerError)
		}
	}))
	defer srv.Close()
	p := y.member("c1", "--source", y.source(1), "--handle", srv.URL+"/x?token=hunter2")
	y.says("runs", "status")
	y.must("produce", "--source", y.source(1), "--partition", "orders.0", "hello")
	trial.Until(t, "both tries", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 2 })
	if want := []string{"POST g orders.0 1 hello", "POST g orders.0 2 hello"}; !slices.Equal(got, want) {
		t.Errorf("posted %q", got)
	}
	p.Process.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("exit %d", code)
	}
	events, _ := os.ReadFile(filepath.Join(y.dir, "c1.jsonl"))
	if all := p.Err.String() + string(events); strings.Contains(all, "hunter2") || !strings.Contains(all, "500 Internal Server Error") {
		t.Errorf("told: %s", all)
	}
}

// What operators order is done, and explained.
func TestB_Ops_OrdersAreObeyedAndExplained(t *testing.T) {
	y := newYard(t)
	flags := []string{"--source", "none:?partitions=4", "--own", "exec:sleep 1000"}
	// explain calls c1 silent after a look of more than a heartbeat, and only until it is
	// dead: its lease leaves time for many looks.
	c1 := y.member("c1", append(flags, "--lease", "15s")...)
	y.says("p0 is owned by c1", "explain", "p0")
	y.member("c2", flags...)
	both := func() bool {
		s := spreadOf(y)
		return s["c1"] == 2 && s["c2"] == 2
	}
	trial.Until(t, "two each", both)

	for _, c := range []struct{ order, done, explain, says string }{
		{"pause p1 --why poison", "p1: paused; nobody runs it until rota resume\n", "p1", "p1 is paused by order: nobody runs it until rota resume p1."},
		{"pause p1", "no change: already in effect\n", "p1", "The last order about it: pause p1, by "},
		{"resume p1", "p1: resumed\n", "p1", "It runs, and waits for nothing."},
		{"drain c2", "c2: drained; it gets nothing until rota undrain\n", "p3", "p3 is owned by c1"},
		{"undrain c2", "c2: may have partitions again\n", "p3", "p3 is owned by"},
		{"pin p0 c2", "p0: pinned to c2\n", "p0", "p0 is owned by c2"},
		{"unpin p0", "p0: pinned no more\n", "p0", "The last order about it: unpin p0, by "},
		{"ban p0 c2", "p0: kept away from c2 until rota unban\n", "p0", "p0 is owned by c1"},
		{"ban p0 c2", "no change: already in effect\n", "p0", "It is kept away from c2 by order."},
		{"ban p0 c1", "p0: kept away from c1 until rota unban\n", "p0", "p0 has no owner, because no member may take it: look at drains, bans and limits."},
		{"unban p0 c2", "p0: may be run by c2 again\n", "p0", "p0 is owned by c2"},
		{"unban p0", "p0: may be run by anybody again\n", "p0", "p0 is owned by"},
		{"pin p0 c2", "p0: pinned to c2\n", "p0", "p0 is owned by c2"},
		{"freeze", "frozen: nothing moves that need not, until rota thaw\n", "p0", "The group is frozen by order"},
		{"freeze", "no change: already in effect\n", "p0", "It is pinned to c2 by order."},
		{"thaw", "thawed: partitions may move again\n", "p0", "It is pinned to c2 by order."},
		{"unpin p0", "p0: pinned no more\n", "p0", "p0 is owned by"},
		{"partitions add p9", "p9: added\n", "p9", "p9 is owned by"},
		{"partitions remove p9", "p9: removed; nobody runs it any more\n", "p9", "p9 was removed: nobody runs it any more."},
		{"partitions set p2 region=eu limit=5", "p2: set region=eu, limit=5\n", "p2", "p2 is owned by"},
	} {
		if got := y.must(strings.Fields(c.order)...); got != c.done {
			t.Errorf("rota %s said %q, want %q", c.order, got, c.done)
		}
		y.says(c.says, "explain", c.explain)
	}
	if got, want := y.must("ban", "p1", "c1", "c2"), "p1: kept away from c1, c2 until rota unban\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	y.says("order: p1 is kept away from c1, c2 (rota unban)", "status")
	y.must("unban", "p1")
	y.says("limit=5 region=eu", "partitions", "list")
	y.must("partitions", "set", "p2", "limit=")
	y.says("region=eu\n", "partitions", "list")

	for _, c := range []struct{ order, says string }{
		{"pause p7", `there is no partition called "p7"; there are p0, p1, p2, p3`},
		{"drain c9", `there is no live member called "c9"; there are `},
		{"pin p0 c9", `there is no live member called "c9"`},
		{"ban p0 c2 c9", `there is no live member called "c9"`},
		{"explain p7", `there is no partition or live member called "p7"`},
		{"partitions remove p7", `there is no partition called "p7"`},
	} {
		if code, stdout, stderr := y.rota(strings.Fields(c.order)...); code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("rota %s: exit %d, %q, %q", c.order, code, stdout, stderr)
		}
	}
	if code, _, stderr := y.rota("partitions", "set", "p0", "x"); code != cli.ExitUsage || !strings.Contains(stderr, `"x": want KEY=VALUE`) {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if code, _, stderr := rotaRuns(t.Context(), "status", "--group", "other", "--dir", y.data()); code != cli.ExitFailed || !strings.Contains(stderr, `there is no group called "other" in `) {
		t.Errorf("another group: exit %d, %q", code, stderr)
	}

	// A kill, told to a stranger.
	lost := ownedBy(y, "c1")
	c1.Process.Kill()
	y.says("Nothing was heard of c1 for ", "explain", lost)
	y.says("because c1 died", "explain", lost)
	st := y.must("status")
	trial.In(t, st, "group g: c2 leads (term 2), plan ", " (c1 died", "store in ", ", class B: one server with a durable log\n",
		"MEMBER", "c2", "leads", "c1", "dead", "PARTITION", "p0", "runs", "c2", "p3")
}

func spreadOf(y *yard) map[string]int {
	code, stdout, _ := y.rota("status", "-o", "json")
	if code != 0 {
		return nil
	}
	return spread(parseStatus(y.t, stdout))
}

func ownerOf(y *yard, partition string) string {
	for _, p := range parseStatus(y.t, y.must("status", "-o", "json")).Partitions {
		if p.Name == partition {
			return p.Member
		}
	}
	return ""
}

func ownedBy(y *yard, name string) string {
	for _, p := range parseStatus(y.t, y.must("status", "-o", "json")).Partitions {
		if p.Member == name {
			return p.Name
		}
	}
	y.t.Fatalf("%s owns nothing", name)
	return ""
}

func TestStatusWatchesUntilItIsEnded(t *testing.T) {
	y := newYard(t)
	y.member("c1", "--source", "none:?partitions=2", "--own", "exec:sleep 1000")
	y.says("runs", "status")
	ctx, cancel := context.WithCancel(t.Context())
	var out trial.Buffer
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"status", "--watch", "--every", "10ms", "--group", "g", "--dir", y.data()}, &out, io.Discard)
	}()
	trial.Until(t, "three looks", func() bool { return strings.Count(out.String(), "group g: c1 leads") >= 3 })
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestRunExitsByHowItEnded(t *testing.T) {
	y := newYard(t)
	// Orphaned: its store goes away for good.
	dir := t.TempDir()
	server := trial.Start(t, dir, "serve")
	trial.Until(t, "the server", func() bool { return strings.Contains(server.Out.String(), "serving") })
	orphan := trial.Start(t, dir, "run", "--group", "g", "--source", "none:?partitions=1", "--own", "exec:sleep 1000", "--orphan", "0s")
	trial.Until(t, "the member", func() bool { return strings.Contains(orphan.Err.String(), "joined") })
	server.Process.Kill()
	// Fenced: frozen for longer than its lease, with another there to say so.
	flags := []string{"--source", "none:?partitions=2", "--own", "exec:sleep 1000"}
	y.member("c1", flags...)
	c2 := y.member("c2", flags...)
	trial.Until(t, "one each", func() bool { return mapIs(spreadOf(y), map[string]int{"c1": 1, "c2": 1}) })
	c2.Process.Signal(syscall.SIGSTOP)
	trial.Until(t, "its end", func() bool { return mapIs(spreadOf(y), map[string]int{"c1": 2}) })
	c2.Process.Signal(syscall.SIGCONT)
	if code := c2.Code(); code != cli.ExitFenced || !strings.HasSuffix(c2.Err.String(), "rota: fenced: the group has ended this session\n") {
		t.Errorf("fenced: exit %d, %q", code, c2.Err.String())
	}
	if code := orphan.Code(); code != cli.ExitOrphaned || !strings.Contains(orphan.Err.String(), "rota: orphaned: ") {
		t.Errorf("orphaned: exit %d, %q", code, orphan.Err.String())
	}
}

// A start gate lets processes be ready and join in one instant.
func TestStartGate(t *testing.T) {
	y := newYard(t)
	gate := filepath.Join(y.dir, "gate")
	p := y.member("c1", "--source", "none:?partitions=1", "--own", "exec:sleep 1000", "--start-gate", gate)
	if code, _, stderr := y.rota("status"); code != cli.ExitFailed || !strings.Contains(stderr, "there is no group") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	y.says("runs", "status")
	p.Process.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
