package ops

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/line"
)

// printed are the types that commands print as JSON, by their heading in docs/json.md.
var printed = map[string]reflect.Type{
	"Status": reflect.TypeFor[rota.Status](), "Member": reflect.TypeFor[rota.MemberInfo](), "Partition": reflect.TypeFor[rota.PartitionInfo](), "Explained": reflect.TypeFor[explained](), "Explained member": reflect.TypeFor[explainedMember](),
	"Wait": reflect.TypeFor[rota.Wait](), "Condition": reflect.TypeFor[rota.ConditionInfo](), "Problem": reflect.TypeFor[rota.Problem](),
	"Orders": reflect.TypeFor[rota.OrdersInfo](), "Logged order": reflect.TypeFor[rota.OrderInfo](), "Plan": reflect.TypeFor[rota.PlanInfo](), "Cause": reflect.TypeFor[rota.Cause](), "Load": reflect.TypeFor[rota.LoadInfo](), "Size": reflect.TypeFor[rota.SizeInfo](),
	"Topic": reflect.TypeFor[topicInfo](), "Group": reflect.TypeFor[groupInfo](), "Given order": reflect.TypeFor[orderDone](), "Letter": reflect.TypeFor[letterShape](), "Header": reflect.TypeFor[headerShape](),
	"Checked group": reflect.TypeFor[checkedGroup](), "Trouble": reflect.TypeFor[trouble](), "Draft": reflect.TypeFor[shownDraft](), "Step": reflect.TypeFor[step](),
	"Checked history": reflect.TypeFor[checkedHistory](), "Build": reflect.TypeFor[cli.Build](),
}

// marshalled are fields that a MarshalJSON adds.
var marshalled = map[string][]string{"Member": {"heartbeat_age_s", "lease", "heartbeat"}}

// notPrinted are types with JSON names whose words are not ours, or that stand for another
// type: those of CycloneDX, and what MemberInfo is written as.
var notPrinted = []string{"bom", "bomMetadata", "bomModule", "bomLicence", "bomProperty", "bomDepends", "memberJSON"}

// TestJSONIsDocumented compares docs/json.md with the types: every field has a row with
// words in it, every row a field, and every type with JSON names a heading.
func TestJSONIsDocumented(t *testing.T) {
	documented := jsonPage(t)
	var known []string
	for heading, typ := range printed {
		known = append(known, typ.Name())
		var fields []string
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && !f.Anonymous {
				fields = append(fields, name)
			}
		}
		fields = append(fields, marshalled[heading]...)
		for _, name := range fields {
			if documented[heading][name] == "" {
				t.Errorf("docs/json.md: %s: nothing is said of %q", heading, name)
			}
		}
		for name := range documented[heading] {
			if !slices.Contains(fields, name) {
				t.Errorf("docs/json.md: %s: there is no %q", heading, name)
			}
		}
	}
	for _, dir := range []string{".", "../cli", "../../../.."} {
		for _, name := range typesWithJSON(t, dir) {
			if !slices.Contains(known, name) && !slices.Contains(notPrinted, name) {
				t.Errorf("%s: the type %s has JSON names and no heading in docs/json.md", dir, name)
			}
		}
	}
}

// jsonPage reads the fields and what is said of them, by heading.
func jsonPage(t *testing.T) map[string]map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| `([a-z_]+)` \\| (.*) \\|$")
	out, heading := map[string]map[string]string{}, ""
	for l := range strings.Lines(string(b)) {
		l = strings.TrimSpace(l)
		if name, ok := strings.CutPrefix(l, "## "); ok {
			heading = name
			out[heading] = map[string]string{}
		}
		if m := row.FindStringSubmatch(l); m != nil && heading != "Words" {
			out[heading][m[1]] = strings.TrimSpace(m[2])
		}
	}
	return out
}

// typesWithJSON are the struct types of a package that have fields with JSON names.
func typesWithJSON(t *testing.T, dir string) (out []string) {
	t.Helper()
	eachDecl(t, dir, func(decl ast.Decl) {
		ast.Inspect(decl, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, `json:"`) }) {
				out = append(out, spec.Name.Name)
			}
			return true
		})
	})
	return out
}

func eachDecl(t *testing.T, dir string, do func(ast.Decl)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			do(d)
		}
	}
}

// codes are the constants of a string type of package rota.
func codes(t *testing.T, typ string) (out []string) {
	t.Helper()
	eachDecl(t, "../../../..", func(decl ast.Decl) {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			return
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if name, ok := v.Type.(*ast.Ident); ok && name.Name == typ {
				text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, text)
			}
		}
	})
	if len(out) == 0 {
		t.Fatalf("no constant of type %s", typ)
	}
	return out
}

// TestOneVocabulary holds the table of words in docs/json.md against the code: each code
// has a row, and the row the word that tables and sentences use for it. Events are those
// of docs/events.md.
func TestOneVocabulary(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile("../../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Words\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string][]string{} // by what and code
	for l := range strings.Lines(table) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), "|"); len(cells) == 4 && strings.Contains(cells[1], "`") {
			rows[strings.TrimSpace(cells[0])+" "+strings.Trim(cells[1], " `")] = cells
		}
	}
	st := &rota.Status{}
	for _, c := range []struct {
		what, typ string
		word      func(code string) string
	}{
		{"phase", "Phase", func(code string) string { return PhaseWords[rota.Phase(code)] }},
		{"state of a member", "MemberState", func(code string) string {
			return MemberState(st, &rota.MemberInfo{State: rota.MemberState(code), Planned: true, Partitions: 1})
		}},
		{"state of a partition", "PartitionState", func(code string) string {
			return PartitionStates(st)(&rota.PartitionInfo{State: rota.PartitionState(code)})
		}},
		{"reason", "Reason", func(code string) string {
			return PartitionStates(st)(&rota.PartitionInfo{State: rota.PartitionFree, Reason: rota.Reason(code)})
		}},
		{"wait for", "WaitFor", func(code string) string { return WaitWords[rota.WaitFor(code)] }},
		{"why", "Why", func(code string) string { return line.Causes([]rota.Cause{{Why: rota.Why(code)}}) }},
	} {
		for _, code := range codes(t, c.typ) {
			cells := rows[c.what+" "+code]
			delete(rows, c.what+" "+code)
			word := c.word(code)
			if cells == nil || word == "" || !strings.Contains(cells[2], word) {
				t.Errorf("docs/json.md, words: %s %s is %q in tables; the row is %q", c.what, code, word, cells)
				continue
			}
			for _, event := range regexp.MustCompile("`([a-z_]+)`").FindAllString(cells[3], -1) {
				if !strings.Contains(string(events), event) {
					t.Errorf("docs/json.md, words: %s %s: docs/events.md has no event %s", c.what, code, event)
				}
			}
		}
	}
	for row := range rows {
		t.Errorf("docs/json.md, words: there is no %s", row)
	}
}
