package lab

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

const tenLines = `t,partition,speed
0,orders.0,120
0,orders.1,80
0,orders.2,60
0,orders.3,40
60,orders.0,180
60,orders.3,90
120,orders.0,90
120,orders.1,30
120,orders.3,20
`

func TestPlanReplaysATrace(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("speeds.csv", []byte(tenLines), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		// By hand: at 0 BFD has 120 and 80 on one member, 60 and 40 on the other. At
		// 60 the first keeps only the 180, the second has 90 and takes 80, and 60
		// opens a third: 140 moved. At 120 all four are 200, and three of them, 110
		// in all, move to where the 90 is. Spread needs a member for each: with three
		// of them 180 and 80 would be together.
		{"--strategies BFD,spread", `replayed    speeds.csv: 4 partitions, 3 steps
capacity    200 per member
fleet       of spread and range: the smallest that is never overloaded

strategy  members, mean  most   E[R]  moves  overloaded  infeasible
BFD                2.00     3  0.625   2.50     0 steps     0 steps
spread             4.00     4  0.000   0.00     0 steps     0 steps
`},
		// Two members have 260 and 150 at 60.
		{"--strategies spread,range --members 2", `replayed    speeds.csv: 4 partitions, 3 steps
capacity    200 per member
fleet       of spread and range: 2 members

strategy  members, mean  most   E[R]  moves  overloaded  infeasible
spread             2.00     2  0.000   0.00      1 step     0 steps
range              2.00     2  0.000   0.00      1 step     0 steps
`},
		{"--strategies spread --members 2 --trigger 260", `replayed    speeds.csv: 4 partitions, 3 steps
capacity    200 per member, overloaded above 260
fleet       of spread and range: 2 members

strategy  members, mean  most   E[R]  moves  overloaded  infeasible
spread             2.00     2  0.000   0.00     0 steps     0 steps
`},
		// Members without a partition are there all the same.
		{"--strategies spread --members 6", `replayed    speeds.csv: 4 partitions, 3 steps
capacity    200 per member
fleet       of spread and range: 6 members

strategy  members, mean  most   E[R]  moves  overloaded  infeasible
spread             6.00     6  0.000   0.00     0 steps     0 steps
`},
	} {
		code, stdout, stderr := invoke(t.Context(), "plan --trace speeds.csv --capacity 200 "+c.args)
		if code != 0 || stderr != "" || stdout != c.want {
			t.Errorf("rota plan %s: exit %d, stderr %q\ngot:\n%s\nwant:\n%s", c.args, code, stderr, stdout, c.want)
		}
	}
	code, stdout, _ := invoke(t.Context(), "plan --trace speeds.csv --capacity 100 --strategies FFD")
	if says := "infeasible  in 2 steps a partition is faster than a whole member: split it, or give members more capacity\n"; code != 0 || !strings.Contains(stdout, says) {
		t.Errorf("a partition faster than a member: exit %d, %s", code, stdout)
	}
}

func TestPlanJSONIsOneLineEach(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("speeds.csv", []byte(tenLines), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := invoke(t.Context(), "plan --trace speeds.csv --capacity 200 -o json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	rows := jsonLines(t, stdout)
	want := []string{"er", "infeasible_steps", "members_max", "members_mean", "moves_mean", "overload_steps", "partitions", "steps", "strategy"}
	for i, strategy := range []string{"pack", "spread", "range"} {
		if keys := slices.Sorted(maps.Keys(rows[i])); rows[i]["strategy"] != strategy || !slices.Equal(keys, want) {
			t.Errorf("row %d: %v, want %s and %v", i, rows[i], strategy, want)
		}
	}
}

func jsonLines(t *testing.T, text string) (rows []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestBenchPlanMeasures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "front")
	const args = "bench plan --seeds 2 --steps 20 --partitions 30 --deltas 5,25 --prices 2 --cores 1 "
	code, stdout, stderr := invoke(t.Context(), args+"-o json --report "+dir)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	rows := jsonLines(t, stdout)
	if len(rows) != 2*13 {
		t.Errorf("%d rows, want 13 for each delta", len(rows))
	}
	for _, row := range rows {
		for _, key := range []string{"algorithm", "delta", "cbs", "er", "moves", "members", "l2_gap", "plan_us"} {
			if _, there := row[key]; !there {
				t.Errorf("no %s in %v", key, row)
			}
		}
	}
	isReport(t, dir, "front.svg")
	if code, stdout, _ = invoke(t.Context(), args+"--algorithms bfd,MWF"); code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, says := range []string{"load walk: 30 partitions, 20 steps, 2 seeds from 1 on\n", "cbs         against the fewest of BFD, MWF in each step\n", "\ndelta 25 ", "\npack 2 ", "\npack against ", "○BFD", "●2"} {
		if !strings.Contains(stdout, says) {
			t.Errorf("no %q in\n%s", says, stdout)
		}
	}
	code, stdout, _ = invoke(t.Context(), args+"--algorithms MWF,BFD --prices 1.4,2 -o markdown")
	for _, says := range []string{"Members / E[R]:\n\n|  | δ = 5 | δ = 25 |\n|---|---|---|\n| BFD | ", "\n| pack 2 | ", "\ncbs:\n", "\n| price | beside | members | E[R] | moves | as asked |\n|---|---|---|---|---|---|\n| 1.4, the default | MWF | "} {
		if code != 0 || !strings.Contains(stdout, says) {
			t.Errorf("exit %d, no %q in\n%s", code, says, stdout)
		}
	}
	if n := strings.Count(stdout, "\n| BFD | "); n != 2 {
		t.Errorf("%d lines of BFD, want one in each of two tables:\n%s", n, stdout)
	}
	if _, stdout, _ = invoke(t.Context(), "bench plan --load day --partitions 50 --steps 200 --seeds 1 --algorithms BFD"); !strings.Contains(stdout, "in trough") {
		t.Errorf("the day has no trough:\n%s", stdout)
	}
}

func TestPlanWritesAReport(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("a<b.csv", []byte(tenLines), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := invoke(t.Context(), "plan --trace a<b.csv --capacity 200 --report out"); code != 0 {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	isReport(t, "out", "members.svg")
}

// isReport looks for a page that needs nothing else, sound XML, and the rows.
func isReport(t *testing.T, dir, picture string) {
	t.Helper()
	for _, name := range []string{"index.html", picture, "rows.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(b)
		switch name {
		case "rows.json":
			var rows []map[string]any
			if err := json.Unmarshal(b, &rows); err != nil || len(rows) == 0 {
				t.Errorf("%s: %d rows, %v", name, len(rows), err)
			}
			continue
		case "index.html":
			for _, out := range []string{"<script", "src=", "href=", "a<b"} {
				if strings.Contains(text, out) {
					t.Errorf("%s: has %s", name, out)
				}
			}
			text = strings.TrimPrefix(strings.NewReplacer(`<meta charset="utf-8">`, "", `<meta name="viewport" content="width=device-width">`, "").Replace(text), "<!doctype html>")
		}
		if !strings.Contains(text, "prefers-color-scheme: dark") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: no dark colours, or no numbers", name)
		}
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

func TestPlanAndBenchEndOnInterrupt(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("speeds.csv", []byte(tenLines), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, stdout, stderr := invoke(ctx, "plan --trace speeds.csv --capacity 200"); code != cli.ExitInterrupted || stdout != "" || stderr != "" {
		t.Errorf("rota plan: exit %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr := invoke(ctx, "bench plan"); code != cli.ExitInterrupted || !strings.HasPrefix(stdout, "interrupted the figures are of the traces that were finished\n") || stderr != "" {
		t.Errorf("rota bench plan: exit %d, %q, %q", code, stdout, stderr)
	}
}

func TestPlanMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"speeds.csv": tenLines, "back.csv": "t,partition,speed\n5,a,1\n4,a,1\n", "empty.csv": "", "file": ""} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"plan", "--trace is missing: name a CSV file with the columns t,partition,speed; see rota plan --help"},
		{"plan --trace speeds.csv", "--capacity is missing: say how much a member can do, in the unit of the speeds"},
		{"plan --trace none.csv --capacity 1", "--trace: open none.csv: no such file or directory"},
		{"plan --trace back.csv --capacity 1", "back.csv:3: t goes back from 5 to 4: sort the lines by t"},
		{"plan --trace empty.csv --capacity 1", "empty.csv: it is empty: want the header t,partition,speed and lines below it"},
		{"plan --trace . --capacity 1 --members 1", ".:1: read .: is a directory"},
		{"plan --trace speeds.csv --capacity 0", `--capacity "0": want a number from 1e-06 to 1e+15; see rota plan --help`},
		{"plan --trace speeds.csv --capacity -5", `--capacity "-5": want a number from 1e-06 to 1e+15; see rota plan --help`},
		{"plan --trace speeds.csv --capacity NaN", `--capacity "NaN": want a number from 1e-06 to 1e+15; see rota plan --help`},
		{"plan --trace speeds.csv --capacity 100 --trigger 80", "--trigger 80: it is below --capacity 100; a member may be filled up to its capacity, so overload cannot begin before"},
		{"plan --trace speeds.csv --capacity 1 --price 0", `--price "0": want a number from 0.001 to 1e+06; see rota plan --help`},
		{"plan --trace speeds.csv --capacity 1 --strategies pack,wat", `--strategies "pack,wat": "wat": want some of pack, spread, range, NF, FF, BF, WF, NFD, FFD, BFD, WFD, MWF, MBF, MWFP, MBFP; see rota plan --help`},
		{"plan --trace speeds.csv --capacity 1 --strategies pack --members 3", "--members 3: only spread and range have a fleet of fixed size; add one of them to --strategies"},
		{"plan --trace /dev/null --capacity 1", "--trace /dev/null: it can be read only once, and finding the fleet of spread and range takes more; say --members, or leave them out of --strategies"},
		{"plan --trace speeds.csv --capacity 1 --report file", "--report: mkdir file: not a directory"},
		{"plan speeds.csv", `unknown command "speeds.csv" for "rota plan"`},
		{"bench nonsense", `unknown command "nonsense"; see rota bench --help`},
		{"bench plan --deltas 5,x", `--deltas "5,x": "x": want a whole number from 0 to 100; see rota bench plan --help`},
		{"bench plan --deltas=", `--deltas "": "": want a whole number from 0 to 100; see rota bench plan --help`},
		{"bench plan --prices 1,0", `--prices "1,0": "0": want a number from 0.001 to 1e+06; see rota bench plan --help`},
		{"bench plan --algorithms BFD,best", `--algorithms "BFD,best": "best": want some of NF, FF, BF, WF, NFD, FFD, BFD, WFD, MWF, MBF, MWFP, MBFP; see rota bench plan --help`},
		{"bench plan --prices none --algorithms none", "--algorithms none and --prices none: there is nothing to measure; name at least one"},
		{"bench plan --load storm", `--load "storm": want walk or day; see rota bench plan --help`},
		{"bench plan --seeds 0", `--seeds "0": want a whole number from 1 to 100000; see rota bench plan --help`},
	} {
		code, stdout, stderr := invoke(t.Context(), c.args)
		if code != cli.ExitUsage || stdout != "" || stderr != "rota: "+c.says+"\n" {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q, want exit %d and %q", c.args, code, stdout, stderr, cli.ExitUsage, c.says)
		}
	}
}

func TestPlanCompletes(t *testing.T) {
	for _, c := range []struct {
		typed []string
		want  string
	}{
		{[]string{"bench", ""}, "plan\t"},
		{[]string{"bench", "plan", "--load", ""}, "day\n"},
		{[]string{"bench", "plan", "--algorithms", "BFD,MW"}, "BFD,MWFP\n"},
		{[]string{"plan", "--strategies", "pack,sp"}, "pack,spread\n"},
		{[]string{"plan", "--trace", ""}, "csv\n:8\n"}, // files that end so
		{[]string{"plan", "--report", ""}, ":16\n"},    // folders
	} {
		code, stdout, _ := rotaRuns(t.Context(), append([]string{"__complete"}, c.typed...)...)
		if code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("completing %q: exit %d, %q, want %q", c.typed, code, stdout, c.want)
		}
	}
}
