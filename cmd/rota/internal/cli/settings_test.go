package cli

import (
	"strings"
	"testing"
)

// Whatever a settings file holds, it is taken or refused in one line.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{"lease: 5s\n", "lease: [a, b]\nname: {x: y}\n", "- x", "lease: 5s\nlease: 5s", "a: &x [*x]", "\x00", "label: [[1]]", "label: {a: b, c: d}", "label: {a: [b]}", "label: {? [a] : b}", "? [a]\n: b", "!!binary x: y", "\"a\\nb\": c"} {
		f.Add([]byte(s))
	}
	known := map[string]bool{"lease": true, "name": true, "label": true, "store": true, "start-gate": true}
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := parseSettings("rota.yaml", b, known, map[string]bool{"label": true})
		if err != nil && (!IsUsage(err) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("refused with %q", err)
		}
		for name, s := range set {
			if err == nil && (!known[name] || s.line < 1) {
				t.Errorf("took %q of line %d", name, s.line)
			}
		}
	})
}
