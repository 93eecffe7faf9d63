package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Figures are what a run came to.
type Figures struct {
	Commit     string             `json:"commit"`
	Core       string             `json:"core"`
	Whole      bool               `json:"whole"` // every mutant was played
	Mutants    int                `json:"mutants"`
	Played     int                `json:"played"`
	Schedules  [3]int             `json:"schedules"` // scenarios, directed, random
	By         map[string]int     `json:"noticed_by"`
	Noticed    int                `json:"noticed"`
	Equivalent int                `json:"equivalent"`
	Survivors  int                `json:"survivors"`
	Share      float64            `json:"share"` // noticed of those that are not equivalent
	Seconds    map[string]float64 `json:"seconds"`
	Rows       []Row              `json:"functions"`
	Operators  []Row              `json:"operators"`
	Equal      []Survivor         `json:"equivalents"`
	Left       []Survivor         `json:"survived"`
	Wrong      []string           `json:"wrong"` // what is wrong with the lists
}

// A Row is what became of the mutants of one function or operator.
type Row struct {
	File       string         `json:"file,omitempty"`
	Name       string         `json:"name"`
	Mutants    int            `json:"mutants"`
	By         map[string]int `json:"noticed_by"`
	Equivalent int            `json:"equivalent"`
	Survivors  int            `json:"survivors"`
}

// A Survivor is a mutant that nobody noticed.
type Survivor struct {
	ID      string `json:"id"`
	Differs int    `json:"differs"` // schedules in which it made a difference
	Why     string `json:"why,omitempty"`
	Known   bool   `json:"known"`
}

// figures adds up. played are the mutants that were asked for.
func figures(all, played []Mutant, results map[string]Result, equivalent, survivors list) *Figures {
	f := &Figures{Mutants: len(all), By: map[string]int{}, Seconds: map[string]float64{}, Wrong: []string{}, Equal: []Survivor{}, Left: []Survivor{}}
	known := map[string]bool{}
	for _, m := range all {
		known[m.ID] = true
	}
	for name, l := range map[string]list{"equivalent.txt": equivalent, "survivors.txt": survivors} {
		for id := range l {
			if !known[id] {
				f.Wrong = append(f.Wrong, name+": there is no such mutant any more: "+id)
			}
		}
	}
	for id := range survivors {
		if _, both := equivalent[id]; both {
			f.Wrong = append(f.Wrong, "in both lists: "+id)
		}
	}
	rows, ops := map[string]*Row{}, map[string]*Row{}
	row := func(of map[string]*Row, file, name string) *Row {
		if of[name] == nil {
			of[name] = &Row{File: file, Name: name, By: map[string]int{}}
		}
		return of[name]
	}
	for _, m := range played {
		x, ok := results[m.ID]
		if !ok {
			continue
		}
		f.Played++
		for stage, s := range x.Seconds {
			f.Seconds[stage] += s
		}
		both := []*Row{row(rows, m.File, m.Func), row(ops, "", m.Op)}
		for _, r := range both {
			r.Mutants++
		}
		why, same := equivalent[m.ID]
		kept, listed := survivors[m.ID]
		if x.By != "" {
			f.By[x.By]++
			f.Noticed++
			for _, r := range both {
				r.By[x.By]++
			}
			if same || listed {
				f.Wrong = append(f.Wrong, fmt.Sprintf("listed and noticed all the same: %s: %s", m.ID, x.What))
			}
			continue
		}
		if same {
			f.Equivalent++
			f.Equal = append(f.Equal, Survivor{m.ID, x.Differs, why, true})
			for _, r := range both {
				r.Equivalent++
			}
			continue
		}
		f.Survivors++
		f.Left = append(f.Left, Survivor{m.ID, x.Differs, kept, listed})
		for _, r := range both {
			r.Survivors++
		}
	}
	f.Whole = f.Played == len(all)
	if n := f.Played - f.Equivalent; n > 0 {
		f.Share = float64(f.Noticed) / float64(n)
	}
	for _, r := range slices.SortedFunc(maps.Values(rows), func(a, b *Row) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Name, b.Name))
	}) {
		f.Rows = append(f.Rows, *r)
	}
	for _, op := range operators {
		if r := ops[op]; r != nil {
			f.Operators = append(f.Operators, *r)
		}
	}
	for _, l := range [][]Survivor{f.Equal, f.Left} {
		slices.SortFunc(l, func(a, b Survivor) int { return strings.Compare(a.ID, b.ID) })
	}
	slices.Sort(f.Wrong)
	return f
}

// leastShare is how many of the mutants that are not equivalent must be noticed.
const leastShare = 0.97

// complaints is what makes a run fail.
func (f *Figures) complaints(share bool) []string {
	out := slices.Clone(f.Wrong)
	unknown := 0
	for _, s := range f.Left {
		if !s.Known {
			unknown++
		}
	}
	if unknown > 0 {
		out = append(out, fmt.Sprintf("%d survivors are in no list, see those marked NEW", unknown))
	}
	if share && f.Share < leastShare {
		out = append(out, fmt.Sprintf("%.1f %% are noticed, that is less than %.0f %%", 100*f.Share, 100*leastShare))
	}
	return out
}

var stages = []string{byScenario, byDirected, byRandom, byTest, byHang}

func (f *Figures) table(w io.Writer) {
	line := func(name string, r *Row) {
		fmt.Fprintf(w, "  %-28s %6d", name, r.Mutants)
		for _, s := range stages {
			fmt.Fprintf(w, " %8d", r.By[s])
		}
		fmt.Fprintf(w, " %10d %9d\n", r.Equivalent, r.Survivors)
	}
	head := func(name string) {
		fmt.Fprintf(w, "%-30s %6s", name, "all")
		for _, s := range stages {
			fmt.Fprintf(w, " %8s", s)
		}
		fmt.Fprintf(w, " %10s %9s\n", "equivalent", "survivors")
	}
	file := ""
	for i := range f.Rows {
		r := &f.Rows[i]
		if r.File != file {
			file = r.File
			head(file)
		}
		line(r.Name, r)
	}
	head("operators")
	for i := range f.Operators {
		line(f.Operators[i].Name, &f.Operators[i])
	}
	line("all", &Row{Mutants: f.Played, By: f.By, Equivalent: f.Equivalent, Survivors: f.Survivors})
	fmt.Fprintf(w, "\n%d of %d mutants played, %d noticed, %d equivalent, %d survivors: %.2f %% of those that are not equivalent are noticed\n",
		f.Played, f.Mutants, f.Noticed, f.Equivalent, f.Survivors, 100*f.Share)
	fmt.Fprintf(w, "computing: %.0f s in scenarios, %.0f s in directed schedules, %.0f s in random ones\n", f.Seconds[byScenario], f.Seconds[byDirected], f.Seconds[byRandom])
	for _, s := range f.Left {
		known := "NEW  "
		if s.Known {
			known = "known"
		}
		fmt.Fprintf(w, "%s differs in %6d schedules: %s\n", known, s.Differs, s.ID)
	}
}

// page is docs/mutation.md.
func (f *Figures) page(w io.Writer, skipped map[string]string) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("# Mutations\n")
	p("Made by `make mutate`; not edited by hand. [evidence.md](evidence.md) shows that defects")
	p("which somebody thought of are noticed. Here nobody chose: a program changes `internal/core`")
	p("in every place where one of its operators fits, one change at a time, and plays it with")
	p("the scenarios (%d) and with some directed faults; then it asks the core's own tests; then", f.Schedules[0])
	p("it plays directed faults (%d schedules) and random schedules (%d), until one of all these", f.Schedules[1], f.Schedules[2])
	p("fails. Equivalent ones are not played beyond the tests. The core is that of commit %s.\n", f.Commit)
	p("%d mutants, %d noticed, %d equivalent, %d survivors: **%.1f %% of those that are not", f.Mutants, f.Noticed, f.Equivalent, f.Survivors, 100*f.Share)
	p("equivalent are noticed.**\n")
	p("| noticed by | mutants |")
	p("|---|---:|")
	for _, s := range stages {
		p("| %s | %d |", map[string]string{byScenario: "a scenario's transcript", byDirected: "a directed schedule", byRandom: "a random schedule, or marks it no longer reaches", byTest: "a test of the core by hand", byHang: "not coming to an end"}[s], f.By[s])
	}
	p("\n| operator | mutants | equivalent | survivors |")
	p("|---|---:|---:|---:|")
	for _, r := range f.Operators {
		p("| %s | %d | %d | %d |", means[r.Name], r.Mutants, r.Equivalent, r.Survivors)
	}
	p("\n| function | mutants | equivalent | survivors |")
	p("|---|---:|---:|---:|")
	for _, r := range f.Rows {
		p("| %s | %d | %d | %d |", r.Name, r.Mutants, r.Equivalent, r.Survivors)
	}
	p("\n## Survivors\n")
	p("Nobody noticed these. A name is function, operator, source text and occurrence.\n")
	for _, s := range f.Left {
		p("- `%s`: %s", s.ID, cmp.Or(s.Why, "not looked at yet"))
	}
	if len(f.Left) == 0 {
		p("None.")
	}
	p("\n## Equivalent\n")
	p("These change nothing that anybody could notice, each for the reason given.\n")
	for _, s := range f.Equal {
		p("- `%s`: %s", s.ID, s.Why)
	}
	p("\n## Not mutated\n")
	for _, fn := range slices.Sorted(maps.Keys(skipped)) {
		p("- `%s`: %s", fn, skipped[fn])
	}
}
