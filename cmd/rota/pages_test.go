package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// repo is the root of the repository, seen from this folder.
const repo = "../.."

// pages are those whose every command, snippet and link is held here.
var pages = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/compare.md", "docs/faq.md", "docs/production.md", "docs/upgrade.md", "docs/virtual-time.md"}

// ran marks commands that are run against a real rota up; the store of those that name a
// cluster is replaced.
const ran = "TestCommandsOfThePagesRun"

// heldBy says, for each command of the pages, which test runs it or its like. The flags
// and URLs of all of them are parsed here. The first prefix that fits counts.
var heldBy = []struct{ like, test string }{
	{"rota up", ran},
	{"rota run --name c4", ran},
	{"rota run --name py", "TestMembersOfYourOwn"},
	{"rota run --name js", "TestMembersOfYourOwn"},
	{"rota run --name sh", "TestMembersOfYourOwn"},
	{"go run ./examples/first", "TestMembersOfYourOwn"},
	{"rota status", ran},
	{"rota explain", ran},
	{"rota version", ran},
	{"rota group check", ran},
	{"rota check", "TestUpIsAGroupOfProcesses"},
	{"kill ", "TestUpIsAGroupOfProcesses"},
	{"sleep ", "TestUpIsAGroupOfProcesses"},
	{"rota run --config", "TestSettingsComeFromFlagsThenEnvironmentThenFile"}, // needs a cluster; its file is parsed here
	{"rota bench store", "TestBenchStoreMeasuresAndRecommends"},               // needs a cluster, and half a minute
	{"rota sim --schedules", "TestSimTableSpeaksOnStdoutAlone"},               // with fewer schedules
	{"rota explore", "TestExplore"},
	{"rota sim --mutants", "TestMutantRow"}, // built with -tags mutants
	{"make ", "TestPagesAreHeld"},           // there is such a target
	{"go test ", "TestPagesAreHeld"},        // there is such a folder
}

// samples are the files that Go code of the pages is copied from: the compiler, and the
// tests in them, hold those.
var samples = []string{"drivers/rotanats/example_test.go", "examples/shop/shop.go", "examples/shop/shop_test.go"}

// transcript is where the scenario in CONTRIBUTING.md is from.
const transcript = "internal/scenario/files/s0-05-cut-off.txt"

func TestPagesAreHeld(t *testing.T) {
	used := map[string]bool{}
	for _, name := range pages {
		text, err := os.ReadFile(filepath.Join(repo, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range pageComplaints(name, string(text), used) {
			t.Errorf("%s: %s", name, complaint)
		}
	}
	tests := testNames(t)
	for _, h := range heldBy {
		if !used[h.like] {
			t.Errorf("heldBy: no page has a command that begins with %q: remove the line", h.like)
		}
		if !tests[h.test] {
			t.Errorf("heldBy: %q is to be held by %s, and there is no such test", h.like, h.test)
		}
	}
}

// TestPagesCheckBites shows the check pages with one mistake each.
func TestPagesCheckBites(t *testing.T) {
	fence := func(lang, text string) string { return "```" + lang + "\n" + text + "\n```\n" }
	for page, says := range map[string]string{
		fence("sh", "rota status --watch   # again and again"):                                "",
		fence("sh", "rota status --wach"):                                                     "unknown flag: --wach",
		fence("sh", "rota stats"):                                                             `unknown command "stats"`,
		fence("sh", "rota explain"):                                                           "accepts 1 arg(s)",
		fence("sh", "rota status; rota group chek"):                                           "chek",
		fence("sh", "rota bench store --members 100 --each 5"):                                `"5"`,
		fence("sh", "rota run --name c4 --source 'nats://h?stream=S&subject=a.*&partions=3'"): "unknown parameter partions",
		fence("sh", "rota run --name c4 --store nast://h"):                                    "unknown kind of URL",
		fence("sh", "frob --all"):                                                             `nothing in heldBy holds "frob --all"`,
		fence("sh", "make tset"):                                                              "no target tset",
		fence("sh", "go test ./no/such"):                                                      "no folder ./no/such",
		fence("go", "m, err := rota.New(rota.Config{Grup: \"shop\"})"):                        "in none of",
		fence("yaml", "group: orders\nleese: 5s"):                                             "leese: there is no such setting",
		fence("yaml", "store: nats://h?nonsense=1"):                                           "unknown parameter nonsense",
		fence("", "rota status"):                                                              "is in no scenario",
		fence("ruby", "puts 1"):                                                               "nobody holds blocks of ruby",
		"Say `rota stauts -o json`.":                                                          `unknown command "stauts"`,
		"Say `rota status --jsn` or `rota drain`.":                                            "--jsn",
		"With `--retrun 30s` they wait.":                                                      "--retrun",
		"With `--return 30` they wait.":                                                       `"30"`,
		"With `--return 30s` they wait, `--strategy pack` or not; see `rota dead list`.":      "",
		"See [it](docs/nothing.md).":                                                          "docs/nothing.md: no such file",
		"See [it](docs/cli.md#no-such-heading).":                                              "docs/cli.md has no heading no-such-heading",
		"See [it](docs/cli.md#looking-at-the-lease) and [that](https://example.com).":         "",
		"| code | how urgent | what to do |\n|---|---|---|\n| `no-membr` | x | y |":           "no-membr: no condition",
		"| exit status of a member | |\n|---|---|\n| 9 | x |":                                 "exit status 9",
		fence("sh", "rota status \\\n    --store 'nats://h1,h2?sync=allways' --group g"):      "sync",
	} {
		got := strings.Join(pageComplaints("README.md", page, map[string]bool{}), "\n")
		if says == "" && got != "" || !strings.Contains(got, says) {
			t.Errorf("%q: complained %q, want %q", page, got, says)
		}
	}
}

// blockRE finds fenced blocks; spanRE and linkRE what stands between them.
var (
	blockRE = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	spanRE  = regexp.MustCompile("`([^`\n]+)`")
	linkRE  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeRE  = regexp.MustCompile("`([a-z-]+)`")
	testRE  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	condRE  = regexp.MustCompile(`(?m)^\s+Condition\w+\s+(?:Condition )?= "([a-z-]+)"`)
)

// pageComplaints is what is wrong with a page. used gets the prefixes of heldBy that it
// needs.
func pageComplaints(name, text string, used map[string]bool) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, m := range blockRE.FindAllStringSubmatch(text, -1) {
		switch lang, block := m[1], m[2]; lang {
		case "sh":
			for _, words := range commandsOf(block) {
				if err := holdCommand(words, used); err != nil {
					complain("%s: %v", strings.Join(words, " "), err)
				}
			}
		case "go":
			if !slices.ContainsFunc(samples, func(file string) bool { return hasLines(file, block) }) {
				complain("this Go code is in none of %s:\n%s", strings.Join(samples, ", "), block)
			}
		case "yaml":
			if err := holdSettings(block); err != nil {
				complain("%v", err)
			}
		case "":
			for line := range strings.Lines(block) {
				if line = strings.TrimSpace(line); line != "…" && !hasLines(transcript, line) {
					complain("%q is in no scenario: mark commands with sh", line)
				}
			}
		default:
			complain("nobody holds blocks of %s", lang)
		}
	}
	prose := blockRE.ReplaceAllString(text, "")
	for _, m := range spanRE.FindAllStringSubmatch(prose, -1) {
		if err := holdSpan(m[1]); err != nil {
			complain("`%s`: %v", m[1], err)
		}
	}
	for _, m := range linkRE.FindAllStringSubmatch(prose, -1) {
		if err := holdLink(path.Dir(name), m[1]); err != nil {
			complain("%v", err)
		}
	}
	return append(wrong, tableComplaints(prose)...)
}

// commandsOf splits a block into commands, as a shell would.
func commandsOf(block string) (out [][]string) {
	block = strings.ReplaceAll(block, "\\\n", " ")
	var command []string
	var word strings.Builder
	begun, quote := false, rune(0)
	endWord := func() {
		if begun {
			command = append(command, word.String())
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if command = asRota(command); len(command) > 0 {
			out = append(out, command)
		}
		command = nil
	}
	comment := false
	for _, r := range block {
		switch {
		case comment && r != '\n':
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			comment = true
		case r == '\n' || r == ';' || r == '|' || r == '&':
			comment = false
			endCommand()
		case r == ' ' || r == '\t':
			endWord()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	endCommand()
	return out
}

// asRota writes rota for the way to run it in the repository.
func asRota(words []string) []string {
	for _, way := range [][]string{{"go", "run", "./cmd/rota"}, {"go", "run", "-tags", "mutants", "./cmd/rota"}} {
		if len(words) >= len(way) && slices.Equal(words[:len(way)], way) {
			return append([]string{"rota"}, words[len(way):]...)
		}
	}
	return words
}

// holdCommand refuses a command that cannot be right, or that no test is known for.
func holdCommand(words []string, used map[string]bool) error {
	if words[0] == "rota" {
		if err := parses(words[1:], true); err != nil {
			return err
		}
	}
	at := holderAt(words)
	if at < 0 {
		return fmt.Errorf("nothing in heldBy holds %q", strings.Join(words, " "))
	}
	used[heldBy[at].like] = true
	switch words[0] {
	case "make":
		makefile, err := os.ReadFile(filepath.Join(repo, "Makefile"))
		if err != nil {
			return err
		}
		for _, target := range words[1:] {
			if !strings.Contains(target, "=") && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).Match(makefile) {
				return fmt.Errorf("the Makefile has no target %s", target)
			}
		}
	case "go":
		for _, word := range words[2:] {
			if st, err := os.Stat(filepath.Join(repo, word)); strings.HasPrefix(word, ".") && (err != nil || !st.IsDir()) {
				return fmt.Errorf("no folder %s", word)
			}
		}
	}
	return nil
}

// holderAt is where heldBy has a command, or -1.
func holderAt(words []string) int {
	line := strings.Join(words, " ") + " "
	return slices.IndexFunc(heldBy, func(h struct{ like, test string }) bool { return strings.HasPrefix(line, h.like) })
}

// holder is the test that holds a command.
func holder(words []string) string {
	if at := holderAt(words); at >= 0 {
		return heldBy[at].test
	}
	return ""
}

// parses tells why the program would refuse a command line before its work begins. One
// that is only mentioned need not be whole.
func parses(args []string, whole bool) error {
	root := rootCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if left := cmd.Flags().Args(); cmd.HasSubCommands() && len(left) > 0 {
		return fmt.Errorf("unknown command %q for %q", left[0], cmd.CommandPath())
	} else if whole {
		if err := cmd.ValidateArgs(left); err != nil {
			return err
		}
	}
	return addressesOpen(cmd)
}

// addressesOpen refuses URLs that no driver understands. Nothing is dialled.
func addressesOpen(cmd *cobra.Command) error {
	for flag, open := range map[string]func(string) error{
		"store":  func(url string) error { _, err := connect.LookAt(url); return err },
		"source": func(url string) error { _, err := connect.OpenSource(url); return err },
		"scaler": func(url string) error { _, err := connect.OpenScaler(url); return err },
	} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed && f.Value.String() != "" {
			if err := open(f.Value.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// holdSettings parses a settings file of rota run.
func holdSettings(text string) error {
	dir, err := os.MkdirTemp("", "pages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rota.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	cmd, _, err := rootCmd().Find([]string{"run"})
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags([]string{"--config", file}); err != nil {
		return err
	}
	if err := cli.ApplySettings(cmd); err != nil {
		return err
	}
	return addressesOpen(cmd)
}

// flags is a tree to look flags up in: to make one takes a while.
var flags = sync.OnceValue(rootCmd)

// holdSpan checks a command or a flag that a sentence mentions.
func holdSpan(span string) error {
	words := commandsOf(span)
	if len(words) == 0 || strings.Contains(span, "…") {
		return nil
	}
	args := words[0]
	switch {
	case args[0] == "rota" && len(args) > 1:
		return parses(args[1:], false)
	case args[0] == "make" && len(args) > 1:
		return holdCommand(args, map[string]bool{})
	case strings.HasPrefix(args[0], "--") && strings.Trim(args[0], "-") != "":
		name := strings.TrimPrefix(args[0], "--")
		known := false
		err := fmt.Errorf("no command has the flag %s", args[0])
		eachCommand(flags(), func(cmd *cobra.Command) {
			if f := cmd.Flag(name); f != nil && !known {
				if err = setFlag(f, args[1:]); err == nil {
					known = true
				}
			}
		})
		return err
	}
	return nil
}

func setFlag(f *pflag.Flag, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if err := f.Value.Set(args[0]); err != nil {
		return fmt.Errorf("%q: %w", args[0], err)
	}
	return nil
}

func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, visit)
	}
}

// hasLines tells whether lines stand in a file, further to the right or not.
func hasLines(file, lines string) bool {
	text, err := os.ReadFile(filepath.Join(repo, file))
	if err != nil {
		return false
	}
	for _, indent := range []string{"", "\t", "\t\t"} {
		var shifted strings.Builder
		for line := range strings.Lines(lines) {
			if strings.TrimSpace(line) != "" {
				shifted.WriteString(indent)
			}
			shifted.WriteString(line)
		}
		if strings.Contains("\n"+string(text), "\n"+shifted.String()) {
			return true
		}
	}
	return false
}

// holdLink looks for the file and the heading of a link.
func holdLink(dir, link string) error {
	if strings.Contains(link, "://") {
		return nil
	}
	file, heading, _ := strings.Cut(link, "#")
	file = path.Join(dir, file)
	text, err := os.ReadFile(filepath.Join(repo, file))
	switch st, statErr := os.Stat(filepath.Join(repo, file)); {
	case statErr != nil:
		return fmt.Errorf("%s: no such file", file)
	case st.IsDir() || heading == "":
		return nil
	case err != nil:
		return err
	}
	if !slices.Contains(headings(string(text)), heading) {
		return fmt.Errorf("%s has no heading %s", file, heading)
	}
	return nil
}

// headings are the names by which links find the headings of a page.
func headings(text string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		out = append(out, name)
	}
	return out
}

// tableComplaints checks the codes that somebody is told to alert on.
func tableComplaints(prose string) (wrong []string) {
	known := conditionCodes()
	exits := []string{"0", fmt.Sprint(cli.ExitFenced), fmt.Sprint(cli.ExitAborted), fmt.Sprint(cli.ExitOrphaned), fmt.Sprint(cli.ExitStoreLost), fmt.Sprint(cli.ExitUnwritable),
		fmt.Sprint(cli.ExitUsage), fmt.Sprint(cli.ExitUnreachable), fmt.Sprint(cli.ExitBug)}
	table := ""
	for line := range strings.Lines(prose) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		first := strings.TrimSpace(cells[0])
		switch {
		case !strings.HasPrefix(line, "|"):
			table = ""
		case table == "":
			table = first
		case strings.HasPrefix(first, "---"):
		case table == "code":
			for _, m := range codeRE.FindAllStringSubmatch(first, -1) {
				if !known[m[1]] {
					wrong = append(wrong, fmt.Sprintf("%s: no condition and no problem has this code", m[1]))
				}
			}
		case table == "exit status of a member" && !slices.Contains(exits, first):
			wrong = append(wrong, fmt.Sprintf("exit status %s: there is no such", first))
		}
	}
	return wrong
}

// conditionCodes are the codes of conditions and problems.
var conditionCodes = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(repo, "*.go"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, m := range condRE.FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
	}
	return out
})

// testNames are all tests of the repository.
func testNames(t *testing.T) map[string]bool {
	out := map[string]bool{}
	err := filepath.WalkDir(repo, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range testRE.FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
