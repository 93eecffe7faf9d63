package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/rotatest"
)

// TestServeGoesOnAfterAFullDisk: while the disk of rota serve is full, it says so and what
// to do, and members stop in time and say the same. When there is space again all go on
// by themselves, and nobody has acted without a lease.
func TestServeGoesOnAfterAFullDisk(t *testing.T) {
	quick(t)
	disk, fill := rotatest.SmallDisk(t)
	dir := t.TempDir()
	data := filepath.Join(disk, "data")
	server := trial.Start(t, dir, "serve", "--dir", data)
	trial.Until(t, "the server", func() bool { return strings.Contains(server.Out.String(), "serving") })
	var files []string
	var members []*trial.Process
	for _, name := range []string{"m1", "m2"} {
		files = append(files, filepath.Join(dir, name+".jsonl"))
		members = append(members, trial.Start(t, dir, "run", "--dir", data, "--group", "g", "--name", name, "--source", "none:?partitions=4", "--own", "exec:sleep 1000",
			"--events", name+".jsonl", "--trace", "--rejoin", "--orphan", "10m", "--new-group",
			"--lease", "15s", "--heartbeat", "1s")) // a member that is given no time for a tenth of its lease aborts, and has not gone on
	}
	all := func(p func(*trial.Process) bool) func() bool {
		return func() bool { return p(members[0]) && p(members[1]) }
	}
	trial.Until(t, "both at work", all(func(m *trial.Process) bool { return strings.Contains(m.Err.String(), " runs p") }))
	free := fill()
	full := "no space is left for the folder " + data + ": make space"
	trial.Until(t, "a server that names its folder", func() bool { return strings.Contains(server.Err.String(), full) })
	trial.Until(t, "members that stop, and say why", all(func(m *trial.Process) bool {
		return strings.Contains(m.Err.String(), " has stopped p") && strings.Contains(m.Err.String(), full)
	}))
	was := make([]int, len(members))
	runs := func(i int) int { return strings.Count(members[i].Err.String(), " runs p") }
	for i := range members {
		was[i] = runs(i)
	}
	free()
	trial.Until(t, "a server that goes on", func() bool { return strings.Contains(server.Err.String(), "accepts writes again") })
	trial.Until(t, "partitions that run again", func() bool { return runs(0)+runs(1) >= was[0]+was[1]+4 })
	for _, m := range members {
		m.Process.Signal(syscall.SIGTERM)
		m.Code()
	}
	if code, stdout, stderr := rotaRuns(t.Context(), append([]string{"check"}, files...)...); code != 0 {
		t.Errorf("rota check: exit %d, %s%s", code, stdout, stderr)
	}
	trial.Tame(t, "rota serve", server.Err.String())
}

// TestUpGoesOnAfterAFullDisk: rota up shows what its server says, in its story.
func TestUpGoesOnAfterAFullDisk(t *testing.T) {
	quick(t)
	disk, fill := rotatest.SmallDisk(t)
	data := filepath.Join(disk, "data")
	up := trial.Start(t, t.TempDir(), "up", "--dir", data, "--members", "1", "--partitions", "2", "--rate", "20")
	told := func(what string) func() bool { return func() bool { return strings.Contains(up.Out.String(), what) } }
	trial.Until(t, "a member at work", told("c1 runs "))
	free := fill()
	trial.Until(t, "a server that names its folder", told("the server: error: the server cannot write, and acknowledges nothing; it goes on by itself when it can: no space is left for the folder "+data))
	free()
	trial.Until(t, "a server that goes on", told("the server accepts writes again"))
}
