package rota_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// missionRows are the promises. They do not change with what is reached.
var missionRows = strings.Fields(`
	S0-1 S0-2 S0-3 S0-4 S0-5 S0-6 S0-7 S0-8 S0-9 S0-10 S0-11 S0-12 S0-13a S0-13b S0-13c S0-infra
	S1-speed S1-trigger S1-pack S1-hand S1-orch S1-unassigned S1-topic S1-meta
	S2-join S2-leave S2-kill S2-guard S2-knobs S2-nats
	B-token B-zombie B-static B-stuck B-ops B-cockpit B-agent B-loss B-trust`)

func TestMissionPageIsTrue(t *testing.T) {
	for _, complaint := range mission(os.DirFS("."), missionRows) {
		t.Error(complaint)
	}
}

var (
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	testName = regexp.MustCompile(`\bTest\w+`)
	rowName  = regexp.MustCompile(`^(S0|S1|S2|B)-\w+$`)
	rowTest  = regexp.MustCompile(`^Test(S0|S1|S2|B)_0*([0-9A-Za-z]+)`)
)

// mission compares docs/MISSION.md with the tests of the tree.
func mission(tree fs.FS, rows []string) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	tests := testsOf(tree)
	listed := map[string][]string{} // row → tests
	page, err := fs.ReadFile(tree, "docs/MISSION.md")
	if err != nil {
		complain("%v", err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		row := strings.TrimSpace(cells[0])
		if !rowName.MatchString(row) {
			continue
		}
		if len(cells) != 4 {
			complain("%s: %d cells, want row, promise, tests, status", row, len(cells))
			continue
		}
		if _, twice := listed[row]; twice {
			complain("%s: there twice", row)
		}
		if !slices.Contains(rows, row) {
			complain("%s: no such row", row)
		}
		names := testName.FindAllString(cells[2], -1)
		listed[row] = names
		var dirs []string
		for _, name := range names {
			if tests[name] == nil {
				complain("%s: there is no %s", row, name)
			}
			dirs = append(dirs, tests[name]...)
		}
		if problem := overstated(strings.Trim(cells[3], " `"), names, dirs, moduleDirs(tree)); problem != "" {
			complain("%s: %s", row, problem)
		}
	}
	for _, row := range rows {
		if _, there := listed[row]; !there {
			complain("%s: missing", row)
		}
	}
	for name, dirs := range tests {
		m := rowTest.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if row := m[1] + "-" + strings.ToLower(m[2]); !slices.Contains(listed[row], name) {
			complain("%s: %s of %s is not listed", row, name, strings.Join(dirs, ", "))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// overstated says why a status is more than the tests of its row can show.
func overstated(status string, names, dirs, mods []string) string {
	outside := slices.ContainsFunc(dirs, func(dir string) bool { return !strings.HasPrefix(dir, "internal/") })
	nested := slices.ContainsFunc(dirs, func(dir string) bool { return moduleOf(mods, dir) != "." })
	switch {
	case !slices.Contains([]string{"—", "part", "core", "shell", "real"}, status):
		return fmt.Sprintf("status %q, want —, part, core, shell or real", status)
	case status == "—" && len(names) > 0:
		return fmt.Sprintf("not reached, yet it names %s", strings.Join(names, " "))
	case status != "—" && len(names) == 0:
		return fmt.Sprintf("status %s without a test", status)
	case status == "shell" && !outside:
		return "status shell, but all its tests are in internal/"
	case status == "real" && !nested:
		return "status real, but no test of a nested module"
	}
	return ""
}

// testsOf finds every test function and the folders it stands in.
func testsOf(tree fs.FS) map[string][]string {
	tests := map[string][]string{}
	for file, text := range files(tree) {
		if !strings.HasSuffix(file, "_test.go") || hidden(file) {
			continue
		}
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			tests[m[1]] = append(tests[m[1]], path.Dir(file))
		}
	}
	return tests
}

func TestMissionCheckBites(t *testing.T) {
	const (
		none = "| S0-5 | p | | — |\n"
		pack = "| S1-pack | p | `TestS1_Pack_Ahead` | core |\n"
	)
	tree := fstest.MapFS{
		"go.mod":                     {Data: []byte("module github.com/rota-dev/rota\n")},
		"drivers/rotax/go.mod":       {Data: []byte("module github.com/rota-dev/rota/drivers/rotax\n")},
		"internal/plan/plan_test.go": {Data: []byte("package plan\nfunc TestS1_Pack_Ahead(t *testing.T) {}\n")},
		"drivers/rotax/x_test.go":    {Data: []byte("package rotax\nfunc TestGroup(t *testing.T) {}\n")},
	}
	for _, c := range []struct{ page, says string }{
		{none + pack, ""},
		{pack, "S0-5: missing"},
		{none + none + pack, "S0-5: there twice"},
		{none + pack + "| S0-99 | p | | — |\n", "S0-99: no such row"},
		{none + "| S1-pack | p | | — |\n", "S1-pack: TestS1_Pack_Ahead of internal/plan is not listed"},
		{"| S0-5 | p | `TestS1_Pack_Ahead` | core |\n| S1-pack | p | | — |\n", "S1-pack: TestS1_Pack_Ahead of internal/plan is not listed"},
		{"| S0-5 | p | `TestS0_05_CutOff` | core |\n" + pack, "S0-5: there is no TestS0_05_CutOff"},
		{"| S0-5 | p | | core |\n" + pack, "S0-5: status core without a test"},
		{"| S0-5 | p | `TestGroup` | — |\n" + pack, "S0-5: not reached, yet it names TestGroup"},
		{"| S0-5 | p | `TestGroup` | done |\n" + pack, `S0-5: status "done"`},
		{"| S0-5 | p | `TestGroup` |\n" + pack, "S0-5: 3 cells"},
		{"| S0-5 | p | `TestGroup` | real |\n" + pack, ""},
		{none + strings.Replace(pack, "core", "shell", 1), "S1-pack: status shell, but all its tests are in internal/"},
		{none + strings.Replace(pack, "core", "real", 1), "S1-pack: status real, but no test of a nested module"},
	} {
		tree["docs/MISSION.md"] = &fstest.MapFile{Data: []byte(c.page)}
		wrong := strings.Join(mission(tree, []string{"S0-5", "S1-pack"}), "\n")
		if c.says == "" && wrong != "" || !strings.Contains(wrong, c.says) {
			t.Errorf("page %q: got %q, want %q", c.page, wrong, c.says)
		}
	}
	if m := rowTest.FindStringSubmatch("TestS0_05_CutOff"); m[1]+"-"+m[2] != "S0-5" {
		t.Errorf("TestS0_05_CutOff belongs to row %v", m)
	}
}
