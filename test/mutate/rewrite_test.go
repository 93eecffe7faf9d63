package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// small has every operator once or more. Each function is called with fixed
// arguments by smallMain and tells in its result what it did.
const small = `package main

var rule struct{ Known on }

type on bool

func (on) Off() (out bool) { return }

type pair struct {
	a, b int
}

func assert(ok bool) {}

func not(a, b int) bool { return a == b }

func guard(v int) string {
	if v > 1 {
		return "more"
	}
	return "less"
}

func both(a, b, c bool) bool { return a && b || c }

func flag() (x, y int) {
	done := false
	for i := 0; i < 3; i++ {
		if done {
			break
		}
		x += i
		done = i == 1
	}
	x, y = y+7, x
	return x, y
}

func pick(k int) (p pair) {
	switch {
	case k > 5:
		p = pair{a: k}
	default:
		p.b++
	}
	return p
}

func least(a, b int) int { return min(a, b) - 1 }

func known(a int) int {
	assert(a > 3)
	if rule.Known.Off() {
		a = 9
	}
	if a > 2 && !rule.Known.Off() {
		note(&a)
	}
	return a
}

func note(a *int) { *a *= 2 }

func (p pair) String() string {
	if p.a > 1 {
		return "some"
	}
	return ""
}
`

const smallMain = `package main

import "fmt"

func main() {
	var all []int
	for n := range len(mxLast) {
		all = append(all, n)
	}
	WatchMutants(all)
	for _, n := range all {
		ChooseMutant(n)
		x, y := flag()
		fmt.Println(n, "not", not(1, 1))
		fmt.Println(n, "guard", guard(1), guard(2))
		fmt.Println(n, "both", both(true, false, true), both(true, false, false), both(true, true, false))
		fmt.Println(n, "flag", x, y)
		p, q := pick(6), pick(5)
		fmt.Println(n, "pick", p.a, p.b, q.a, q.b)
		fmt.Println(n, "least", least(2, 5))
		fmt.Println(n, "known", known(2), known(3))
		if d := Differing(); n == 0 {
			fmt.Println("differing", d)
		}
	}
}
`

// wants says what each mutant of small makes of its own function. The others must
// be as they were: all are in one program.
var wants = map[string]string{
	"not: not: a == b #1": "false",

	"guard: not: v > 1 #1":       "more less",
	"guard: always: v > 1 #1":    "more more",
	"guard: never: v > 1 #1":     "less less",
	"guard: bound: v > 1 #1":     "more more",
	"guard: plus: v > {1} #1":    "less less",
	"guard: minus: v > {1} #1":   "more more",
	"both: not: a #1":            "true false false",
	"both: not: b #1":            "true true false",
	"both: not: c #1":            "false true true",
	"both: drop: a #1":           "true false true",
	"both: drop: b #1":           "true true true",
	"both: drop: a && b #1":      "true false false",
	"both: drop: c #1":           "false false true",
	"both: swap: a && b #1":      "true true true",
	"both: swap: a && b || c #1": "false false false",

	"flag: flip: done := {false} #1": "7 0",
	"flag: plus: i := {0} #1":        "7 1",
	"flag: not: i < 3 #1":            "7 0",
	"flag: never: i < 3 #1":          "7 0",
	"flag: bound: i < 3 #1":          "7 1",
	"flag: plus: i < {3} #1":         "7 1",
	"flag: minus: i < {3} #1":        "7 1",
	"flag: not: done #1":             "7 0",
	"flag: always: done #1":          "7 0",
	"flag: never: done #1":           "7 3",
	"flag: cut: x += i #1":           "7 0",
	"flag: cut: done = i == 1 #1":    "7 3",
	"flag: not: i == 1 #1":           "7 0",
	"flag: plus: i == {1} #1":        "7 3",
	"flag: minus: i == {1} #1":       "7 0",
	"flag: sign: y+7 #1":             "-7 1",
	"flag: plus: y+{7} #1":           "8 1",
	"flag: minus: y+{7} #1":          "6 1",
	"flag: keep: x = y+7 #1":         "1 1",
	"flag: keep: y = x #1":           "7 0",

	"pick: not: k > 5 #1":          "0 1 5 0",
	"pick: always: k > 5 #1":       "6 0 5 0",
	"pick: never: k > 5 #1":        "0 1 0 1",
	"pick: bound: k > 5 #1":        "6 0 5 0",
	"pick: plus: k > {5} #1":       "0 1 0 1",
	"pick: minus: k > {5} #1":      "6 0 5 0",
	"pick: zero: a: k #1":          "0 0 0 1",
	"pick: cut: p = pair{a: k} #1": "0 0 0 1",
	"pick: cut: p.b++ #1":          "6 0 0 0",

	"least: min: min(a, b) #1":         "4",
	"least: sign: min(a, b) - 1 #1":    "3",
	"least: plus: min(a, b) - {1} #1":  "0",
	"least: minus: min(a, b) - {1} #1": "2",

	"known: not: a > 2 #1":                         "4 3",
	"known: bound: a > 2 #1":                       "4 6",
	"known: plus: a > {2} #1":                      "2 3",
	"known: minus: a > {2} #1":                     "4 6",
	"known: always: a > 2 && !rule.Known.Off() #1": "4 6",
	"known: never: a > 2 && !rule.Known.Off() #1":  "2 3",
	"note: cut: *a *= 2 #1":                        "2 3",
	"note: plus: *a *= {2} #1":                     "2 9",
	"note: minus: *a *= {2} #1":                    "2 3",
}

// TestOperators builds small with all its mutants into one program and runs each.
func TestOperators(t *testing.T) {
	t.Parallel()
	exports := map[string]string{} // it imports nothing
	set, err := build("small", map[string][]byte{"small.go": []byte(small)}, exports)
	if err != nil {
		t.Fatal(err)
	}
	names := map[int]string{}
	for _, m := range set.Mutants {
		names[m.N] = m.ID
		if _, ok := wants[m.ID]; !ok {
			t.Errorf("nobody expects %s", m.ID)
		}
	}
	for id := range wants {
		if !slices.Contains(slices.Collect(maps.Values(names)), id) {
			t.Errorf("not found: %s", id)
		}
	}
	if set.Skipped["pair.String"] == "" || set.Skipped["assert"] == "" {
		t.Errorf("skipped are %v, want String and assert among them", set.Skipped)
	}

	intact := map[string]string{}
	changed := map[int]bool{}
	var differing []int
	for _, line := range append(runSmall(t, set.Files), runSmall(t, set.Probing)...) {
		if l, ok := strings.CutPrefix(line, "differing ["); ok {
			for _, w := range strings.Fields(strings.TrimSuffix(l, "]")) {
				n, err := strconv.Atoi(w)
				if err != nil {
					t.Fatal(err)
				}
				differing = append(differing, n)
			}
			continue
		}
		f := strings.SplitN(line, " ", 3)
		n, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n == 0 {
			intact[f[1]] = f[2]
			continue
		}
		want := intact[f[1]]
		fn, _, _ := strings.Cut(names[n], ":")
		if fn == f[1] || fn == "note" && f[1] == "known" {
			want = wants[names[n]]
		}
		changed[n] = changed[n] || f[2] != intact[f[1]]
		if f[2] != want {
			t.Errorf("%s: %s is %s, want %s", names[n], f[1], f[2], want)
		}
	}
	for n := range changed {
		if changed[n] && !slices.Contains(differing, n) {
			t.Errorf("%s makes a difference and the probe did not see it", names[n])
		}
		if !changed[n] && names[n] == "flag: bound: i < 3 #1" && slices.Contains(differing, n) {
			t.Errorf("%s makes no difference and the probe saw one", names[n])
		}
	}
	if intact["both"] != "true false true" || intact["flag"] != "7 1" {
		t.Errorf("with no mutant it is %v", intact)
	}
}

// runSmall builds the rewritten package as a program and returns what it prints.
func runSmall(t *testing.T, source map[string][]byte) []string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":  "module small\n\ngo 1.26.0\n",
		"main.go": smallMain,
	}
	for path, text := range source {
		files[filepath.Base(path)] = string(text)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestIdentitySurvivesMoves: another file name, other lines before it and
// comments change no name.
func TestIdentitySurvivesMoves(t *testing.T) {
	t.Parallel()
	ids := func(name, text string) (out []string) {
		set, err := build("small", map[string][]byte{name: []byte(text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range set.Mutants {
			out = append(out, m.ID)
		}
		return out
	}
	a := ids("small.go", small)
	b := ids("moved.go", strings.ReplaceAll(strings.Replace(small, "var rule", "\n\nvar other int\n\nvar rule", 1), "done := false", "// not yet\n\tdone := false // here"))
	if !slices.Equal(a, b) {
		t.Errorf("%v\nbecame\n%v", a, b)
	}
	if len(a) != len(slices.Compact(slices.Sorted(slices.Values(a)))) {
		t.Error("two mutants have one name")
	}
}

// TestOccurrences: where one text stands twice in a function, the second is told
// apart.
func TestOccurrences(t *testing.T) {
	t.Parallel()
	set, err := build("twice", map[string][]byte{"twice.go": []byte("package twice\n\nfunc f(a bool) bool { return g(a) || g(!a) || g(a) }\n\nfunc g(a bool) bool { return a }\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range set.Mutants {
		if m.Op == "not" && m.Func == "f" {
			got = append(got, m.ID)
		}
	}
	want := []string{"f: not: a #1", "f: not: g(a) #1", "f: not: a #2", "f: not: g(!a) #1", "f: not: a #3", "f: not: g(a) #2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %s", fmt.Sprintf("%q", got))
	}
}
