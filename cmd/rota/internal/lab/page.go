package lab

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

// A report is a folder with a page that needs nothing else, pictures and rows.

// makeReport makes the folder before any work is done for it.
func makeReport(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cli.Usagef("--report: %v", err)
	}
	return nil
}

func writeReport(dir string, files map[string]string) error {
	if dir == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o644); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	return nil
}

// jsonText is a value as a file.
func jsonText(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // our own figures
	}
	return string(b) + "\n"
}

const pageStyle = `<style>
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --faint: #d8dee4; --soft: #59636e; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #f0f6fc; --faint: #30363d; --soft: #9da7b3; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; } dt { color: var(--soft); } dd { margin: 0; }
svg { max-width: 100%; height: auto; }
</style>`

func htmlPage(title, body string) string {
	return fmt.Sprintf("<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>%s</title>\n%s</head>\n<body>\n<h1>%s</h1>\n%s</body>\n</html>\n",
		html.EscapeString(title), pageStyle, html.EscapeString(title), body)
}

func htmlHead(lines [][2]string) string {
	var b strings.Builder
	b.WriteString("<dl>\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "<dt>%s</dt><dd>%s</dd>\n", html.EscapeString(l[0]), html.EscapeString(l[1]))
	}
	b.WriteString("</dl>\n")
	return b.String()
}

// htmlTable is cells whose first line is the header.
func htmlTable(cells [][]string) string {
	var b strings.Builder
	b.WriteString("<table>\n")
	for i, line := range cells {
		tag := "td"
		if i == 0 {
			tag = "th"
		}
		b.WriteString("<tr>")
		for _, cell := range line {
			fmt.Fprintf(&b, "<%s>%s</%s>", tag, html.EscapeString(cell), tag)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n")
	return b.String()
}
