package rule_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/rule"
)

// A place is a function that asks for a rule, or tells of it.
type place struct{ file, function string }

// sources is what the code says of the rules.
type sources struct {
	asks  map[rule.Rule][]place  // where rule.X.Off() stands
	tells map[rule.Rule][]place  // where a comment begins with the rule's name
	says  map[rule.Rule][]place  // where it goes on with the rule's sentence
	why   map[rule.Rule]string   // and what it says is wrong without it
	sees  map[rule.Rule][]string // functions that other comments refer to
}

const root = "../.."

// home is where the rules of a layer live; harnesses may ask for those of the shell.
var home = map[rule.Layer]*regexp.Regexp{
	rule.Core:     regexp.MustCompile(`^internal/core/`),
	rule.Shell:    regexp.MustCompile(`^([^/]+|internal/clock/[^/]+)$`),
	rule.Watchdog: regexp.MustCompile(`^cmd/rota/`),
	rule.Harness:  regexp.MustCompile(`^internal/sim/`),
}

var harness = regexp.MustCompile(`^internal/(sim|explore)/`)

// TestTheWhyStandsAtTheLine: each rule is asked for in its layer; one function tells
// the rule's sentence, and what goes wrong without it, and every other function that
// asks refers to that one.
func TestTheWhyStandsAtTheLine(t *testing.T) {
	src := readSources(t)
	for _, r := range rule.All() {
		layer := r.Entry().Layer
		at := func(p place) bool { return home[layer].MatchString(p.file) }
		if !slices.ContainsFunc(src.asks[r], at) {
			t.Errorf("%s: rule.X.Off() stands nowhere in its layer, the %s", r, layer)
		}
		for _, p := range src.asks[r] {
			if !at(p) && (layer != rule.Shell && layer != rule.Harness || !harness.MatchString(p.file)) {
				t.Errorf("%s of the %s is asked for in %s", r, layer, p.file)
			}
			if !slices.Contains(src.tells[r], p) {
				t.Errorf("%s: %s asks for %s, and no comment in it begins with %[3]s:", p.file, p.function, r)
			}
		}
		if len(src.says[r]) != 1 || src.why[r] == "" || !at(src.says[r][0]) {
			t.Errorf("one comment in the %s must begin with\n%s: %s\nWithout it: …\nThere are: %v", layer, r, r.Entry().Says, src.says[r])
			continue
		}
		for _, see := range src.sees[r] {
			if see != src.says[r][0].function {
				t.Errorf("%s: see %s, says a comment; it is told in %s", r, see, src.says[r][0].function)
			}
		}
	}
}

// TestEveryTestOfTheBookIsThere: tests that the book names exist.
func TestEveryTestOfTheBookIsThere(t *testing.T) {
	all := map[string]bool{}
	walk(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				all[m[1]] = true
			}
		}
	})
	for _, r := range rule.All() {
		if name := r.Entry().Test; name != "" && !all[name] {
			t.Errorf("%s: there is no %s", r, name)
		}
	}
}

// walk visits the Go files of the repository.
func walk(t *testing.T, visit func(file string)) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "build") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			file, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readSources(t *testing.T) *sources {
	src := &sources{map[rule.Rule][]place{}, map[rule.Rule][]place{}, map[rule.Rule][]place{}, map[rule.Rule]string{}, map[rule.Rule][]string{}}
	consts := constants(t)
	walk(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/rule/") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			src.read(f, place{file, f.Name.Name}, consts)
			for _, c := range parsed.Comments {
				if f.Pos() <= c.Pos() && c.End() <= f.End() {
					src.comment(c, place{file, f.Name.Name})
				}
			}
		}
	})
	return src
}

// constants are the rules by what the code calls them.
func constants(t *testing.T) map[string]rule.Rule {
	parsed, err := parser.ParseFile(token.NewFileSet(), "book.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]rule.Rule{}
	for _, d := range parsed.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for i, spec := range g.Specs {
				all[spec.(*ast.ValueSpec).Names[0].Name] = rule.Rule(i)
			}
		}
	}
	if len(all) != len(rule.Book) {
		t.Fatalf("%d constants, %d entries", len(all), len(rule.Book))
	}
	for name, r := range all {
		if called := strings.ReplaceAll(r.String(), "-", ""); r != rule.None && strings.ToLower(name) != called {
			t.Errorf("rule.%s is called %s", name, r)
		}
	}
	return all
}

// read finds rule.X.Off() in a function.
func (s *sources) read(f *ast.FuncDecl, at place, consts map[string]rule.Rule) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		off, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || off.Sel.Name != "Off" {
			return true
		}
		if x, ok := off.X.(*ast.SelectorExpr); ok {
			if p, ok := x.X.(*ast.Ident); ok && p.Name == "rule" {
				r := consts[x.Sel.Name]
				if !slices.Contains(s.asks[r], at) {
					s.asks[r] = append(s.asks[r], at)
				}
			}
		}
		return true
	})
}

// comment takes what a comment says of rules: each begins a line with its name.
func (s *sources) comment(c *ast.CommentGroup, at place) {
	told := rule.None
	text := ""
	end := func() {
		if told == rule.None {
			return
		}
		s.tells[told] = append(s.tells[told], at)
		if see, ok := strings.CutPrefix(text, "see "); ok {
			s.sees[told] = append(s.sees[told], strings.TrimSuffix(see, "."))
		} else if why, ok := strings.CutPrefix(text, told.Entry().Says+" Without it: "); ok {
			s.says[told] = append(s.says[told], at)
			s.why[told] = why
		}
	}
	for line := range strings.Lines(c.Text()) {
		line = strings.TrimSpace(line)
		name, rest, _ := strings.Cut(line, ": ")
		if r, err := rule.Named(name); err == nil {
			end()
			told, text = r, rest
		} else {
			text += " " + line
		}
	}
	end()
}
