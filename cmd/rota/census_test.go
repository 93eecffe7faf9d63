package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// printers are the functions that print, and why what others wrote cannot reach a
// terminal by them as it is. A new one needs such a reason.
var printers = map[string]string{
	"it prints its own words, numbers, and what the command line says": `
		bar.clear bar.draw nowLine.clear nowLine.show live.begin live.end
		exploreFlags.allDefects exploreFlags.print exploreFlags.tell exploreFlags.tellDefect
		simFlags.hunt simFlags.print simFlags.schedule simFlags.violations sheet.line
		benchPlanFlags.print planSheet.print chain.play failoverFlags.print failoverFlags.run storeFlags.run storeFlags.print lineFeeder.publish evidence.write rampCmd
		ProduceCmd runMember LeaseCmd ServeCmd VersionCmd warnOfSecrets warnOfVariables WarnOfExposed init refuse ask`,
	"it makes each text plain": `
		handler.log answerProbe live.print memberFlags.abort NewSpeaker warnTo Run sayDone simFlags.story
		assent.carryOut showDraft nothingToDo
		printLetters deadDropCmd replay.order replay.look`,
	"it prints from a copy in which every text is plain": `
		printStatus printMembers printPartitions printTopics live.see live.draw benchPageCmd writePerformance
		printTroubles showLetter printGroups printHistory printOrders`,
	"it prints what explain, judgeLines or one of these tables has made": `
		printChecked ExplainCmd view.show failoverFlags.once`,
}

// A function that prints, unless it is to a string that it builds, is in the list.
func TestEveryPrinterIsKnown(t *testing.T) {
	var known []string
	for _, names := range printers {
		known = append(known, strings.Fields(names)...)
	}
	var files []string
	for _, room := range []string{"*.go", "internal/*/*.go", "../../internal/line/*.go"} {
		found, err := filepath.Glob(room)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || slices.Contains(notPrograms, filepath.Dir(file)) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !prints(f) {
				continue
			}
			at := slices.Index(known, funcName(f))
			if at < 0 {
				t.Errorf("%s: %s prints: make what others may have written plain, and say so in printers", file, funcName(f))
				continue
			}
			known = slices.Delete(known, at, at+1)
		}
	}
	for _, name := range known {
		t.Errorf("%s prints no more, or is no more", name)
	}
}

// notPrograms are no part of any program that a user runs.
var notPrograms = []string{"internal/trial", "internal/notices", "internal/dev"}

func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return of.(*ast.Ident).Name + "." + f.Name.Name
}

var printCalls = []string{"fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln", "fmt.Print", "fmt.Printf", "fmt.Println", "io.WriteString"}

// prints finds a print to something that is not a string being built in place.
func prints(f *ast.FuncDecl) (yes bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := s.X.(*ast.Ident)
		if !ok || !slices.Contains(printCalls, pkg.Name+"."+s.Sel.Name) {
			return true
		}
		if to, ok := call.Args[0].(*ast.UnaryExpr); ok && to.Op == token.AND {
			return true
		}
		yes = true
		return true
	})
	return yes
}
