package rota_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTheWalkIsTrue holds the walk of ARCHITECTURE.md against the code: every file
// that it names is there, and every function is declared in a file of its paragraph.
func TestTheWalkIsTrue(t *testing.T) {
	for _, complaint := range walk(os.DirFS(".")) {
		t.Error(complaint)
	}
}

var (
	walkFile = regexp.MustCompile(`[\w/]+\.go\b`)
	walkFunc = regexp.MustCompile("`(?:\\w+\\.)?([a-z]\\w*|[A-Z]\\w*)`")
	// notOurs are names of the walk that no file of its paragraph declares as a function.
	notOurs = map[string]bool{"Handle": true, "Put": true, "Consume": true}
)

func walk(tree fs.FS) (wrong []string) {
	page, err := fs.ReadFile(tree, "ARCHITECTURE.md")
	if err != nil {
		return []string{err.Error()}
	}
	_, section, found := strings.Cut(string(page), "## A walk through the house\n")
	section, _, _ = strings.Cut(section, "\n## ")
	ways := 0
	for way := range strings.SplitSeq(section, "\n\n") {
		if way = strings.TrimSpace(way); !strings.HasPrefix(way, "**") {
			continue
		}
		ways++
		var code strings.Builder
		for _, file := range walkFile.FindAllString(way, -1) {
			b, err := fs.ReadFile(tree, file)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("the walk: %v", err))
			}
			code.Write(b)
		}
		for _, m := range walkFunc.FindAllStringSubmatch(way, -1) {
			declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + m[1] + `\(`)
			if !notOurs[m[1]] && !declared.MatchString(code.String()) {
				wrong = append(wrong, fmt.Sprintf("the walk: %s is declared in no file of its paragraph", m[0]))
			}
		}
	}
	if !found || ways < 4 {
		wrong = append(wrong, fmt.Sprintf("the walk has %d ways, want a message's, a heartbeat's, a plan's and an order's", ways))
	}
	return wrong
}

func TestTheWalkBites(t *testing.T) {
	page := "## A walk through the house\n\n**A.** `run.one` (run.go)\n\n**B.** `x` (run.go)\n\n**C.** (gone.go)\n\n"
	tree := fstest.MapFS{"ARCHITECTURE.md": {Data: []byte(page)}, "run.go": {Data: []byte("func (r *run) one() {}\n")}}
	got := strings.Join(walk(tree), "\n")
	for _, want := range []string{"`x` is declared in no file", "gone.go", "3 ways"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if strings.Contains(got, "run.one") {
		t.Errorf("a true line is complained of: %s", got)
	}
}
