package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

func TestUsageErrorsExit64WithOneLine(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"nonsense", `unknown command "nonsense"; see rota --help`},
		{"vesion", `unknown command "vesion", did you mean version?`},
		{"--nonsense", "unknown flag: --nonsense; see rota --help"},
		{"version --nonsense", "unknown flag: --nonsense; see rota version --help"},
		{"version nonsense", `unknown command "nonsense" for "rota version"`},
		{"help nonsense", `no help on "nonsense"; see rota --help`},
		{"completion nonsense", `unknown command "nonsense"; see rota completion --help`},
	} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if code != cli.ExitUsage || stdout.String() != "" || stderr.String() != "rota: "+c.says+"\n" {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q, want exit %d and %q",
				c.args, code, &stdout, &stderr, cli.ExitUsage, c.says)
		}
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	for _, args := range []string{"", "--help", "help", "help version", "version --help", "completion"} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), strings.Fields(args), &stdout, &stderr)
		if code != 0 || stderr.String() != "" || !strings.Contains(stdout.String(), "Usage:") {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q", args, code, &stdout, &stderr)
		}
	}
}

func TestEveryCommandShowsAnExample(t *testing.T) {
	root := rootCmd()
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Name() != "help" && cmd.Name() != "completion" && cmd.Example == "" {
			t.Errorf("%s --help has no example", cmd.CommandPath())
		}
	}
}

func TestVersionTellsWhatOthersHaveMade(t *testing.T) {
	code, stdout, stderr := rotaRuns(t.Context(), "version", "--notices")
	if code != 0 || stdout != notices || !strings.Contains(stdout, "== github.com/nats-io/nats-server/v2 ") || !strings.Contains(stdout, "Redistributions in binary form must reproduce") {
		t.Errorf("exit %d, %.200q, %q", code, stdout, stderr)
	}
	if code, _, stderr := rotaRuns(t.Context(), "version", "--notices", "--sbom"); code != cli.ExitUsage {
		t.Errorf("both at once: exit %d, %q", code, stderr)
	}
	code, stdout, stderr = rotaRuns(t.Context(), "version", "--sbom")
	if code != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("exit %d, %.200q, %q", code, stdout, stderr)
	}
}
