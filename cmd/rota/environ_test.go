package main

import (
	"slices"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/agent"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/spf13/pflag"
)

// Whatever rota reads from its environment is kept from its children.
func TestEverySettingIsKeptFromChildren(t *testing.T) {
	root := rootCmd()
	env := []string{"PATH=/bin", "ROTATION=1", "MY_ROTA_STORE=x", "ROTA_HOUSE=mine"}
	kept := slices.Clone(env)
	for name := range cli.KnownFlags(root) {
		env = append(env, cli.Variable(name)+"=secret")
	}
	for _, name := range []string{"ROTA_CONFIG", "ROTA_TOKEN", "ROTA_SESSION", "ROTA_MESSAGE_ID", "ROTA_ATTEMPT", "ROTA_PARTITION", "ROTA_LEASE_FILE", "ROTA_MEMBER", "ROTA_MESSAGE_KEY"} {
		env = append(env, name+"=x")
	}
	if got := agent.ChildEnv(env, root); !slices.Equal(got, kept) {
		t.Errorf("children find %q, want %q", got, kept)
	}
	n := 0
	cli.EachFlag(root, func(*pflag.Flag) { n++ })
	if n < 50 {
		t.Errorf("only %d flags were looked at", n)
	}
}
