package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// A rota that was itself started by the handler of another one, with its settings
// in the environment: its command and its watchdog find none of the settings, and
// its command finds each fact once, with this rota's value.
func TestCommandsFindNoSettingsAndEachFactOnce(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		"ROTA_STORE": "mem:", "ROTA_SOURCE": "none:?names=mine", "ROTA_GROUP": "inner", "ROTA_NEW_GROUP": "true", "ROTA_LEASE": "20s",
		"ROTA_TOKEN": "999", "ROTA_PARTITION": "outer.7", "ROTA_SESSION": "outer", "ROTA_MESSAGE_ID": "outer-1", "ROTA_ATTEMPT": "4",
		"ROTA_OWN":   "exec:cat /proc/$$/environ >" + dir + "/command; cat /proc/$PPID/environ >" + dir + "/watchdog; touch " + dir + "/done; sleep 1000",
		"NOT_ROTA_S": "kept",
	} {
		t.Setenv(name, value)
	}
	p := trial.Start(t, dir, "run")
	trial.Until(t, "the command", func() bool { _, err := os.Stat(filepath.Join(dir, "done")); return err == nil })
	p.Process.Kill()
	read := func(name string) []string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	}
	command, watchdog := map[string][]string{}, read("watchdog")
	for _, entry := range read("command") {
		name, value, _ := strings.Cut(entry, "=")
		command[name] = append(command[name], value)
	}
	for name, want := range map[string]string{"ROTA_GROUP": "inner", "ROTA_PARTITION": "mine", "NOT_ROTA_S": "kept"} {
		if got := command[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("the command finds %s=%q, want %q once", name, got, want)
		}
	}
	for _, name := range []string{"ROTA_TOKEN", "ROTA_SESSION"} {
		if got := command[name]; len(got) != 1 || got[0] == "999" || got[0] == "outer" {
			t.Errorf("the command finds %s=%q, want this rota's alone", name, got)
		}
	}
	for _, name := range []string{"ROTA_STORE", "ROTA_SOURCE", "ROTA_NEW_GROUP", "ROTA_LEASE", "ROTA_OWN", "ROTA_MESSAGE_ID", "ROTA_ATTEMPT"} {
		if got := command[name]; got != nil {
			t.Errorf("the command finds %s=%q", name, got)
		}
	}
	own := ownVariables(agentRoot())
	for _, entry := range watchdog {
		if name, _, _ := strings.Cut(entry, "="); own[name] {
			t.Errorf("the watchdog finds %s", entry)
		}
	}
}

func TestFactsAreRotasOwn(t *testing.T) {
	h := &handler{group: "g"}
	for _, a := range h.factsOf(rota.Message{ID: "1", Time: time.Now(), Key: []byte{0}, Headers: []rota.Header{{Key: "x", Value: make([]byte, mostHeaders)}}}) {
		if !slices.Contains(cli.Facts, a.key) {
			t.Errorf("%s is told to commands and not among the variables that are rota's own", a.key)
		}
	}
}
