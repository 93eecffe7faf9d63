package agent

import (
	"slices"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What a command finds in its environment is the environment of rota without the
// variables that are rota's own. A setting such as ROTA_STORE may hold a password,
// which is no business of a handler. And a rota that runs below the handler of
// another one has inherited that one's ROTA_TOKEN: with two values in one
// environment, some programs read the first and some the last.

// ownVariables are the names of all variables that rota reads or sets.
func ownVariables(root *cobra.Command) map[string]bool {
	own := map[string]bool{}
	for _, key := range cli.Facts {
		own["ROTA_"+key] = true
	}
	cli.EachFlag(root, func(f *pflag.Flag) { own[cli.Variable(f.Name)] = true })
	return own
}

// ChildEnv takes the variables of all commands below root out of an environment.
func ChildEnv(env []string, root *cobra.Command) []string {
	own := ownVariables(root)
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return own[name]
	})
}
