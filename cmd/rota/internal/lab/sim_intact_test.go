//go:build !mutants

package lab

import (
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

func TestWithoutDefectsTheCommandSaysHow(t *testing.T) {
	for args, says := range map[string]string{
		"sim --mutants":     "--mutants: this build has every rule in it and none can be taken out; run it so: go run -tags mutants ./cmd/rota sim --mutants",
		"sim --mutant M6":   "--mutant M6: this build has every rule in it and none can be taken out; run it so: go run -tags mutants ./cmd/rota sim --mutant M6",
		"sim --mutant M666": `--mutant "M666": no defect is called so; known are `,
	} {
		code, stdout, stderr := invoke(t.Context(), args)
		if want := "rota: " + says; code != cli.ExitUsage || stdout != "" || len(stderr) < len(want) || stderr[:len(want)] != want {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
