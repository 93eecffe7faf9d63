package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// A scenario file may be anybody's, as part of a report of a bug.
func TestWhatOthersWroteIsTameInStories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s\x1b[2J.txt")
	text := "group partitions=2\njoin c\x1b]0;x\x07\u202e1\nstabilize\n----\nseen\u009b2J by nobody\x1b[2J\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := rotaRuns(t.Context(), "sim", "--replay", file)
	if code != cli.ExitFailed || !strings.Contains(stdout, "missing:") || strings.Count(stdout, "]0;x") < 2 {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	trial.Tame(t, "sim --replay", stdout+stderr)
	if err := os.WriteFile(file, []byte("\x1b[2J c1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr = rotaRuns(t.Context(), "sim", "--replay", file)
	trial.Tame(t, "a scenario that is none", stderr)
}
