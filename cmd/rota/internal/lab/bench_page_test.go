package lab

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rota-dev/rota/cmd/rota/internal/lab/failover"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/plain"
)

// docs/performance.md tells of every event, of what it was measured on, and of
// whom it is compared with.
func TestPerformancePageIsWhole(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, event := range failover.Events {
		if strings.Count(page, "| "+event+" | ") < 3 { // figures, gaps, comparison
			t.Errorf("it does not tell all about %q: make bench-failover performance", event)
		}
	}
	for _, want := range []string{" cores, ", "Linux ", "go1.", "busy", "franz-go classic", "franz-go KIP-848", "×)", "## What is not measured", "all well"} {
		if !strings.Contains(page, want) {
			t.Errorf("it has no %q: make bench-failover performance", want)
		}
	}
}

const cannedRun = `{"system":"SYSTEM","lease_s":5,"heartbeat_s":2,"partitions":64,"machine":{"cores":2},
	"runs":[{"run":0,"seconds":10,"messages":100,"busy":0.5,"own":0.25,"us_per_message":{"members":30.4,"server":50,"driver":MEDIAN},"broken":[],"samples":[
	{"event":"2nd joins","seconds":MEDIAN,"plans":1,"moved":32,"idle_ms":[15]},
	{"event":"kill","seconds":5.5,"floor_s":5.2,"plans":1,"moved":16,"idle_ms":[5000]}]}]}`

func cannedFigures(system, median string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(strings.NewReplacer("SYSTEM", system, "MEDIAN", median).Replace(cannedRun))}
}

func TestPageComparesAndTellsWhatIsAboveItsBound(t *testing.T) {
	all, err := readBench(fstest.MapFS{
		"a-0.json": cannedFigures("franz-go classic", "1"), "rota-0.json": cannedFigures("rota", "0.2"), "rota-1.json": cannedFigures("rota", "0.4"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].System != "rota" || len(all[0].Runs) != 2 {
		t.Fatalf("%d systems, first %s", len(all), all[0].System)
	}
	text := comparison(all)
	trial.In(t, text, "rota: 64 partitions", "processor per message: members 30 µs, server 50, driver 0\n", "above its bound: 2nd joins, worst: 0.4 s, bound 0.3 s", "above its bound: kill, median excess: 0.3 s, bound 0.1 s",
		"franz-go classic: ", "how many times rota's", "2nd joins", "0.300 s", "1.000 s (3.3×)")
	if strings.Contains(text, "median idle") || strings.Count(text, "above its bound") != 2 {
		t.Errorf("too much is above its bound:\n%s", text)
	}
	var page strings.Builder
	writePerformance(&page, all, nil)
	trial.In(t, page.String(), "# Performance", "| 2nd joins | 1 → 2 | 2 | 0.300 | 0.200 – 0.400 |", "all well", "Not kept:", "- 2nd joins, worst: 0.4 s", "| 2nd joins | 0.300 s | 1.000 s (3.3×) |",
		"median: rota: members 30 µs, server 50, driver 0; franz-go classic: members 30 µs, server 50, driver 1.\n", "## What is not measured")
}

// Runs that others disturbed do not count, a promise that they broke does, and where there are no
// other runs to be had they count all the same.
func TestDisturbedRuns(t *testing.T) {
	r := &benchReport{}
	for i, run := range []struct {
		benchRun
		counts bool
	}{
		{benchRun{Busy: 0.3, Own: 0.25}, true},
		{benchRun{Busy: 0.5, Own: 0.25, Broken: []string{"two owners"}}, false},
		{benchRun{Busy: 0.35, Own: 0.25}, false},
		{benchRun{Busy: 0.9, Own: 0.25}, true},
	} {
		if got := r.counts(run.benchRun, 2); got != run.counts {
			t.Errorf("run %d: %v", i, got)
		}
	}
	r.sum()
	if want := []string{"two owners"}; !slices.Equal(r.Broken, want) {
		t.Errorf("broken promises: %q, want %q", r.Broken, want)
	}
	if got := failoverTable(r); strings.Contains(got, "processor per message") { // these figures do not tell it
		t.Errorf("%s", got)
	}
	if got := failoverTable(r); !strings.Contains(got, "not counted: 2 runs more that others disturbed, who had up to 25 % of the processor") {
		t.Errorf("%s", got)
	}
}

func TestPageSaysWhatIsMissing(t *testing.T) {
	for want, dir := range map[string]fstest.MapFS{
		"no figures there: run make bench-failover": {},
		"rota-0.json: ": {"rota-0.json": {Data: []byte("{")}},
	} {
		if _, err := readBench(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzBenchReport compares figures that anybody may have edited.
func FuzzBenchReport(f *testing.F) {
	canned := strings.NewReplacer("SYSTEM", "rota", "MEDIAN", "0.2").Replace(cannedRun)
	f.Add([]byte(canned), []byte(strings.Replace(canned, `"rota"`, `"x\u001b[2J\nforged"`, 1)))
	f.Add([]byte(strings.ReplaceAll(canned, "0.2", "1e308")), []byte(strings.ReplaceAll(canned, "5", "-1e308")))
	f.Add([]byte(strings.Replace(canned, `"broken":[]`, `"broken":["\u202e\nforged"]`, 1)), []byte(canned+canned))
	f.Add([]byte(strings.Replace(canned, `"idle_ms":[15]`, `"idle_ms":null,"gap_before":{"-1":9},"gap_during":{"99999999":-9}`, 1)), []byte(`{"runs":[{"at":"9999-12-31T23:59:59Z"}]}`))
	f.Add([]byte(`{}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, ours, theirs []byte) {
		all, err := readBench(fstest.MapFS{"rota-0.json": {Data: ours}, "x-0.json": {Data: theirs}})
		if err != nil {
			trial.Tame(t, "a refusal", plain.Lines(err.Error()))
			return
		}
		trial.Tame(t, "the comparison", comparison(all))
		var page strings.Builder
		writePerformance(&page, all, nil)
		trial.Tame(t, "the page", page.String())
	})
}

// The page has a line for each burst of each store, with medians, and what is worst.
func TestPageTellsOfBursts(t *testing.T) {
	bursts, err := readBursts(fstest.MapFS{burstsFile: {Data: []byte(`{"store":"embedded","what":"start","members":500,"took":1.5,"first":0.3,"last":0.9,"plan":1.1,"plans":1}
{"store":"embedded","what":"more","members":1000,"took":2.5,"plans":1,"memory":0.3,"peak":0.4}
{"store":"embedded","what":"start","members":500,"took":1.7,"first":0.3,"last":0.9,"plan":1.1,"plans":2}
{"store":"embedded","what":"start","members":500,"took":1.4,"first":0.3,"last":0.9,"plan":1.1,"plans":1}
`)}})
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	writeBursts(func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }, bursts)
	trial.In(t, page.String(), "| embedded | start | 500 | 3 | 0.30 | 0.90 | 1.10 | 1.50 | 1.70 | 2 |", "| embedded | more | 1000 | 1 |", "embedded 0.30 MB, 0.40 at the peak")
	if _, err := readBursts(fstest.MapFS{burstsFile: {Data: []byte("{")}}); err == nil || !strings.Contains(err.Error(), burstsFile) {
		t.Errorf("a file that is cut short: %v", err)
	}
	if none, err := readBursts(fstest.MapFS{}); none != nil || err != nil {
		t.Errorf("no file: %v, %v", none, err)
	}
}
