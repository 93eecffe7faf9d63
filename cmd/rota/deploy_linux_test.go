package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// TestComposeIsPlayed carries out the Compose file with processes in place of containers
// and a folder in place of the volume.
func TestComposeIsPlayed(t *testing.T) {
	c := readCompose(t)
	data := filepath.Join(t.TempDir(), "data")
	here := func(args []string) (out []string) {
		for _, arg := range args {
			arg = strings.ReplaceAll(arg, "/data/rota", filepath.Join(data, "rota"))
			if !strings.HasPrefix(arg, "--health=") { // each container has ports of its own
				out = append(out, arg)
			}
		}
		return out
	}
	trial.Start(t, t.TempDir(), here(c.Services["serve"].Command)...)
	trial.Until(t, "the health check of serve", func() bool {
		code, _, _ := rotaRuns(t.Context(), here(c.Services["serve"].HealthCheck.Test[2:])...)
		return code == 0
	})
	var members []*trial.Process
	for range c.Services["member"].Deploy.Replicas {
		members = append(members, trial.Start(t, t.TempDir(), here(c.Services["member"].Command)...))
	}
	trial.Start(t, t.TempDir(), here(c.Services["producer"].Command)...)
	for i, p := range members {
		trial.Until(t, "each member to handle messages", func() bool { return strings.Contains(p.Out.String(), "orders.") })
		if i == len(members)-1 {
			p.Process.Signal(syscall.SIGTERM)
			if code := p.Code(); code != 0 {
				t.Errorf("a member that is stopped ends with %d", code)
			}
		}
	}
}
