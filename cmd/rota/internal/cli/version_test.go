package cli

import (
	"runtime/debug"
	"strings"
	"testing"
)

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
