package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// quick makes leases short enough for tests, and long enough for slow machines.
func quick(t *testing.T) {
	t.Setenv("ROTA_LEASE", "3s")
	t.Setenv("ROTA_HEARTBEAT", "1s")
}

// status reads the group of a folder.
func status(t *testing.T, dir string) (st rota.Status) {
	t.Helper()
	code, stdout, _ := rotaRuns(t.Context(), "status", "-o", "json", "--dir", filepath.Join(dir, connect.DefaultDir), "--group", "demo")
	if code != 0 {
		return st
	}
	return parseStatus(t, stdout)
}

func parseStatus(t *testing.T, text string) (st rota.Status) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// spread tells who runs how many partitions, of members that live.
func spread(st rota.Status) map[string]int {
	out := map[string]int{}
	for _, m := range st.Members {
		if m.State == rota.MemberLive {
			out[m.Name] = 0
		}
	}
	for _, p := range st.Partitions {
		waits := slices.ContainsFunc(st.Waits, func(w rota.Wait) bool { return w.Partition == p.Name })
		if _, ok := out[p.Member]; ok && p.State == rota.PartitionOwned && !waits {
			out[p.Member]++
		}
	}
	return out
}

func pidOf(t *testing.T, p *trial.Process, name string) int {
	m := regexp.MustCompile(`\s`+name+` joined \(session [0-9a-f]+, pid (\d+)\)`).FindAllStringSubmatch(p.Out.String(), -1)
	if m == nil {
		t.Fatalf("%s has not joined", name)
	}
	pid, _ := strconv.Atoi(m[len(m)-1][1])
	return pid
}

// The first run: members as processes, one added, one killed, one frozen and
// woken, Ctrl-C; and again.
func TestUpIsAGroupOfProcesses(t *testing.T) {
	quick(t)
	t.Setenv("ROTA_TRACE", "true") // of the members: each message is judged at the end
	dir := t.TempDir()
	up := trial.Start(t, dir, "up", "--partitions", "6", "--rate", "100")
	trial.Until(t, "two each", func() bool {
		return mapIs(spread(status(t, dir)), map[string]int{"c1": 2, "c2": 2, "c3": 2})
	})
	trial.Until(t, "hints", func() bool { return strings.Contains(up.Out.String(), "Ctrl-C lets everybody leave") })
	trial.In(t, up.Out.String(), "rota up: group demo, 3 members, 6 partitions, 100 messages/s", "c1 joined", "try, in another terminal",
		" run --quiet --handle none --name c4\n", "kill -9 "+strconv.Itoa(pidOf(t, up, "c3")), "kill -STOP "+strconv.Itoa(pidOf(t, up, "c2")))

	added := trial.Start(t, dir, "run", "--handle", "none", "--name", "c4", "--events", "c4.jsonl")
	trial.Until(t, "the fourth", func() bool { s := spread(status(t, dir)); return len(s) == 4 && s["c4"] > 0 })

	syscall.Kill(pidOf(t, up, "c2"), syscall.SIGKILL)
	trial.Until(t, "two each of three", func() bool {
		return mapIs(spread(status(t, dir)), map[string]int{"c1": 2, "c3": 2, "c4": 2})
	})
	trial.In(t, up.Out.String(), "c2 (pid ", "is gone: ended by signal 9 (killed)")

	frozen := pidOf(t, up, "c3")
	syscall.Kill(frozen, syscall.SIGSTOP)
	trial.Until(t, "the frozen one's partitions moved", func() bool {
		return mapIs(spread(status(t, dir)), map[string]int{"c1": 3, "c4": 3})
	})
	syscall.Kill(frozen, syscall.SIGCONT)
	trial.Until(t, "the frozen one's return", func() bool { return spread(status(t, dir))["c3"] == 2 })
	trial.In(t, up.Out.String(), "c3 pauses: it has no lease", "c3 is fenced", "c3 joined")

	added.Process.Signal(syscall.SIGINT)
	if code := added.Code(); code != 0 {
		t.Errorf("the added member: exit %d", code)
	}
	trial.Until(t, "the added one is gone", func() bool { return len(spread(status(t, dir))) == 2 })
	up.Process.Signal(syscall.SIGINT)
	if code := up.Code(); code != 0 {
		t.Errorf("rota up: exit %d", code)
	}
	trial.In(t, up.Out.String(), "everybody leaves", "c1 (pid ", "exit 0, left in good order", "all are gone")
	if trial.Alive(frozen) {
		t.Error("a member outlives rota up")
	}
	if code, stdout, stderr := rotaRuns(t.Context(), "check", filepath.Join(dir, connect.DefaultDir, "events.jsonl"), filepath.Join(dir, "c4.jsonl")); code != 0 || !strings.Contains(stdout, "all well") || !strings.Contains(stdout, "messages handled") {
		t.Errorf("rota check: %s%s", stdout, stderr)
		if keep := os.Getenv("ROTA_KEEP"); keep != "" { // the history, for whoever looks into it
			os.CopyFS(filepath.Join(keep, strconv.Itoa(os.Getpid())), os.DirFS(dir))
		}
	}

	again := trial.Start(t, dir, "up", "--partitions", "6", "--members", "2")
	trial.Until(t, "the second run", func() bool {
		return mapIs(spread(status(t, dir)), map[string]int{"c1": 3, "c2": 3})
	})
	again.Process.Signal(syscall.SIGTERM)
	if code := again.Code(); code != 0 {
		t.Errorf("the second rota up: exit %d", code)
	}
}

func mapIs(got, want map[string]int) bool {
	if len(got) != len(want) {
		return false
	}
	for k, v := range want {
		if n, ok := got[k]; !ok || n != v {
			return false
		}
	}
	return true
}

func TestNoMemberOutlivesAKilledUp(t *testing.T) {
	quick(t)
	dir := t.TempDir()
	up := trial.Start(t, dir, "up", "--partitions", "2", "--members", "2")
	trial.Until(t, "the group", func() bool {
		return mapIs(spread(status(t, dir)), map[string]int{"c1": 1, "c2": 1})
	})
	pids := []int{pidOf(t, up, "c1"), pidOf(t, up, "c2")}
	syscall.Kill(pids[1], syscall.SIGSTOP) // frozen ones too
	up.Process.Kill()
	trial.Until(t, "the end of all members", func() bool { return !slices.ContainsFunc(pids, trial.Alive) })
}

func TestUpSaysWhyItCannot(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(dir, "file")
	other := filepath.Join(dir, "other")
	if os.WriteFile(file, nil, 0o644) != nil || os.Mkdir(other, 0o755) != nil || os.WriteFile(filepath.Join(other, "thesis.txt"), nil, 0o644) != nil {
		t.Fatal("no files")
	}
	served := trial.Start(t, dir, "serve")
	trial.Until(t, "the server", func() bool { return strings.Contains(served.Out.String(), "serving") })
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"up", "--dir", filepath.Join(dir, connect.DefaultDir)}, "rota-data is served by process " + strconv.Itoa(served.Process.Pid) + " already"},
		{[]string{"up", "--dir", filepath.Join(dir, "new"), "--listen", taken.Addr().String()}, "the port is taken: " + taken.Addr().String()},
		{[]string{"up", "--dir", file}, "file is not a folder"},
		{[]string{"up", "--dir", other}, "holds something else (thesis.txt)"},
		{[]string{"up", "--dir", "/proc/rota"}, "the folder /proc/rota"},
	} {
		code, stdout, stderr := rotaRuns(t.Context(), c.args...)
		if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("rota %v: exit %d, %q, %q, want %q", c.args, code, stdout, stderr, c.says)
		}
	}
}
