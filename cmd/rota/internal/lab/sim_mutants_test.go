//go:build mutants

package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

// TestMutantRow: a row per rule, and for a single one the file that shows its lack.
func TestMutantRow(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), "sim --mutant dead-after-the-lease")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "dead-after-the-lease           dead before the lease is over ") {
		t.Fatalf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	_, file, ok := strings.Cut(stdout, "for internal/scenario/files:\n\n")
	if !ok {
		t.Fatalf("no scenario in\n%s", stdout)
	}
	path := filepath.Join(t.TempDir(), "kept.txt")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := invoke(t.Context(), "sim --replay "+path); code != 0 {
		t.Errorf("with the rule in:\n%s", stdout)
	}
	if code, stdout, _ := invoke(t.Context(), "sim --mutant dead-after-the-lease --replay "+path); code != cli.ExitFailed || !strings.HasPrefix(stdout, "scenario kept, without dead-after-the-lease\n") {
		t.Errorf("without it: exit %d\n%s", code, stdout)
	}
}

// TestMutantMissedFails: a lack that one schedule does not show.
func TestMutantMissedFails(t *testing.T) {
	code, stdout, _ := invoke(t.Context(), "sim --mutant expiry-before-drop --schedules 1 -o json")
	var rows []huntRow
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if code != cli.ExitFailed || len(rows) != 1 || rows[0].Caught || rows[0].Name != "expiry-before-drop" || rows[0].Schedules != 1 {
		t.Errorf("exit %d, %+v", code, rows)
	}
}
