package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// VersionCmd prints what the binary was built from; notices are the licences of that.
func VersionCmd(notices string) *cobra.Command {
	var bill, texts bool
	output := "table"
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say what this binary was built from",
		Long: `Version, commit, Go version and platform, in one line.
A copy built from a working tree has the version (devel).

--sbom lists the modules it was built from instead, with versions, checksums and
licences, as CycloneDX 1.5; --notices prints the texts of those licences.`,
		Example: `  rota version
  rota version -o json
  rota version --sbom >rota.cdx.json
  rota version --notices`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, out := buildInfo(), cmd.OutOrStdout()
			switch {
			case texts:
				_, err := io.WriteString(out, notices)
				return err
			case bill:
				return printBill(out, info, notices)
			case output == "json":
				enc := json.NewEncoder(out)
				enc.SetIndent("", "  ")
				return enc.Encode(buildOf(info))
			}
			_, err := fmt.Fprintln(out, version(info))
			return err
		},
	}
	cmd.Flags().BoolVar(&bill, "sbom", false, "list the modules it was built from, as CycloneDX JSON")
	cmd.Flags().BoolVar(&texts, "notices", false, "print the licences of what others have made and this binary contains")
	cmd.Flags().VarP(OneWord(&output, "table", "json"), "output", "o", "how to print it")
	cmd.MarkFlagsMutuallyExclusive("sbom", "notices")
	return cmd
}

// Version is what rota --version says.
func Version() string { return version(buildInfo()) }

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return info
}

// A Build is what a binary was built from.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`  // empty if it is not known
	Changes bool   `json:"changes"` // beyond that commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func buildOf(info *debug.BuildInfo) Build {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	return Build{cmp.Or(info.Main.Version, "(devel)"), set["vcs.revision"], set["vcs.modified"] == "true", info.GoVersion, runtime.GOOS, runtime.GOARCH}
}

func version(info *debug.BuildInfo) string {
	b := buildOf(info)
	line := "rota " + b.Version
	if b.Commit != "" {
		line += " " + b.Commit[:min(12, len(b.Commit))]
		if b.Changes {
			line += "+changes"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", line, b.Go, b.OS, b.Arch)
}
