package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// VersionCmd prints what the binary was built from; notices are the licences of that.
func VersionCmd(notices string) *cobra.Command {
	var bill, texts bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say what this binary was built from",
		Long: `Version, commit, Go version and platform, in one line.
A copy built from a working tree has the version (devel).

--sbom lists the modules it was built from instead, with versions, checksums and
licences, as CycloneDX 1.5; --notices prints the texts of those licences.`,
		Example: `  rota version
  rota version --sbom >rota.cdx.json
  rota version --notices`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{GoVersion: runtime.Version()}
			}
			out := cmd.OutOrStdout()
			switch {
			case texts:
				_, err := io.WriteString(out, notices)
				return err
			case bill:
				return printBill(out, info, notices)
			}
			_, err := fmt.Fprintln(out, version(info))
			return err
		},
	}
	cmd.Flags().BoolVar(&bill, "sbom", false, "list the modules it was built from, as CycloneDX JSON")
	cmd.Flags().BoolVar(&texts, "notices", false, "print the licences of what others have made and this binary contains")
	cmd.MarkFlagsMutuallyExclusive("sbom", "notices")
	return cmd
}

func version(info *debug.BuildInfo) string {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	line := "rota " + cmp.Or(info.Main.Version, "(devel)")
	if commit := set["vcs.revision"]; commit != "" {
		line += " " + commit[:min(12, len(commit))]
		if set["vcs.modified"] == "true" {
			line += "+changes"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", line, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
