package lab

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/failover"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// small is a run that takes seconds: joining and leaving, with a short lease.
var small = append(strings.Fields("dev bench failover --runs 1 --partitions 8 --lease 2s --heartbeat 500ms --only leave --rota"), os.Args[0])

func TestBenchFailoverMeasuresRealProcesses(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	p := trial.Start(t, dir, append(small, "-o", "json", "--report", "figures")...)
	if code := p.Code(); code != 0 {
		t.Fatalf("exit %d", code)
	}
	var r benchReport
	if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
		t.Fatal(err)
	}
	var events []string
	for _, row := range r.Rows {
		events = append(events, row.Event)
		if row.Runs != 1 || row.Plans != 1 || row.Overlaps != 0 || row.Median <= 0 || row.Moved == 0 || row.IdleMedian <= 0 || row.GapBefore <= 0 {
			t.Errorf("%+v", row)
		}
	}
	if !slices.Equal(events, failover.Events[:3]) || r.System != "rota" || r.Partitions != 8 || len(r.Broken) != 0 || r.Rate <= 0 {
		t.Errorf("%+v", r)
	}
	trial.In(t, p.Err.String(), "rota, run 1 of 1", "2nd joins", "5 join", "leave")

	code, table, _ := rotaRuns(t.Context(), "dev", "bench", "page", filepath.Join(dir, "figures"))
	trial.In(t, table, "rota: 8 partitions", "2nd joins", "5 join", "leave", "idle: ")
	if code != 0 {
		t.Errorf("bench page: exit %d", code)
	}
	nothingIn(t, tmp)
}

// Members meet at another store, and nothing of them stays there.
func TestBenchFailoverOnAnotherStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	url := "embed:" + filepath.Join(dir, "other")
	s := embedded.Store(url) // it serves the folder while the members come and go
	defer s.Close()
	rev, err := s.Put(t.Context(), "mine/kept", []byte("by me"), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	groups, ended := map[string]bool{}, make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for batch, err := range s.Watch(ctx, "") {
				if err != nil {
					break
				}
				for _, e := range batch {
					group, _, _ := strings.Cut(e.Key, "/")
					groups[group] = true
				}
			}
		}
	}()
	p := trial.Start(t, dir, append(small, "-o", "json", "--store", url)...)
	if code := p.Code(); code != 0 {
		t.Fatalf("exit %d", code)
	}
	cancel()
	<-ended
	delete(groups, "mine")
	if len(groups) != 1 {
		t.Fatalf("the members met in %v", groups)
	}
	for group := range groups {
		if rest, err := listGroup(t.Context(), s, group); err != nil || len(rest) > 0 {
			t.Errorf("%s: %v is still there, %v", group, rest, err)
		}
	}
	if e, err := s.Get(t.Context(), "mine/kept"); err != nil || e.Rev != rev {
		t.Errorf("another group: %v, %v", e, err)
	}
}

func nothingIn(t *testing.T, tmp string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(tmp, "rota-bench-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// However it ends, its processes end and its folder is gone.
func TestBenchFailoverLeavesNothingBehind(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		p := trial.Start(t, t.TempDir(), small...)
		pids := map[int]bool{}
		trial.Until(t, "a member", func() bool {
			files, _ := filepath.Glob(filepath.Join(tmp, "rota-bench-*", "c*.jsonl"))
			for _, file := range files {
				b, _ := os.ReadFile(file)
				if m := regexp.MustCompile(`"event":"joined".*"pid":(\d+)`).FindSubmatch(b); m != nil {
					pid, _ := strconv.Atoi(string(m[1]))
					pids[pid] = true
				}
			}
			return len(pids) > 0
		})
		p.Process.Signal(sig)
		if code := p.Code(); sig == syscall.SIGINT && code != cli.ExitInterrupted {
			t.Errorf("after Ctrl-C: exit %d, want %d", code, cli.ExitInterrupted)
		}
		trial.Until(t, "the end of all", func() bool {
			left, _ := filepath.Glob(filepath.Join(tmp, "rota-bench-*"))
			for pid := range pids {
				if trial.Alive(pid) {
					return false
				}
			}
			return len(left) == 0
		})
	}
}

// A member that dies by itself ends the run, with its last words.
func TestBenchFailoverSaysWhatWentWrong(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("ROTA_TEST_AS", "rota")
	rota := " --rota " + os.Args[0]
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 64, "at least one of the flags in the group [rota member] is required"},
		{"--member /bin/false", 1, "the server "},
		{"--member /bin/echo", 1, `the server said "serve --tether`},
		{"--member ./no-such-program", 1, "no-such-program"},
		{"--lease 1s --heartbeat 900ms" + rota, 1, "member c1 has ended by itself: exit 64"},
		{"--only nothing" + rota, 64, `--only "nothing": want one of 2nd joins, 5 join`},
		{"--store mem:" + rota, 64, "--store mem: is for one process alone"},
		{"--store mysql://h" + rota, 64, `--store "mysql://h": unknown kind of URL`},
		{"--store etcd://h --member /bin/false", 64, "--store is for rota"},
		{"--keep" + rota, 64, "--keep needs --report DIR"},
		{"--report /proc/none" + rota, 64, "--report: "},
		{"--runs 0" + rota, 64, `--runs "0": want a whole number from 1 to 1000`},
	} {
		code, _, stderr := rotaRuns(t.Context(), append(strings.Fields("dev bench failover --runs 1"), strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit %d, %q; want %d and %q", c.args, code, stderr, c.code, c.says)
		}
	}
	nothingIn(t, tmp)
}

// What rota check would complain of, this complains of.
func TestBenchFailoverNoticesTwoOwners(t *testing.T) {
	dir := t.TempDir()
	lines := map[string]string{
		"c1.jsonl": `{"v":2,"event":"grant","boot_ns":1000,"member":"c1","session":"s1","partition":"p","token":"1","lease_ns":9000}`,
		"c2.jsonl": `{"v":2,"event":"grant","boot_ns":BOOT,"member":"c2","session":"s2","partition":"p","token":"2","lease_ns":99000}`,
	}
	for boot, want := range map[string]int{"8000": 1, "9001": 0} {
		var files []string
		for name, text := range lines {
			files = append(files, filepath.Join(dir, name))
			if err := os.WriteFile(files[len(files)-1], []byte(strings.Replace(text, "BOOT", boot, 1)+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f := &failoverFlags{partitions: 1, handler: time.Second}
		wrong, err := f.judge(files)
		if err != nil || len(wrong) != want {
			t.Errorf("granted again at %s: %v, %v; want %d complaints", boot, wrong, err, want)
		}
		r := &benchReport{Runs: []benchRun{{Broken: wrong}}}
		r.sum()
		if code, silent := cli.ExitCode(r.verdict(nil), true); !silent || (code == cli.ExitFailed) != (want > 0) {
			t.Errorf("granted again at %s: %v", boot, r.verdict(nil))
		}
		if strings.Contains(failoverTable(r), "broken promise: ") != (want > 0) {
			t.Errorf("granted again at %s: %s", boot, failoverTable(r))
		}
	}
}
