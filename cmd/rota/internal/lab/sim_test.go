package lab

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/sim"
)

func TestWrongFlagsAreNamedWithWhatIsAllowed(t *testing.T) {
	known := strings.Join(sim.FaultNames(), ", ")
	for _, c := range []struct{ args, says string }{
		{"sim --members 0", `--members "0": want a whole number from 1 to 64; see rota sim --help`},
		{"sim --members 65", `--members "65": want a whole number from 1 to 64; see rota sim --help`},
		{"sim --members many", `--members "many": want a whole number from 1 to 64; see rota sim --help`},
		{"sim --partitions 0", `--partitions "0": want a whole number from 1 to 1024; see rota sim --help`},
		{"sim --partitions 1025", `--partitions "1025": want a whole number from 1 to 1024; see rota sim --help`},
		{"sim --schedules 0", `--schedules "0": want a whole number, at least 1; see rota sim --help`},
		{"sim --schedules=-5", `--schedules "-5": want a whole number, at least 1; see rota sim --help`},
		{"sim --cores -1", `--cores "-1": want a whole number from 0 to 1024; see rota sim --help`},
		{"sim --seed x", `--seed "x": want a whole number from 0 to 18446744073709551615; see rota sim --help`},
		{"sim --replay x", `--replay "x": want a seed, a scenario file or the name of a scenario: no such file or directory`},
		{"sim --replay s0-01-one-member --members 3", `--members "3": not together with a scenario file, which says so itself`},
		{"sim --directed s0-01 --seed 3", `--seed "3": not together with --directed, which leaves nothing to chance`},
		{"sim --mutants --faults crash", `--faults "crash": not together with --mutants, which plays what it needs`},
		{"sim -o xml", `--output "xml": want table or json; see rota sim --help`},
		{"sim --faults crash,flood", `--faults "crash,flood": no fault is called "flood"; known are ` + known + `; see rota sim --help`},
		{"sim --faults=", `--faults "": no fault is called ""; known are ` + known + `; see rota sim --help`},
		{"sim --faults late,repeat", `--faults "late,repeat": this is noise on messages only; add at least one of ` +
			strings.Join(sim.FaultNames()[:sim.LoseRequest], ", ")},
		{"sim --replay 7 --schedules 3", `--schedules "3": not together with --replay, which prints the transcript of one schedule`},
		{"sim --replay 7 -o json", `--output "json": not together with --replay, which prints the transcript of one schedule`},
		{"sim 7", `unknown command "7" for "rota sim"`},
	} {
		code, stdout, stderr := invoke(t.Context(), c.args)
		if code != cli.ExitUsage || stdout != "" || stderr != "rota: "+c.says+"\n" {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q, want exit %d and %q", c.args, code, stdout, stderr, cli.ExitUsage, c.says)
		}
	}
}

// invoke runs the program as a shell would.
func invoke(ctx context.Context, args string) (code int, stdout, stderr string) {
	return rotaRuns(ctx, strings.Fields(args)...)
}

func TestSimJSONIsTheReportAlone(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), "sim --schedules 100 -o json --seed 9 --members 3 --partitions 5")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	want := []string{
		"cores", "faults", "marks", "members", "min_live_faults", "min_steps", "missing", "partitions", "schedules", "schedules_per_s",
		"schedules_per_s_and_core", "seconds", "seed", "steps", "steps_per_s", "violations",
	}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
	for key, want := range map[string]any{"schedules": 100.0, "seed": 9.0, "members": 3.0, "partitions": 5.0, "violations": []any{}} {
		if !reflect.DeepEqual(got[key], want) {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	for _, key := range []string{"steps", "min_steps", "steps_per_s", "schedules_per_s", "cores", "seconds"} {
		if n, _ := got[key].(float64); n <= 0 {
			t.Errorf("%s is %v", key, got[key])
		}
	}
	if faults, _ := got["faults"].(map[string]any); len(faults) < 10 {
		t.Errorf("faults: %v", got["faults"])
	}
}

func TestSameSeedSameRun(t *testing.T) {
	played := func(seed string) (r sim.Report) {
		_, stdout, _ := invoke(t.Context(), "sim --schedules 300 --cores 2 --members 2 --partitions 3 -o json --seed "+seed)
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		r.Seconds, r.StepsPerS, r.SchedulesPerS, r.SchedulesPerCPU = 0, 0, 0, 0
		return r
	}
	one, two, other := played("5"), played("5"), played("5000")
	if !reflect.DeepEqual(one, two) {
		t.Errorf("seed 5 gave %+v, then %+v", one, two)
	}
	if one.Steps == other.Steps {
		t.Errorf("seeds 5 and 5000 both took %d steps", one.Steps)
	}
}

func TestReplayIsTheScheduleOfTheBatch(t *testing.T) {
	f := simFlags{members: 3, partitions: 4}
	const from, n = 40, 30
	var steps int64
	for seed := range uint64(n) {
		steps += int64(sim.Replay(f.options(), from+seed, func(string) {}).Steps)
	}
	batch := sim.Batch{Options: f.options(), Seed: from, Schedules: n, Cores: 1}.Play(t.Context())
	if batch.Steps != steps {
		t.Errorf("seeds %d to %d: %d steps in a batch, %d one by one", from, from+n-1, batch.Steps, steps)
	}
}

func TestReplayPrintsATranscript(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), "sim --replay 7 --faults crash,cut")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if code != 0 || stderr != "" || len(lines) < 10 {
		t.Fatalf("exit %d, stderr %q, stdout %q", code, stderr, stdout)
	}
	if want := "schedule 7: 4 members and 6 partitions, faults crash,cut"; lines[0] != want {
		t.Errorf("first line %q, want %q", lines[0], want)
	}
	for _, line := range lines[1 : len(lines)-1] {
		if at, what, ok := strings.Cut(strings.TrimSpace(line), "s  "); !ok || at == "" || what == "" {
			t.Errorf("%q is not a time and an event", line)
		}
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "violations: 0 in ") {
		t.Errorf("verdict %q", last)
	}
	if _, again, _ := invoke(t.Context(), "sim --replay 7 --faults crash,cut"); again != stdout {
		t.Error("a second replay differs")
	}
}

func TestSimTableSpeaksOnStdoutAlone(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), "sim --schedules 50 --cores 1 --faults crash,pause")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	for _, want := range []string{
		"simulated   50 schedules of 4 members and 6 partitions from seed 1 on, faults crash,pause\n",
		" schedules/s, ", " on 1 core\n", "shortest    ", "faults      crash ", " × a silent member was declared dead\n",
		"never met   ", "violations: 0\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestInterruptedSimPrintsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, _ := invoke(ctx, "sim")
	if want := "interrupted after 0 of 20,000 schedules"; code != cli.ExitInterrupted || !strings.HasPrefix(stdout, want) {
		t.Errorf("exit %d, stdout %q, want exit %d and %q", code, stdout, cli.ExitInterrupted, want)
	}
	code, stdout, _ = invoke(ctx, "sim -o json")
	var r sim.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != cli.ExitInterrupted || r.Schedules != 0 {
		t.Errorf("json: exit %d, %v, %d schedules", code, err, r.Schedules)
	}
}

func TestEveryViolationComesWithItsCommand(t *testing.T) {
	f := simFlags{schedules: 20000, members: 3, partitions: 5, faults: faults{[]sim.Fault{sim.Crash, sim.Pause}}}
	r := sim.Report{Schedules: 512, Seed: 1, Violations: []sim.Failure{{Seed: 42, Invariant: "I1", Text: "q0 runs twice\nand more"}}}
	got := f.table(r, false)
	const again = "rota sim --replay 42 --members 3 --partitions 5 --faults crash,pause"
	for _, want := range []string{
		"stopped     after 512 of 20,000 schedules",
		"violations: 1\n  seed 42 breaks I1 (at most one member runs a partition with a valid lease)\n    q0 runs twice\n    " + again + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if code, stdout, stderr := invoke(t.Context(), strings.TrimPrefix(again, "rota ")); !strings.HasPrefix(stdout, "schedule 42: 3 members and 5 partitions, faults crash,pause\n") {
		t.Errorf("%s: exit %d, stdout %q, stderr %q", again, code, stdout, stderr)
	}

	r.Violations = slices.Repeat(r.Violations, 12)
	if got := f.table(r, false); strings.Count(got, again) != 10 || !strings.Contains(got, "  and 2 more, which -o json lists\n") {
		t.Errorf("twelve violations:\n%s", got)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		violations  int
		interrupted bool
		want        error
	}{
		{0, false, nil},
		{0, true, cli.Quietly(cli.ExitInterrupted)},
		{1, false, cli.Quietly(cli.ExitFailed)},
		{1, true, cli.Quietly(cli.ExitFailed)},
	} {
		if got := verdict(c.violations, c.interrupted); got != c.want {
			t.Errorf("%d violations, interrupted %v: %v, want %v", c.violations, c.interrupted, got, c.want)
		}
	}
}

// TestEverythingCountedHasWords fails when the simulator learns a fault or a
// mark that no person has been told about.
func TestEverythingCountedHasWords(t *testing.T) {
	for _, name := range sim.FaultNames() {
		if faultWords[name] == "" {
			t.Errorf("faultWords: no words for %s", name)
		}
	}
	marks := reflect.TypeFor[sim.Marks]()
	for i := range marks.NumField() {
		if key := marks.Field(i).Tag.Get("json"); markWords[key] == "" {
			t.Errorf("markWords: no words for %s", key)
		}
	}
	_, help, _ := invoke(t.Context(), "sim --help")
	for _, name := range sim.FaultNames() {
		if !strings.Contains(help, " "+name+" ") {
			t.Errorf("sim --help does not name %s", name)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct{ args, want, not string }{
		{"__complete sim --faults cra", "crash-leader\n", ""},
		{"__complete sim --faults crash,pau", "crash,pause\n", "crash,crash\n"},
		{"__complete sim -o js", "json\n", ""},
	} {
		_, stdout, _ := invoke(t.Context(), c.args)
		if !strings.Contains(stdout, c.want) || c.not != "" && strings.Contains(stdout, c.not) {
			t.Errorf("%s: %q", c.args, stdout)
		}
	}
}

func TestBarFitsItsTerminal(t *testing.T) {
	b := bar{cols: 100, total: 2000, began: time.Now()}
	if got, want := b.line(), "[....................]   0%  no figures yet  0 s so far"; got != want {
		t.Errorf("at first: %q, want %q", got, want)
	}
	b.progress = progress{schedules: 500, violations: 1, rate: 1234.5}
	if got, want := b.line(), "[#####...............]  25%  1,235 schedules/s  1 violation  1 s left"; got != want {
		t.Errorf("after a quarter: %q, want %q", got, want)
	}
	for cols := 2; cols < 100; cols++ {
		b.cols = cols
		if got := b.line(); len(got) >= cols {
			t.Errorf("%d columns: %q", cols, got)
		}
	}
	if cli.Columns(&strings.Builder{}) != 0 {
		t.Error("a buffer passes for a terminal")
	}
}
