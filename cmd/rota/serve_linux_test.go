package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeEndsWhenItsFolderIsTakenAway: rota serve and rota up end and say why, so
// that no second group lives in a new folder at the same place for long.
func TestServeEndsWhenItsFolderIsTakenAway(t *testing.T) {
	for _, verb := range [][]string{{"serve", "--listen", freePort(t)}, {"up", "--members", "1"}} {
		t.Run(verb[0], func(t *testing.T) {
			dir := t.TempDir()
			data := filepath.Join(dir, defaultDir)
			p := start(t, dir, append(verb, "--dir", data)...)
			until(t, "the server", func() bool { return strings.Contains(p.out.String(), data) })
			if err := os.Rename(data, data+".old"); err != nil {
				t.Fatal(err)
			}
			if code, said := p.code(), p.err.String(); code == 0 || !strings.Contains(said, data+" was removed or replaced while it was in use: end all processes") {
				t.Errorf("exit %d, %q", code, said)
			}
		})
	}
}
