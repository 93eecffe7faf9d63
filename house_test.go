package rota_test

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The rules of the house. Each guard looks at a file tree and returns what is
// wrong with it, so that TestGuardsBite can show it broken ones.
var guards = map[string]func(fs.FS) []string{
	"arrows":   arrows,
	"thin":     thin,
	"modules":  modules,
	"words":    words,
	"homonyms": homonyms,
	"places":   places,
	"because":  because,
	"comments": comments,
}

func TestHouse(t *testing.T) {
	for name, guard := range guards {
		t.Run(name, func(t *testing.T) {
			for _, complaint := range slices.Sorted(slices.Values(guard(os.DirFS(".")))) {
				t.Error(complaint)
			}
		})
	}
}

// rooms says which of our packages each of our packages may import; tests may
// import what is in the last column too. Folders relative to the root; * is one
// step of a path, ... any number. A package without a row has no place here yet.
var rooms = []arrow{
	{"internal/address", nil, nil},
	{"internal/setback", nil, nil},
	{"internal/certs", nil, nil},
	{"internal/clock", nil, nil},
	{"internal/plain", nil, nil},
	{"internal/line", of(".", "internal/clock", "internal/plain"), nil},
	{"internal/plan", nil, of("internal/plan/plantest")},
	{"internal/plan/plantest", of("internal/plan"), nil},
	{"internal/pack", of("internal/plan"), of("internal/plan/plantest")},
	{"internal/speed", nil, nil},
	{"internal/record", nil, nil},
	{"internal/core", of("internal/record", "internal/plan", "internal/pack", "internal/rule"), of("internal/check", "internal/scenario", "internal/sim")},
	{"internal/check", of("internal/record"), nil},
	{"internal/scenario", of("internal/rule"), nil},
	{"internal/rule", nil, of("internal/scenario")},
	{"internal/servers", nil, nil},
	{"internal/measure", nil, nil},
	{"internal/sim", of("internal/core", "internal/record", "internal/check", "internal/scenario", "internal/rule", "internal/speed"), of("internal/pack", "internal/plan")},
	{"internal/explore", of("internal/core", "internal/record", "internal/rule"), nil},
	{"internal/pace", nil, nil},
	{".", of("internal/clock", "internal/core", "internal/pace", "internal/record", "internal/rule", "internal/speed"), of("rotatest", "internal/check", "internal/scenario", "internal/servers")},
	{"rotatest", of(".", "internal/check", "internal/scenario", "internal/servers"), nil},
	{"dash", of("."), of("rotatest")},
	{"scale", of(".", "internal/address"), of("rotatest")},
	{"drivers/rotanats/internal/folder", nil, nil},
	{"drivers/rotanats/internal/address", of("drivers/rotanats/internal/folder", "internal/address"), nil},
	{"drivers/rotanats", of(".", "drivers/rotanats/internal/*", "internal/address", "internal/setback"), of("rotatest", "internal/measure", "internal/certs", "drivers/rotanats/embedded")},
	{"drivers/rotanats/embedded", of(".", "drivers/rotanats", "drivers/rotanats/internal/*"), of("rotatest")},
	{"drivers/*", of(".", "internal/address", "internal/setback"), of("rotatest", "internal/measure", "internal/certs")},
	{"examples/...", of(".", "dash", "scale", "drivers/*"), of("rotatest")},
	{"cmd/rota", inCmd("cli", "connect", "agent", "demo", "ops", "lab"), of("...")},
	{"cmd/rota/internal/proc", nil, nil},
	{"cmd/rota/internal/cli", of(".", "internal/plain"), inCmd("trial")},
	{"cmd/rota/internal/screen", nil, nil},
	{"cmd/rota/internal/connect", append(inCmd("cli"), ".", "internal/plain", "scale", "drivers/...", "rotatest"), inCmd("trial")},
	{"cmd/rota/internal/agent", append(inCmd("cli", "connect", "proc"), ".", "internal/..."), append(inCmd("ops", "trial"), "drivers/...", "rotatest")},
	{"cmd/rota/internal/ops", append(inCmd("cli", "connect", "proc", "screen"), ".", "internal/..."), append(inCmd("trial"), "drivers/...", "rotatest")},
	{"cmd/rota/internal/demo", append(inCmd("cli", "connect", "ops", "proc", "screen"), ".", "scale", "internal/...", "drivers/..."), append(inCmd("trial"), "rotatest")},
	{"cmd/rota/internal/lab/...", of("..."), nil},
	{"cmd/rota/internal/dev", inCmd("cli", "lab"), nil},
	{"cmd/rota/internal/notices", nil, nil},
	{"cmd/rota/internal/trial", append(inCmd("proc"), ".", "internal/...", "rotatest"), nil},
	{"test/...", of("..."), nil},
}

type arrow struct {
	room       string
	may, tests []string
}

func of(rooms ...string) []string { return rooms }

// inCmd are rooms of the command.
func inCmd(names ...string) (rooms []string) {
	for _, name := range names {
		rooms = append(rooms, path.Join("cmd/rota/internal", name))
	}
	return rooms
}

// arrows reads the import lines of every file, whatever its build tags: a
// listing by the go command would show those of one system only.
func arrows(tree fs.FS) (wrong []string) {
	mods := moduleDirs(tree)
	for file, imports := range imports(tree) {
		dir := path.Dir(file)
		row := slices.IndexFunc(rooms, func(r arrow) bool { return matches(dir, r.room) })
		if row < 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %s has no row in rooms", file, dir))
			continue
		}
		may := rooms[row].may
		if strings.HasSuffix(file, "_test.go") {
			may = slices.Concat(may, rooms[row].tests)
		}
		for _, to := range imports {
			allowed := slices.ContainsFunc(may, func(room string) bool { return matches(to, room) })
			if !allowed && to != dir {
				wrong = append(wrong, fmt.Sprintf("%s: %s may not import %s", file, dir, to))
			}
			if moduleOf(mods, dir) == "." && moduleOf(mods, to) != "." {
				wrong = append(wrong, fmt.Sprintf("%s: the root module imports %s of a nested one", file, to))
			}
		}
	}
	return wrong
}

// thin keeps the command's code in its rooms: beside main.go, cmd/rota has tests only.
func thin(tree fs.FS) (wrong []string) {
	for file := range files(tree) {
		dir, name := path.Split(file)
		if dir == "cmd/rota/" && path.Ext(name) == ".go" && name != "main.go" && !strings.HasSuffix(name, "_test.go") {
			wrong = append(wrong, fmt.Sprintf("%s: put it into a room below cmd/rota/internal; beside main.go there are tests only", file))
		}
	}
	return wrong
}

func TestRoomPatterns(t *testing.T) {
	for _, c := range []struct {
		dir, room string
		want      bool
	}{
		{".", ".", true},
		{"dash", ".", false},
		{"dash", "...", true},
		{".", "...", true},
		{"drivers/rotanats", "drivers/*", true},
		{"drivers/rotanats/deep", "drivers/*", false},
		{"cmd/rota", "cmd/rota/...", true},
		{"cmd/rota/internal/lab/bench", "cmd/rota/...", true},
		{"cmd/rotary", "cmd/rota/...", false},
	} {
		if got := matches(c.dir, c.room); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.dir, c.room, got)
		}
	}
}

func matches(dir, room string) bool {
	if top, deep := strings.CutSuffix(room, "..."); deep {
		return strings.HasPrefix(dir+"/", top)
	}
	ok, _ := path.Match(room, dir)
	return ok
}

const (
	ourModule = "github.com/rota-dev/rota"
	goLine    = "1.26.0" // not 1.26: tidy would rewrite it and the workspace stop loading
)

// modules checks go.mod of every module and go.work. The modules require each other
// at one version, which go.work says. A go.mod replaces nothing: a replacement counts
// in the main module alone, and go install refuses a command whose go.mod has one. So
// go.work has the replacements, at that version; without them the go command would
// look for it elsewhere.
func modules(tree fs.FS) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	dirs := moduleDirs(tree)
	work := readMod(tree, "go.work")
	rev := work.at[ourModule]
	needed := map[string]bool{} // modules that others require
	mods := map[string]modFile{}
	uses := map[string]map[string]bool{} // module → modules of ours it requires or imports
	for _, dir := range dirs {
		mods[dir] = readMod(tree, path.Join(dir, "go.mod"))
		uses[dir] = map[string]bool{}
		for require := range mods[dir].require {
			if to, ours := room(require); ours {
				uses[dir][to] = true
			}
		}
	}
	for file, imports := range imports(tree) {
		from := moduleOf(dirs, path.Dir(file))
		for _, to := range imports {
			to = moduleOf(dirs, to)
			if _, required := mods[from].require[importPath(to)]; from != "." && to != from && !required {
				complain("%s: imports %s, which %s does not require", file, to, path.Join(from, "go.mod"))
			}
			if to != from {
				uses[from][to] = true
			}
		}
	}

	others := map[string]string{} // module of others → version
	for _, dir := range dirs {
		mod, name := mods[dir], path.Join(dir, "go.mod")
		for to, version := range mod.require {
			if _, ours := room(to); ours {
				continue
			}
			if was := others[to]; was != "" && was != version {
				complain("%s: requires %s %s, and another module %s: whoever uses one of them alone builds what was never tested", name, to, version, was)
			}
			others[to] = version
		}
		if mod.module != importPath(dir) {
			complain("%s: module %s, want %s", name, mod.module, importPath(dir))
		}
		if mod.goLine != goLine {
			complain("%s: go %s, want %s", name, mod.goLine, goLine)
		}
		if dir == "." {
			for require := range mod.require {
				complain("go.mod: requires %s; the root has the standard library only", require)
			}
			continue
		}
		if mod.require[ourModule] == "" {
			complain("%s: does not require %s %s", name, ourModule, rev)
		}
		for from := range mod.replace {
			complain("%s: replaces %s: go.work does that", name, from)
		}
		for _, to := range reach(uses, dir) {
			needed[to] = true
			if got := mod.require[importPath(to)]; got != rev {
				complain("%s: requires %s %q, want %s as in go.work", name, importPath(to), got, rev)
			}
		}
	}

	if work.goLine != goLine {
		complain("go.work: go %s, want %s", work.goLine, goLine)
	}
	if !slices.Equal(work.use, dirs) {
		complain("go.work: uses %v, there are %v", work.use, dirs)
	}
	for _, to := range slices.Sorted(maps.Keys(needed)) {
		if by := work.replace[importPath(to)]; work.at[importPath(to)] != rev || !strings.HasPrefix(by, ".") || path.Clean(by) != to {
			complain("go.work: replaces %s %s by %q, want %s by its folder", importPath(to), work.at[importPath(to)], by, rev)
		}
	}
	return wrong
}

// reach returns what dir uses, directly or by way of others, without itself.
func reach(uses map[string]map[string]bool, dir string) []string {
	seen := map[string]bool{dir: true}
	for todo := []string{dir}; len(todo) > 0; todo = todo[1:] {
		for to := range uses[todo[0]] {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	delete(seen, dir)
	return slices.Sorted(maps.Keys(seen))
}

// words holds everybody to one word per thing, also inside identifiers.
func words(tree fs.FS) (wrong []string) {
	for file, text := range files(tree) {
		ext := path.Ext(file)
		if ext != ".go" && ext != ".md" || file == "house_test.go" {
			continue
		}
		for _, a := range quotable {
			if matches(file, a.file) {
				text = strings.ReplaceAll(text, a.phrase, "")
			}
		}
		for i, line := range strings.Split(text, "\n") {
			for _, word := range wordRE.FindAllString(line, -1) {
				if say := synonyms[strings.TrimSuffix(strings.ToLower(word), "s")]; say != "" {
					wrong = append(wrong, fmt.Sprintf("%s:%d: %q, say %s", file, i+1, word, say))
				}
			}
		}
	}
	return wrong
}

var (
	wordRE   = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	synonyms = map[string]string{
		"worker":     "member",
		"shard":      "partition",
		"sharded":    "partitioned",
		"sharding":   "partitioning",
		"allocation": "plan (or memory allocation)",
	}
	// quotable phrases are the exceptions: another's words, or another thing.
	quotable = []struct{ file, phrase string }{
		{"...", "memory allocation"},
		{"docs/words.md", "never worker or consumer"},
		{"docs/words.md", "never shard"},
		{"docs/words.md", "never allocation"},
		{"internal/record/plan_test.go", "%v allocations"}, // of memory
		{"README.md", "“worker”"},
		{"README.md", "docs/workers.md"},
		{"README.md", "(examples/workers)"},
		{"README.md", "worker:examples/workers/worker."},
		{"CONTRIBUTING.md", "docs/workers.md"},
		{"docs/faq.md", "(workers.md)"},
		{"docs/words.md", "| worker |"}, // a program of the user's
		{"docs/...", "docs/workers.md"},
		{"docs/workers.md", "worker"},
		{"docs/workers.md", "Worker"},
		{"docs/cli.md", "worker"},
		{"docs/cli.md", "Worker"},
		{"docs/guarantees.md", "worker"},
		{"docs/MISSION.md", "Workers"},
		{"docs/MISSION.md", "a worker or HTTP"},
		{"docs/decisions.md", "worker"},
		{"docs/decisions.md", "Worker"},
		{"cmd/rota/...", "worker"},
		{"cmd/rota/...", "Worker"},
		{"test/processes/...", "worker"},
		{"test/processes/...", "Worker"},
		{"README.md", "“allocation”"},
	}
)

// places keeps the traces of one machine out of every file.
func places(tree fs.FS) (wrong []string) {
	for file, text := range files(tree) {
		for i, line := range strings.Split(text, "\n") {
			for _, place := range []string{"/wo" + "rk/", "/ro" + "ot/", "proxy" + ".golang"} {
				if strings.Contains(line, place) {
					wrong = append(wrong, fmt.Sprintf("%s:%d: names %s", file, i+1, place))
				}
			}
		}
	}
	return wrong
}

// TestGuardsBite breaks a sound tree in one place at a time.
func TestGuardsBite(t *testing.T) {
	sound := map[string]string{
		"go.mod": "module github.com/rota-dev/rota\n\ngo 1.26.0\n",
		"go.work": `go 1.26.0

use (
	.
	./cmd/rota
	./drivers/rotax
)

replace (
	github.com/rota-dev/rota v0.1.0 => ./
	github.com/rota-dev/rota/drivers/rotax v0.1.0 => ./drivers/rotax
)
`,
		"doc.go":                      "package rota\nimport _ \"github.com/rota-dev/rota/internal/core\"\n",
		"internal/core/core.go":       "package core\nimport _ \"github.com/rota-dev/rota/internal/plan\"\n",
		"internal/core/core_test.go":  "package core_test\nimport _ \"github.com/rota-dev/rota/internal/check\"\n",
		"internal/plan/plan.go":       "package plan\n",
		"internal/plan/testdata/x.go": "no Go at all, and none of the go command's business",
		"drivers/rotax/go.mod":        "module github.com/rota-dev/rota/drivers/rotax\n\ngo 1.26.0\n\nrequire github.com/rota-dev/rota v0.1.0\n",
		"drivers/rotax/x.go":          "package rotax\nimport _ \"github.com/rota-dev/rota\"\n",
		"cmd/rota/go.mod": `module github.com/rota-dev/rota/cmd/rota

go 1.26.0

require (
	github.com/rota-dev/rota v0.1.0
	github.com/rota-dev/rota/drivers/rotax v0.1.0
	example.com/other v1.2.3 // indirect
)
`,
		"cmd/rota/main.go":                     "package main\nimport _ \"github.com/rota-dev/rota/cmd/rota/internal/connect\"\n",
		"cmd/rota/internal/connect/connect.go": "package connect\nimport _ \"github.com/rota-dev/rota/drivers/rotax\"\n",
		"cmd/rota/internal/ops/ops.go":         "package ops\nimport _ \"github.com/rota-dev/rota/cmd/rota/internal/connect\"\n",
		"cmd/rota/internal/agent/agent.go":     "package agent\nimport _ \"github.com/rota-dev/rota/cmd/rota/internal/connect\"\n",
		"cmd/rota/internal/demo/demo.go":       "package demo\nimport _ \"github.com/rota-dev/rota/cmd/rota/internal/ops\"\n",
		"README.md":                            "No memory allocation here.\n",
		wordsPage: `| word | meaning | declared in |
|---|---|---|
| plan | who owns what | everywhere |
| settle | to tell the broker | ., drivers/… |
| seat, crew | nothing | nowhere |
`,
		homonymsList:                "# old ones\ninternal/plan/old.go settle\n",
		"internal/plan/old.go":      "package plan\nvar settle, plans int\n",
		"internal/plan/old_test.go": "package plan\nfunc TestItSettles() { var seat int; _ = seat }\n",
		"settle.go":                 "package rota\nfunc Settle() {}\n",
	}
	for _, c := range []struct {
		guard, file, from, to string
		says                  string // "" = nothing to complain about
	}{
		{"arrows", "doc.go", "", "", ""},
		{"arrows", "internal/plan/plan.go", "plan\n", "plan\nimport _ \"github.com/rota-dev/rota/internal/core\"\n", "internal/plan may not import internal/core"},
		{"arrows", "internal/core/core.go", "internal/plan", "internal/check", "internal/core may not import internal/check"},
		{"arrows", "internal/core/core_test.go", "internal/check", "internal/explore", "internal/core may not import internal/explore"},
		{"arrows", "internal/core/core.go", "package core", "//go:build mutants && windows\n\npackage core\nimport _ \"github.com/rota-dev/rota\"", "internal/core may not import ."},
		{"arrows", "drivers/rotax/x.go", "rota\"", "rota/rotatest\"", "drivers/rotax may not import rotatest"},
		{"arrows", "drivers/rotax/x.go", "rota\"", "rota/internal/core\"", "drivers/rotax may not import internal/core"},
		{"arrows", "doc.go", "internal/core", "drivers/rotax", "the root module imports drivers/rotax"},
		{"arrows", "internal/util/util.go", "", "package util\n", "internal/util has no row"},
		{"arrows", "cmd/rota/internal/connect/connect.go", "drivers/rotax", "cmd/rota/internal/lab", "connect may not import cmd/rota/internal/lab"},
		{"arrows", "cmd/rota/internal/ops/ops.go", "internal/connect", "internal/lab/bench", "ops may not import cmd/rota/internal/lab/bench"},
		{"arrows", "cmd/rota/internal/ops/ops.go", "internal/connect", "internal/demo", "ops may not import cmd/rota/internal/demo"},
		{"arrows", "cmd/rota/internal/agent/agent.go", "internal/connect", "internal/lab", "agent may not import cmd/rota/internal/lab"},
		{"arrows", "cmd/rota/internal/agent/agent.go", "internal/connect", "internal/demo", "agent may not import cmd/rota/internal/demo"},
		{"arrows", "cmd/rota/internal/agent/agent.go", "internal/connect", "internal/trial", "agent may not import cmd/rota/internal/trial"},
		{"arrows", "cmd/rota/internal/demo/demo.go", "internal/ops", "internal/lab", "demo may not import cmd/rota/internal/lab"},
		{"arrows", "cmd/rota/main.go", "internal/connect", "internal/dev", "cmd/rota may not import cmd/rota/internal/dev"},
		{"arrows", "cmd/rota/internal/util/util.go", "", "package util\n", "cmd/rota/internal/util has no row"},

		{"thin", "cmd/rota/main.go", "", "", ""},
		{"thin", "cmd/rota/help.go", "", "package main\n", "cmd/rota/help.go: put it into a room"},
		{"thin", "cmd/rota/help_windows.go", "", "package main\n", "cmd/rota/help_windows.go: put it into a room"},
		{"thin", "cmd/rota/help_test.go", "", "package main\n", ""},
		{"thin", "cmd/rota/internal/cli/help.go", "", "package cli\n", ""},

		{"modules", "go.mod", "", "", ""},
		{"modules", "go.mod", "1.26.0\n", "1.26.0\n\nrequire example.com/x v1.0.0\n", "go.mod: requires example.com/x"},
		{"modules", "go.mod", "1.26.0", "1.26", "go.mod: go 1.26, want 1.26.0"},
		{"modules", "cmd/rota/go.mod", "1.26.0", "1.26", "cmd/rota/go.mod: go 1.26, want 1.26.0"},
		{"modules", "cmd/rota/go.mod", "/cmd/rota\n", "/cmd\n", "cmd/rota/go.mod: module github.com/rota-dev/rota/cmd, want"},
		{"modules", "drivers/rotax/go.mod", "require github.com/rota-dev/rota v0.1.0\n", "", "does not require github.com/rota-dev/rota v0.1.0"},
		{"modules", "cmd/rota/go.mod", "\tgithub.com/rota-dev/rota/drivers/rotax v0.1.0\n", "", "imports drivers/rotax, which cmd/rota/go.mod does not require"},
		{"modules", "cmd/rota/go.mod", "\tgithub.com/rota-dev/rota v0.1.0\n", "", `requires github.com/rota-dev/rota "", want v0.1.0`},
		{"modules", "cmd/rota/go.mod", "rotax v0.1.0", "rotax v0.2.0", `requires github.com/rota-dev/rota/drivers/rotax "v0.2.0", want v0.1.0`},
		{"modules", "drivers/rotax/go.mod", "v0.1.0\n", "v0.1.0\nrequire example.com/other v1.2.4\n", "requires example.com/other v1.2.4, and another module v1.2.3"},
		{"modules", "cmd/rota/go.mod", "indirect\n)\n", "indirect\n)\n\nreplace github.com/rota-dev/rota => ../..\n", "cmd/rota/go.mod: replaces github.com/rota-dev/rota: go.work does that"},
		{"modules", "drivers/rotax/go.mod", "v0.1.0\n", "v0.1.0\n\nreplace example.com/other v1.2.3 => example.com/fork v1.2.4\n", "replaces example.com/other"},
		{"modules", "go.work", "\tgithub.com/rota-dev/rota/drivers/rotax v0.1.0 => ./drivers/rotax\n", "", `go.work: replaces github.com/rota-dev/rota/drivers/rotax  by "", want v0.1.0`},
		{"modules", "go.work", "rotax v0.1.0 =>", "rotax v0.2.0 =>", "replaces github.com/rota-dev/rota/drivers/rotax v0.2.0"},
		{"modules", "go.work", "rotax v0.1.0 =>", "rotax =>", "replaces github.com/rota-dev/rota/drivers/rotax  by"},
		{"modules", "go.work", "=> ./drivers/rotax", "=> ./drivers", `by "./drivers", want v0.1.0`},
		{"modules", "go.work", "rota v0.1.0 => ./", "rota v0.2.0 => ./", `requires github.com/rota-dev/rota "v0.1.0", want v0.2.0`},
		{"modules", "go.work", "\t./drivers/rotax\n", "", "go.work: uses [. cmd/rota], there are [. cmd/rota drivers/rotax]"},
		{"modules", "dash/go.mod", "", "module github.com/rota-dev/rota/dash\n", "there are [. cmd/rota dash drivers/rotax]"},

		{"words", "README.md", "", "", ""},
		{"words", "README.md", "memory allocation", "allocations", `"allocations", say plan`},
		{"words", "internal/plan/plan.go", "plan\n", "plan\n\nvar workerCount int\n", `internal/plan/plan.go:3: "worker", say member`},
		{"words", "internal/plan/plan.go", "plan\n", "plan\n\n// Shards are many.\n", `"Shards", say partition`},
		{"words", "docs/x.md", "", "the numShard field", `docs/x.md:1: "Shard", say partition`},

		{"homonyms", wordsPage, "", "", ""},
		{"homonyms", "internal/plan/plan.go", "plan\n", "plan\nfunc preSettling() {}\n", `internal/plan/plan.go:2: preSettling: "settle" may be declared in ., drivers/…: it is "to tell the broker" in docs/words.md`},
		{"homonyms", "internal/plan/plan.go", "plan\n", "plan\ntype x struct{ Settled bool }\n", "internal/plan/plan.go:2: Settled"},
		{"homonyms", "internal/plan/plan_test.go", "", "package plan\nfunc f() {\n\ttype x interface{ Settles() }\n}\n", "internal/plan/plan_test.go:3: Settles"},
		{"homonyms", "drivers/rotax/x.go", "rota\"\n", "rota\"\nconst settle = 1\n", ""},
		{"homonyms", "drivers/rotax/x.go", "rota\"\n", "rota\"\nconst crewSize = 1\n", `crewSize: "crew" may be declared nowhere`},
		{"homonyms", "internal/plan/plan.go", "plan\n", "plan\nvar settlement, unsettle, planned int\n", ""},
		{"homonyms", wordsPage, "drivers/…", "internal/…", homonymsList + ": internal/plan/old.go settle is no homonym any more"},
		{"homonyms", "internal/plan/old.go", "settle, ", "", homonymsList + ": internal/plan/old.go settle is no homonym any more"},
		{"homonyms", "internal/plan/old.go", "settle, ", "settle, settles, ", "internal/plan/old.go:2: settles"},

		{"comments", "doc.go", "", "", ""},
		{"comments", "internal/plan/plan.go", "plan\n", "plan\n\n// f: it is done.\nfunc f() {}\n", "internal/plan/plan.go:3: write a sentence about f"},
		{"comments", "internal/plan/plan.go", "plan\n", "plan\n\n// f tells whether it is done.\nfunc f() {}\n", ""},
		{"comments", "internal/plan/plan.go", "plan\n", "plan\n\n// f is for whoever waits.\nfunc f() {}\n", `"whoever" in a comment`},
		{"comments", "testdata/comments.txt", "", "internal/plan/plan.go\n", "internal/plan/plan.go is right now"},

		{"because", "doc.go", "", "", ""},
		{"because", "internal/plan/plan.go", "plan\n", "plan\nfunc f(e struct{ Because string }) { e.Because = \"\" }\n", ""},
		{"because", "internal/plan/plan.go", "plan\n", "plan\nfunc f(e struct{ Because string }) bool { return e.Because == \"\" }\n", "internal/plan/plan.go:2: reads Because"},
		{"because", "internal/plan/plan.go", "plan\n", "plan\nfunc f(e struct{ Because string }) { e.Because += \"\" }\n", "internal/plan/plan.go:2: reads Because"},

		{"places", "README.md", "", "", ""},
		{"places", "README.md", "No", "See /wo" + "rk/main. No", "README.md:1: names"},
		{"places", "Makefile", "", "export GOPROXY=https://proxy" + ".golang.org", "Makefile:1: names"},
		{"places", "scripts/x.sh", "", "cd /ro" + "ot/go", "scripts/x.sh:1: names"},
	} {
		tree := fstest.MapFS{}
		for file, text := range sound {
			tree[file] = &fstest.MapFile{Data: []byte(text)}
		}
		text := c.to
		if c.from != "" {
			text = strings.Replace(sound[c.file], c.from, c.to, 1)
			if text == sound[c.file] {
				t.Errorf("%s: nothing to break in %s at %q", c.guard, c.file, c.from)
			}
		}
		if text != "" {
			tree[c.file] = &fstest.MapFile{Data: []byte(text)}
		}
		wrong := strings.Join(guards[c.guard](tree), "\n")
		if c.says == "" && wrong != "" || !strings.Contains(wrong, c.says) {
			t.Errorf("%s, %s with %q for %q: got %q, want %q", c.guard, c.file, c.to, c.from, wrong, c.says)
		}
	}
}

// files yields every text file but what git or a build leaves behind.
func files(tree fs.FS) map[string]string {
	all := map[string]string{}
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "build", "dist", "rota-data"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := fs.ReadFile(tree, file)
		if err == nil && !bytes.Contains(data, []byte{0}) {
			all[file] = string(data)
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return all
}

// imports yields, for every Go file the go command would look at, the rooms of
// ours it imports.
func imports(tree fs.FS) map[string][]string {
	all := map[string][]string{}
	for file, text := range files(tree) {
		if path.Ext(file) != ".go" || hidden(file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			continue // the compiler has the better words for it
		}
		all[file] = nil
		for _, spec := range parsed.Imports {
			if to, ours := room(strings.Trim(spec.Path.Value, "`\"")); ours {
				all[file] = append(all[file], to)
			}
		}
	}
	return all
}

func hidden(file string) bool {
	return slices.ContainsFunc(strings.Split(file, "/"), func(step string) bool {
		return step == "testdata" || step == "vendor" || strings.HasPrefix(step, ".") || strings.HasPrefix(step, "_")
	})
}

// room is the folder of a package of ours, from its import path.
func room(importPath string) (dir string, ours bool) {
	rest, ours := strings.CutPrefix(importPath+"/", ourModule+"/")
	return path.Clean("./" + rest), ours
}

func importPath(dir string) string { return path.Join(ourModule, dir) }

func moduleDirs(tree fs.FS) (dirs []string) {
	for file := range files(tree) {
		if path.Base(file) == "go.mod" && !hidden(file) {
			dirs = append(dirs, path.Dir(file))
		}
	}
	slices.Sort(dirs)
	return dirs
}

// moduleOf finds the module a folder belongs to: the nearest one above it.
func moduleOf(mods []string, dir string) string {
	for dir != "." && !slices.Contains(mods, dir) {
		dir = path.Dir(dir)
	}
	return dir
}

type modFile struct {
	module, goLine       string
	require, replace, at map[string]string // path → version, path → target, path → version replaced
	use                  []string
}

// readMod reads what the guards need of a go.mod or go.work; the go command
// itself checks the rest.
func readMod(tree fs.FS, file string) modFile {
	mod := modFile{require: map[string]string{}, replace: map[string]string{}, at: map[string]string{}}
	data, _ := fs.ReadFile(tree, file)
	block := ""
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch {
		case words[0] == ")":
			block = ""
			continue
		case words[len(words)-1] == "(":
			block = words[0]
			continue
		case block != "":
			words = slices.Insert(words, 0, block)
		}
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "module":
			mod.module = words[1]
		case "go":
			mod.goLine = words[1]
		case "require":
			mod.require[words[1]] = words[len(words)-1]
		case "replace":
			mod.replace[words[1]] = words[len(words)-1]
			if words[2] != "=>" {
				mod.at[words[1]] = words[2]
			}
		case "use":
			mod.use = append(mod.use, path.Clean(words[1]))
		}
	}
	slices.Sort(mod.use)
	return mod
}
