package rota_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	wordsPage    = "docs/words.md"
	homonymsList = "testdata/homonyms.txt"
)

// homonyms holds each word of docs/words.md to its one meaning: an identifier may
// carry the word only in the folders that the page names. Identifiers that are older
// than the page are listed in testdata/homonyms.txt, file by file. The list can only
// shrink: an identifier in it that is gone, or may be there, is a complaint too.
func homonyms(tree fs.FS) (wrong []string) {
	words := ownedWords(tree)
	listed := listedHomonyms(tree)
	for file, text := range files(tree) {
		if path.Ext(file) != ".go" || hidden(file) {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler has the better words for it
		}
		for _, name := range declared(parsed) {
			for _, w := range words {
				if !w.in(name.Name) || slices.ContainsFunc(w.rooms, func(room string) bool { return matches(path.Dir(file), room) }) {
					continue
				}
				entry := file + " " + name.Name
				if _, old := listed[entry]; old {
					listed[entry] = true
					continue
				}
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s: %q may be declared %s: it is %q in %s",
					file, set.Position(name.Pos()).Line, name.Name, w.word, w.where, w.meaning, wordsPage))
			}
		}
	}
	for entry, found := range listed {
		if !found {
			wrong = append(wrong, fmt.Sprintf("%s: %s is no homonym any more: remove the line", homonymsList, entry))
		}
	}
	return wrong
}

// An ownedWord is a word that belongs to some folders.
type ownedWord struct {
	word, meaning, where string
	rooms                []string // as in the table rooms
}

// ownedWords reads the tables of docs/words.md. Of terms of several words, such as
// "quiet time", nothing is checked.
func ownedWords(tree fs.FS) (words []ownedWord) {
	page, _ := fs.ReadFile(tree, wordsPage)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 3 || cells[2] == "everywhere" || cells[2] == "declared in" {
			continue
		}
		where, rooms := cells[2], []string(nil)
		if where != "nowhere" {
			rooms = strings.Split(strings.ReplaceAll(where, "…", "..."), ", ")
			where = "in " + where
		}
		for word := range strings.SplitSeq(cells[0], ", ") {
			words = append(words, ownedWord{word, cells[1], where, rooms})
		}
	}
	return words
}

// in tells whether one of the words of a camel-case name is w or a form of it.
func (w ownedWord) in(name string) bool {
	stem := strings.TrimSuffix(w.word, "e")
	forms := []string{w.word, w.word + "s", stem + "ed", stem + "ing"}
	return slices.ContainsFunc(wordRE.FindAllString(name, -1), func(part string) bool {
		return slices.Contains(forms, strings.ToLower(part))
	})
}

// listedHomonyms reads lines of the form "file identifier".
func listedHomonyms(tree fs.FS) map[string]bool {
	listed := map[string]bool{}
	list, _ := fs.ReadFile(tree, homonymsList)
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			listed[line] = false
		}
	}
	return listed
}

// declared are the names of a file's functions, methods, types, struct fields and
// package-level constants and variables. The name of a test is a claim, in which each
// word has its everyday meaning, and does not count.
func declared(file *ast.File) (names []*ast.Ident) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if !isTest(d) {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					names = append(names, v.Names...)
				}
			}
		}
	}
	fields := func(list *ast.FieldList) {
		for _, field := range list.List {
			names = append(names, field.Names...)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.StructType:
			fields(n.Fields)
		case *ast.InterfaceType:
			fields(n.Methods)
		}
		return true
	})
	return names
}

func isTest(f *ast.FuncDecl) bool {
	return f.Recv == nil && slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(kind string) bool {
		return strings.HasPrefix(f.Name.Name, kind)
	})
}
