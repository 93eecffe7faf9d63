package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, id, why, wrong string }{
		{"# of old\n\nf: not: a #1\n\tbecause\n\tof that\n", "f: not: a #1", "because of that", ""},
		{"f: not: a #1\n", "", "", "no reason"},
		{"\tbecause\n", "", "", "without a mutant"},
		{"a\n\tb\na\n\tb\n", "", "", "twice"},
	} {
		name := filepath.Join(t.TempDir(), "list.txt")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := readList(name)
		switch {
		case c.wrong == "" && (err != nil || l[c.id] != c.why):
			t.Errorf("%q: %v, %v", c.text, l, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q: %v, want an error about %q", c.text, err, c.wrong)
		}
	}
	if l, err := readList(filepath.Join(t.TempDir(), "none")); err != nil || len(l) != 0 {
		t.Errorf("no file: %v, %v", l, err)
	}
}

// TestListsCannotRot: entries that fit no mutant, or one that is noticed, are
// wrong, and a survivor must be in a list.
func TestListsCannotRot(t *testing.T) {
	t.Parallel()
	all := []Mutant{{N: 1, ID: "a"}, {N: 2, ID: "b"}, {N: 3, ID: "c"}, {N: 4, ID: "d"}}
	results := map[string]Result{
		"a": {ID: "a", Verdict: Verdict{By: byScenario, What: "x"}},
		"b": {ID: "b"}, "c": {ID: "c"}, "d": {ID: "d"},
	}
	f := figures(all, all, results, list{"b": "same", "gone": "old"}, list{"c": "later", "a": "once"})
	if f.Noticed != 1 || f.Equivalent != 1 || f.Survivors != 2 || f.Share != 1.0/3 || !f.Whole {
		t.Errorf("%+v", f)
	}
	got := strings.Join(f.complaints(true), "\n")
	for _, want := range []string{"no such mutant any more: gone", "noticed all the same: a", "1 survivors are in no list", "33.3 % are noticed"} {
		if !strings.Contains(got, want) {
			t.Errorf("no word of %q in\n%s", want, got)
		}
	}
	if f := figures(all, all[:1], results, list{}, list{}); f.Whole || len(f.complaints(true)) > 0 {
		t.Errorf("one that is noticed: %+v", f)
	}
}

// TestResume: what was noticed of this core counts for ever, what was not only
// for these schedules; a line that was cut off is played again.
func TestResume(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "results.jsonl")
	text := `{"id":"a","core":"1","harness":"old","by":"scenario"}
{"id":"b","core":"1","harness":"old"}
{"id":"c","core":"1","harness":"new"}
{"id":"d","core":"0","harness":"new","by":"scenario"}
{"id":"e","core":"1","har`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &run{core: "1", harness: "new", stderr: io.Discard}
	if err := r.load(name); err != nil {
		t.Fatal(err)
	}
	if len(r.results) != 2 || r.results["a"].By == "" || r.results["c"].ID != "c" {
		t.Errorf("%v", r.results)
	}
	if err := r.keep(Mutant{ID: "e"}, Verdict{By: byRandom}); err != nil {
		t.Fatal(err)
	}
	if err := r.file.Close(); err != nil {
		t.Fatal(err)
	}
	r = &run{core: "1", harness: "new", stderr: io.Discard}
	if err := r.load(name); err != nil || r.results["e"].By != byRandom {
		t.Errorf("%v, %v", r.results, err)
	}
	r.file.Close()
}
