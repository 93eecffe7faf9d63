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

// TestMutantRow: a row per defect, and for a single one the file that shows it.
func TestMutantRow(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), "sim --mutant M2")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "M2   dead before the lease is over ") {
		t.Fatalf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	_, file, ok := strings.Cut(stdout, "for internal/scenario/files:\n\n")
	if !ok {
		t.Fatalf("no scenario in\n%s", stdout)
	}
	path := filepath.Join(t.TempDir(), "m2.txt")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := invoke(t.Context(), "sim --replay "+path); code != 0 {
		t.Errorf("without the defect:\n%s", stdout)
	}
	if code, stdout, _ := invoke(t.Context(), "sim --mutant M2 --replay "+path); code != cli.ExitFailed || !strings.HasPrefix(stdout, "scenario m2, with defect M2 in\n") {
		t.Errorf("with it: exit %d\n%s", code, stdout)
	}
}

// TestMutantMissedFails: a defect that one schedule does not show.
func TestMutantMissedFails(t *testing.T) {
	code, stdout, _ := invoke(t.Context(), "sim --mutant M26 --schedules 1 -o json")
	var rows []huntRow
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if code != cli.ExitFailed || len(rows) != 1 || rows[0].Caught || rows[0].ID != "M26" || rows[0].Schedules != 1 {
		t.Errorf("exit %d, %+v", code, rows)
	}
}
