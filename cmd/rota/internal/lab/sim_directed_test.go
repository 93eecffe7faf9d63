package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/sim"
)

func TestDirectedPlaysEveryFaultOfAScenario(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), "sim --directed s2-leave-alone")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, want := range []string{"schedules of 1 scenario, one fault in each\n", "faults      none ", "kill-after-write", "violations: 0\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	code, stdout, _ = invoke(t.Context(), "sim --directed s2-leave-alone -o json")
	var r sim.DirectedReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
		t.Fatalf("exit %d, %v in %s", code, err, stdout)
	}
	if r.Schedules != r.Total || r.Total < 100 || r.Faults["freeze"] == 0 || r.Violations == nil || r.Missing == nil {
		t.Errorf("%+v", r)
	}
	if code, _, stderr := invoke(t.Context(), "sim --directed s9"); code != cli.ExitUsage || !strings.Contains(stderr, "known are all, ") {
		t.Errorf("an unknown scenario: exit %d, %q", code, stderr)
	}
}

func TestReplayOfAScenarioFile(t *testing.T) {
	const story = `# one member
group partitions=2
join c1
stabilize
----
c1 leads
plan 1 (joined, roster; 2 placed)  c1: q0 q1
c1 starts q0@1 q1@1
`
	file := filepath.Join(t.TempDir(), "story.txt")
	for _, c := range []struct {
		text, says string
		code       int
	}{
		{story, "it goes as it is written\n", 0},
		{strings.Replace(story, "c1 leads", "c2 leads", 1), "missing: c2 leads\n", cli.ExitFailed},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := invoke(t.Context(), "sim --replay "+file)
		if code != c.code || stderr != "" || !strings.HasPrefix(stdout, "scenario story\n") || !strings.Contains(stdout, "   0.006s  c1 leads\n") || !strings.Contains(stdout, c.says) {
			t.Errorf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
		}
	}
	if code, stdout, _ := invoke(t.Context(), "sim --replay s0-01-one-member"); code != 0 || !strings.HasSuffix(stdout, "it goes as it is written\n") {
		t.Errorf("a scenario by its name: exit %d, %s", code, stdout)
	}
}

// TestABatchThatMetTooLittleFails: its silence would mean little.
func TestABatchThatMetTooLittleFails(t *testing.T) {
	f := simFlags{schedules: 20000, members: 4, partitions: 6}
	r := sim.Report{Schedules: 20000, Missing: []string{"held", "aborts"}}
	const want = "too little  a batch like this must meet every situation, and never met: a plan was made without the second of them; a handler outlived its time, and its process ended itself\n"
	if got := f.table(r, false); !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	if strings.Contains(f.table(sim.Report{Schedules: 20000}, false), "too little") {
		t.Error("nothing is missing, and it complains")
	}
}
