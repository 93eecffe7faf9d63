package rota_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// readsBecause says which files may read the sentence of an event, and what for.
// A sentence is for people: what a program decides by is in the event's other
// fields, so that a sentence can be improved without breaking anything.
var readsBecause = map[string]string{
	"log.go":                         "logs it",
	"tell.go":                        "keeps it for the record of conditions, and paces what repeats",
	"internal/line/line.go":          "writes it into the event line",
	"internal/line/say.go":           "prints it",
	"cmd/rota/internal/demo/live.go": "prints it",

	// Tests of the sentences themselves: what a person reads names the value and the cause.
	"config_test.go":                     "partitions that are not served are named",
	"hold_test.go":                       "a hold is told with its length",
	"outage_test.go":                     "an outage is told with its cause",
	"prepare_test.go":                    "the error of Prepare is told",
	"roster_test.go":                     "the numbers of a limit are told",
	"trace_test.go":                      "the handler's error is told",
	"unreadable_test.go":                 "an unreadable record is named",
	"cmd/rota/rights_test.go":            "prints it when a test fails",
	"drivers/rotanats/dead_test.go":      "the server's answer is told",
	"drivers/rotanats/discover_test.go":  "a subject that is not served is named",
	"drivers/rotanats/forged_test.go":    "a forged echo is told",
	"drivers/rotanats/group_test.go":     "prints it when a test fails",
	"drivers/rotarabbit/member_test.go":  "the broker's refusal is told",
	"rotatest/members.go":                "prints it when a test fails",
	"drivers/rotanats/guarded_test.go":   "the server's refusal is told",
	"drivers/rotaactive/refusal_test.go": "the broker's refusal is told",
	"drivers/rotaactive/source_test.go":  "a foreign consumer is told",
}

// because complains of every other file that reads an event's sentence.
func because(tree fs.FS) (wrong []string) {
	for file, text := range files(tree) {
		if !strings.HasSuffix(file, ".go") || hidden(file) || readsBecause[file] != "" {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, text, 0)
		if err != nil {
			continue // the compiler tells
		}
		written := map[ast.Expr]bool{}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					written[to] = n.Tok == token.ASSIGN
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "Because" && !written[n] {
					wrong = append(wrong, fmt.Sprintf("%s:%d: reads Because, which is for printing: decide by Kind, Condition, Causes", file, set.Position(n.Pos()).Line))
				}
			}
			return true
		})
	}
	return wrong
}
