//go:build !mutants

package lab

import (
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

func TestWhereNoRuleCanBeTakenOutTheCommandSaysHow(t *testing.T) {
	for args, says := range map[string]string{
		"sim --mutants":                      "--mutants: this build has every rule in it and none can be taken out; run it so: go run -tags mutants ./cmd/rota sim --mutants",
		"sim --mutant lease-from-sending":    "--mutant lease-from-sending: this build has every rule in it and none can be taken out; run it so: go run -tags mutants ./cmd/rota sim --mutant lease-from-sending",
		"sim --mutant M666":                  `--mutant "M666": no rule is called "M666"; docs/rules.md lists them all`,
		"sim --mutant M6":                    `--mutant "M6": M6 is called lease-from-sending now`,
		"sim --mutant gone-with-descendants": "--mutant gone-with-descendants: no schedule can notice that; TestGoneIsToldWhenNothingIsLeft does",
	} {
		code, stdout, stderr := invoke(t.Context(), args)
		if want := "rota: " + says; code != cli.ExitUsage || stdout != "" || len(stderr) < len(want) || stderr[:len(want)] != want {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
