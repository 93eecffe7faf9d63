package main

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
		if code != exitUsage || stdout.String() != "" || stderr.String() != "rota: "+c.says+"\n" {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q, want exit %d and %q",
				c.args, code, &stdout, &stderr, exitUsage, c.says)
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

func TestOnlyWorkThatBeganExits1(t *testing.T) {
	var began bool
	root := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
	sub := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return errors.New("broken") }}
	sub.Flags().String("need", "", "")
	if err := sub.MarkFlagRequired("need"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(sub)
	prepare(root, func() { began = true }, func(*cobra.Command) {})

	root.SetArgs([]string{"do"})
	if err := root.ExecuteContext(context.Background()); err == nil || began {
		t.Errorf("without its required flag: err %v, began %v", err, began)
	}
	root.SetArgs([]string{"do", "--need", "it"})
	if err := root.ExecuteContext(context.Background()); err == nil || !began {
		t.Errorf("with its required flag: err %v, began %v", err, began)
	}
}

func TestVersionNamesCommitAndChanges(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0"}
	info.Main.Version = "v1.2.3"
	info.Settings = []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.modified", Value: "true"},
	}
	if got := version(info); !strings.HasPrefix(got, "rota v1.2.3 0123456789ab+changes go1.26.0 ") {
		t.Errorf("version: %q", got)
	}
	if got := version(&debug.BuildInfo{GoVersion: "go1.26.0"}); !strings.HasPrefix(got, "rota (devel) go1.26.0 ") {
		t.Errorf("version of a working tree: %q", got)
	}
}

// in asks that all of want stand in got, in that order.
func in(t *testing.T, got string, want ...string) {
	t.Helper()
	rest := got
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("no %q, or not in its place, in\n%s", w, got)
			return
		}
		rest = after
	}
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
