package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/plain"
)

// Whatever others wrote, a command says what it has to say in printable lines.

// FuzzConfigFile reads whole files that --config names: each value is taken by its
// flag or refused in one line that says where it stands.
func FuzzConfigFile(f *testing.F) {
	for _, s := range []string{"lease: 5s\nheartbeat: 2s\n", "lease: 5\n", "lease: \"5s\\e[2J\"\n", "name: !!binary gIGCgw==\n", "group: &a g\nname: *a\n", "label: [a=1, b=2]\n",
		"store: nats://u:pw@h\nsource: \"nats://u:pw@h?\\n\"\n", "\"le\\u202ease\": 5s\n", "shared-folder: perhaps\n", "a: b: c", "{lease: 5s", "--- \n...\n---\nlease: 1s"} {
		f.Add([]byte(s))
	}
	file := filepath.Join(f.TempDir(), "rota.yaml")
	f.Fuzz(func(t *testing.T, b []byte) {
		defer connect.SharedFolder.Store(false)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, _, err := rootCmd().Find([]string{"run"})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags([]string{"--config", file}); err != nil {
			t.Fatal(err)
		}
		if err := cli.ApplySettings(cmd); err != nil {
			if text := err.Error(); !cli.IsUsage(err) || strings.Contains(text, "\n") || !strings.HasPrefix(text, file+":") {
				t.Errorf("refused with %q", text)
			}
			trial.Tame(t, "a refusal", plain.Lines(err.Error()))
		}
	})
}
