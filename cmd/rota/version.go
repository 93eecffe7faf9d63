package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say what this binary was built from",
		Long: `Version, commit, Go version and platform, in one line.
A copy built from a working tree has the version (devel).`,
		Example: `  rota version`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{GoVersion: runtime.Version()}
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version(info))
			return err
		},
	}
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
