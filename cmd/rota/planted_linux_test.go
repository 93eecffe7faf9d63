package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
			p := start(t, home, args...)
			if code := p.code(); code == 0 || !strings.Contains(p.err.String(), filepath.Join(dir, name)+" is not safe to use: it is a symbolic link") {
				t.Errorf("%s, shared %v: exit %d: %s", name, shared, code, &p.err)
			}
			if b, err := os.ReadFile(victim); string(b) != "precious" {
				t.Errorf("%s, shared %v: the victim holds %q, %v", name, shared, b, err)
			}
		}
	}
}

// TestAPipeInTheFolderHoldsUpNobody: opening it for writing would wait for a reader.
func TestAPipeInTheFolderHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "events.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := newEventFile(dir); err == nil {
		f.Close()
		t.Error("events are written to a pipe")
	}
}
