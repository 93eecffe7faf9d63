package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// TestUpFollowsNoLinkInItsFolder: what somebody has planted in the folder of a rota up
// leads to no other file, also where the folder is said to be shared.
func TestUpFollowsNoLinkInItsFolder(t *testing.T) {
	for _, name := range []string{"rota.up", "events.jsonl"} {
		for _, shared := range []bool{false, true} {
			home := t.TempDir()
			dir, victim := filepath.Join(home, "data"), filepath.Join(home, "victim")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "rota.lock"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			args := []string{"up", "--dir", dir, "--members", "1", "--partitions", "1", "--for", "1s"}
			if shared {
				args = append(args, "--shared-folder")
			}
			p := trial.Start(t, home, args...)
			if code := p.Code(); code == 0 || !strings.Contains(p.Err.String(), filepath.Join(dir, name)+" is not safe to use: it is a symbolic link") {
				t.Errorf("%s, shared %v: exit %d: %s", name, shared, code, &p.Err)
			}
			if b, err := os.ReadFile(victim); string(b) != "precious" {
				t.Errorf("%s, shared %v: the victim holds %q, %v", name, shared, b, err)
			}
		}
	}
}
