package rota_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const commentsList = "testdata/comments.txt"

// whoRE finds what plain English does not need: a process is no he, and a thing no
// who.
var whoRE = regexp.MustCompile(`(?i)\b(whoever|whomever|he|his|him)\b`)

// comments refuses comments that are notes to oneself: "name: clause" in the place of
// a sentence with a subject and a verb, and pronouns for people where there are none.
// Files that are older than this guard are listed in testdata/comments.txt. The list
// can only shrink: the next change to such a file puts its comments right and removes
// the line.
func comments(tree fs.FS) (wrong []string) {
	listed := map[string]bool{} // and whether something is still wrong there
	list, _ := fs.ReadFile(tree, commentsList)
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			listed[line] = false
		}
	}
	for file, text := range files(tree) {
		if path.Ext(file) != ".go" || hidden(file) || file == "comments_test.go" {
			continue
		}
		bad := noteComments(file, text)
		if _, old := listed[file]; old {
			listed[file] = len(bad) > 0
			continue
		}
		wrong = append(wrong, bad...)
	}
	for file, still := range listed {
		if !still {
			wrong = append(wrong, fmt.Sprintf("%s: %s is right now, or gone: remove the line", commentsList, file))
		}
	}
	return wrong
}

func noteComments(file, text string) (bad []string) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler has the better words for it
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Doc != nil && !isTest(f) && strings.HasPrefix(f.Doc.Text(), f.Name.Name+": ") {
			bad = append(bad, fmt.Sprintf("%s:%d: write a sentence about %s, not a note behind a colon", file, set.Position(f.Doc.Pos()).Line, f.Name.Name))
		}
	}
	for _, group := range parsed.Comments {
		if m := whoRE.FindString(group.Text()); m != "" && !slices.Contains([]string{"HE"}, m) {
			bad = append(bad, fmt.Sprintf("%s:%d: %q in a comment: name the member, process or person", file, set.Position(group.Pos()).Line, m))
		}
	}
	return bad
}
