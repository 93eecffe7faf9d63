// Notices writes cmd/rota/THIRD-PARTY-NOTICES: the licences of everything that the
// binary is linked with, on any system. make notices runs it.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// systems are those that anybody may build the binary for: it has other modules on
// some of them.
var systems = []string{"linux", "darwin", "windows"}

// A module is one that others have made. Its legal files are at its root, and in
// folders above a package of it that is linked.
type module struct {
	path, version, dir string
	packages           []string // folders
}

func write(w io.Writer) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	modules = append(modules, &module{path: "std", dir: strings.TrimSpace(string(root))})
	groups, err := byText(modules)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	out.WriteString("Third-party software in the rota binary. Made by make notices; not edited by hand.\n" +
		"A line that begins with == names a module, its version and its licence; std is the\n" +
		"standard library and runtime of Go. The texts that hold for it follow.\n")
	for _, g := range groups {
		out.WriteString("\n")
		for _, m := range g.modules {
			fmt.Fprintf(out, "== %s (%s)\n", strings.TrimSpace(m.path+" "+m.version), g.licence)
		}
		fmt.Fprintf(out, "\n%s", g.text)
	}
	return out.Flush()
}

// linked finds the modules of all packages that the binary has on some system.
func linked() (all []*module, err error) {
	byPath := map[string]*module{}
	for _, system := range systems {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Version}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", ".")
		list.Stderr = os.Stderr
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		text, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) != 4 {
				continue
			}
			m := byPath[f[0]]
			if m == nil {
				m = &module{path: f[0], version: f[1], dir: f[2]}
				byPath[m.path] = m
				all = append(all, m)
			}
			m.packages = append(m.packages, f[3])
		}
	}
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// A group is modules with the same texts.
type group struct {
	modules       []*module
	licence, text string
}

func byText(modules []*module) (groups []*group, err error) {
	for _, m := range modules {
		text, err := m.texts()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.text == text })
		if at < 0 {
			name, err := licence(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.path, err)
			}
			at = len(groups)
			groups = append(groups, &group{licence: name, text: text})
		}
		groups[at].modules = append(groups[at].modules, m)
	}
	return groups, nil
}

var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

func (m *module) texts() (string, error) {
	folders := []string{m.dir}
	for _, dir := range m.packages {
		for ; len(dir) > len(m.dir); dir = filepath.Dir(dir) {
			folders = append(folders, dir)
		}
	}
	slices.Sort(folders)
	var out strings.Builder
	for _, dir := range slices.Compact(folders) {
		files, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			if f.IsDir() || !legal.MatchString(f.Name()) || filepath.Ext(f.Name()) == ".go" {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return "", err
			}
			name, err := filepath.Rel(m.dir, filepath.Join(dir, f.Name()))
			if err != nil {
				return "", err
			}
			text := strings.ReplaceAll(string(b), "\r\n", "\n")
			fmt.Fprintf(&out, "-- %s\n\n%s\n\n", filepath.ToSlash(name), strings.Trim(text, "\n"))
		}
	}
	return out.String(), nil
}

// licence names, as SPDX does, what the texts are.
func licence(text string) (string, error) {
	var out []string
	text = strings.Join(strings.Fields(text), " ")
	for _, l := range []struct{ name, says string }{
		{"Apache-2.0", "Apache License"}, {"MIT", "Permission is hereby granted, free of charge"},
		{"BSD-3-Clause", "may be used to endorse or promote products"},
	} {
		if strings.Contains(text, l.says) {
			out = append(out, l.name)
		}
	}
	// It is that of three clauses without the third.
	if len(out) == 0 && strings.Contains(text, "Redistributions in binary form must reproduce the above copyright notice") {
		out = append(out, "BSD-2-Clause")
	}
	if len(out) == 0 {
		return "", errors.New("no licence that is known here: look at its texts, and teach licence its name")
	}
	return strings.Join(out, " AND "), nil
}
