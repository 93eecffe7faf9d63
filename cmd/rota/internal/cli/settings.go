package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Every flag is also a variable of the environment, --start-gate is
// ROTA_START_GATE, and a key of the file that --config names. A flag wins over
// the environment, and that over the file.

func Variable(flag string) string {
	return "ROTA_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// notSettings cannot come from the environment or a file: a command that a member
// runs has ROTA_PARTITION and ROTA_SESSION in its environment, which mean something
// else, and what --yes allows is allowed once.
var notSettings = []string{"help", "version", "config", "partition", "session", "yes"}

// isSetting leaves out hidden flags, by which rota's own processes talk to each other.
// One of them names a folder to remove, which is nothing for a file that others may have
// written.
func isSetting(f *pflag.Flag) bool { return !f.Hidden && !slices.Contains(notSettings, f.Name) }

// renamed are flags that had another name: it is refused with the new one, since to
// ignore it would change how a group behaves.
var renamed = map[string]string{"settle": "quiet-time", "drain": "stop-time"}

// ApplySettings sets what the command line left open.
func ApplySettings(cmd *cobra.Command) error {
	file, named := os.LookupEnv("ROTA_CONFIG")
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed {
		file, named = f.Value.String(), true
	}
	fromFile := map[string]setting{}
	if named && file != "" {
		var err error
		if fromFile, err = readSettings(file, cmd.Root()); err != nil {
			return err
		}
	}
	var wrong error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if wrong != nil || !isSetting(f) {
			return
		}
		for old, name := range renamed {
			if name == f.Name && os.Getenv(Variable(old)) != "" {
				wrong = Usagef("%s: it is called %s now", Variable(old), Variable(name))
				return
			}
		}
		if f.Changed {
			return
		}
		if v, ok := os.LookupEnv(Variable(f.Name)); ok && v != "" {
			wrong = setFlag(cmd, f, Variable(f.Name), v)
		} else if s, ok := fromFile[f.Name]; ok {
			wrong = setFlag(cmd, f, fmt.Sprintf("%s:%d: %s", file, s.line, f.Name), s.value)
		}
	})
	return wrong
}

func setFlag(cmd *cobra.Command, f *pflag.Flag, where, value string) error {
	err := cmd.Flags().Set(f.Name, value)
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = bad.Unwrap()
	}
	return Usagef("%s %q: %v", where, RedactIfURL(value), err)
}

// A setting is one line of a settings file.
type setting struct {
	value string
	line  int
}

// readSettings reads a file of `flag: value` lines. What no command has a flag
// for is refused: it would be a promise nobody keeps.
func readSettings(file string, root *cobra.Command) (map[string]setting, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, Usagef("--config: %v", err)
	}
	return parseSettings(file, b, KnownFlags(root), pairFlags(root))
}

// parseSettings reads a file. pairs are the settings that are KEY=VALUE pairs: they may
// be a map.
func parseSettings(file string, b []byte, known, pairs map[string]bool) (map[string]setting, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, Usagef("%s: %s", file, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))
	}
	out := map[string]setting{}
	if len(doc.Content) == 0 {
		return out, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, Usagef("%s:%d: want lines such as lease: 5s", file, top.Line)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		k, v := top.Content[i], top.Content[i+1]
		key := strings.Map(OneLine, k.Value)
		name := strings.ReplaceAll(key, "_", "-")
		switch {
		case renamed[name] != "" && !known[name]:
			return nil, Usagef("%s:%d: %s: it is called %s now", file, k.Line, key, renamed[name])
		case !known[name]:
			return nil, Usagef("%s:%d: %s: there is no such setting%s", file, k.Line, key, nearest(name, known))
		case out[name].line != 0:
			return nil, Usagef("%s:%d: %s: it is set in line %d already", file, k.Line, key, out[name].line)
		case v.Kind == yaml.MappingNode && pairs[name]:
			var items []string
			for i := 0; i+1 < len(v.Content); i += 2 {
				if v.Content[i].Kind != yaml.ScalarNode || v.Content[i+1].Kind != yaml.ScalarNode {
					return nil, Usagef("%s:%d: %s: want lines such as zone: eu", file, v.Content[i].Line, key)
				}
				items = append(items, v.Content[i].Value+"="+v.Content[i+1].Value)
			}
			out[name] = setting{strings.Join(items, ","), v.Line}
		case v.Kind == yaml.SequenceNode:
			var items []string
			for _, x := range v.Content {
				if x.Kind != yaml.ScalarNode {
					return nil, Usagef("%s:%d: %s: want plain values in the list", file, x.Line, key)
				}
				items = append(items, x.Value)
			}
			out[name] = setting{strings.Join(items, ","), v.Line}
		case v.Kind != yaml.ScalarNode:
			return nil, Usagef("%s:%d: %s: want a plain value", file, v.Line, key)
		default:
			out[name] = setting{v.Value, v.Line}
		}
	}
	return out, nil
}

// KnownFlags are the settings of all commands: one file may serve several.
func KnownFlags(root *cobra.Command) map[string]bool {
	known := map[string]bool{}
	EachFlag(root, func(f *pflag.Flag) {
		if isSetting(f) {
			known[f.Name] = true
		}
	})
	return known
}

// pairFlags are the settings whose value is a list of KEY=VALUE pairs.
func pairFlags(root *cobra.Command) map[string]bool {
	out := map[string]bool{}
	EachFlag(root, func(f *pflag.Flag) {
		if f.Value.Type() == "stringToString" {
			out[f.Name] = true
		}
	})
	return out
}

// Facts are what a command is told about its message or ownership, by variables that begin
// with ROTA_ as settings do.
var Facts = []string{"GROUP", "MEMBER", "PARTITION", "TOKEN", "SESSION", "TOPIC", "META", "META_FILE", "LEASE_FILE",
	"MESSAGE_ID", "ATTEMPT", "MESSAGE_POSITION", "MESSAGE_TIME", "MESSAGE_KEY", "MESSAGE_KEY_BASE64", "MESSAGE_HEADERS", "MESSAGE_LEFT_OUT"}

// warnOfVariables says which variables look like misspelt settings, which would be
// ignored silently. They are not refused, as in a file: an environment also has what
// others put there.
func warnOfVariables(cmd *cobra.Command, env []string) {
	known := map[string]bool{}
	EachFlag(cmd.Root(), func(f *pflag.Flag) { known[f.Name] = true })
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, "ROTA_")
		flag := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		if !ours || value == "" || known[flag] || renamed[flag] != "" || len(flag) < 5 || slices.Contains(Facts, rest) {
			continue
		}
		if meant := closest(flag, known); meant != "" && meant+"s" != flag && flag+"s" != meant { // a plural of somebody else's
			fmt.Fprintf(cmd.ErrOrStderr(), "rota: warning: %s is no setting, and is ignored: is %s meant?\n", plain.Text(name), Variable(meant))
		}
	}
}

// nearest suggests what may have been meant.
func nearest(name string, known map[string]bool) string {
	best := closest(name, known)
	if best == "" {
		return "; see rota run --help"
	}
	return "; is " + best + " meant?"
}

// closest is the name that differs least, by two letters at most; "" if there is none.
func closest(name string, known map[string]bool) string {
	best, least := "", 3
	for k := range known {
		if d := distance(name, k); d < least || d == least && k < best {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters differ, as Levenshtein counts them.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost = 1 + min(diag, row[j], row[j+1])
			}
			diag, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
