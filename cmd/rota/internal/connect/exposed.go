package connect

import (
	"fmt"
	"slices"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// secretFiles are parameters of URLs, and flags, that name a file with a secret.
var secretFiles = []string{"password-file", "secret-file", "token-file", "creds", "key"}

// WarnOfExposed warns of each file with a secret that other users may read.
func WarnOfExposed(cmd *cobra.Command) {
	var files []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case slices.Contains(secretFiles, f.Name):
			files = append(files, f.Value.String())
		case f.Name == "store" || f.Name == "source" || f.Name == "scaler":
			for _, name := range secretFiles {
				files = append(files, cli.Parameters(f.Value.String()).Get(name))
			}
		}
	})
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		if mode, exposed := rotanats.Exposed(file); exposed && file != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "rota: warning: other users may read the secret in %s (mode %04o): chmod 600 %[1]s\n", plain.Text(file), mode)
		}
	}
}
