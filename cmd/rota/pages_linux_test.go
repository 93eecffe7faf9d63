package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// TestCommandsOfThePagesRun types what the pages say, in their order, where a rota up is.
func TestCommandsOfThePagesRun(t *testing.T) {
	for name, value := range map[string]string{"ROTA_LEASE": "1m", "ROTA_HEARTBEAT": "10s", "ROTA_RATE": "5", "ROTA_PARTITIONS": "8"} { // nobody dies here, and a slow disk should not matter
		t.Setenv(name, value)
	}
	var commands [][]string
	for _, name := range pages {
		text, err := os.ReadFile(filepath.Join(repo, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range blockRE.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "sh" {
				commands = append(commands, commandsOf(m[2])...)
			}
		}
	}
	commands = slices.DeleteFunc(commands, func(words []string) bool { return holder(words) != ran })
	dir := t.TempDir()
	t.Chdir(dir)
	var ends []*trial.Process
	for _, words := range commands {
		line := strings.Join(words, " ")
		switch args := here(words[1:]); args[0] {
		case "up":
			ends = append(ends, trial.Start(t, dir, args...))
			trial.Until(t, line+": everybody runs something", func() bool { s := spread(status(t, dir)); return len(s) == 3 && s["c1"]*s["c2"]*s["c3"] > 0 })
		case "run":
			ends = append(ends, trial.Start(t, dir, args...))
			trial.Until(t, line+": it runs something", func() bool { return spread(status(t, dir))["c4"] > 0 })
		default:
			trial.Until(t, line+": exit 0", func() bool { code, _, _ := rotaRuns(t.Context(), args...); return code == 0 })
		}
	}
	if len(ends) != 2 || len(commands) < 6 {
		t.Errorf("%d processes, %d commands: what became of the README?", len(ends), len(commands))
	}
	for _, p := range slices.Backward(ends) {
		p.Process.Signal(syscall.SIGINT)
		if code := p.Code(); code != 0 {
			t.Errorf("%s: exit %d", strings.Join(p.Args[1:], " "), code)
		}
	}
}

// here replaces the store and the group of a command by those of this folder's rota up.
func here(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args[:len(args)-1] {
		switch arg {
		case "--store":
			args[i], args[i+1] = "--dir", connect.DefaultDir
		case "--group":
			args[i+1] = "demo"
		}
	}
	return args
}
