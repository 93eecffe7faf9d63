package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// liveMembers are the members that live.
func liveMembers(st rota.Status) (out []rota.MemberInfo) {
	for _, m := range st.Members {
		if m.State == rota.MemberLive {
			out = append(out, m)
		}
	}
	return out
}

// TestUpGrowsAndShrinksWithItsLoad: members come with the load, stay when their leader is
// killed, and go when they own nothing; none is left when rota up is killed.
func TestUpGrowsAndShrinksWithItsLoad(t *testing.T) {
	quick(t)
	t.Setenv("ROTA_UP_AFTER", "1s")
	t.Setenv("ROTA_DOWN_AFTER", "2s")
	t.Setenv("ROTA_INTERVAL", "1s")
	t.Setenv("ROTA_COOL_DOWN", "1s")
	dir := t.TempDir()
	up := trial.Start(t, dir, "up", "--scale", "1..6", "--partitions", "8", "--rate", "30", "--capacity", "100")
	trial.Until(t, "a member and a spare one", func() bool { return len(liveMembers(status(t, dir))) == 2 })
	trial.In(t, up.Out.String(), "rota up: group demo, 1 to 6 members, 8 partitions, 30 messages/s")

	load := trial.Start(t, dir, "produce", "--rate", "200")
	trial.Until(t, "four members", func() bool { return len(liveMembers(status(t, dir))) >= 4 })

	var leader rota.MemberInfo
	trial.Until(t, "a leader", func() bool {
		st := status(t, dir)
		for _, m := range liveMembers(st) {
			if m.Session == st.Leader {
				leader = m
			}
		}
		return leader.PID != 0
	})
	before := strings.Count(up.Out.String(), "is leaving")
	syscall.Kill(leader.PID, syscall.SIGKILL)
	trial.Until(t, "four members after the leader was killed", func() bool {
		n := 0
		for _, m := range liveMembers(status(t, dir)) {
			if m.Session != leader.Session {
				n++
			}
		}
		return n >= 4
	})
	if after := strings.Count(up.Out.String(), "is leaving"); after != before {
		t.Errorf("%d members left because their leader was killed", after-before)
	}

	load.Process.Kill()
	trial.Until(t, "a member and a spare one again", func() bool { return len(liveMembers(status(t, dir))) == 2 })
	if out := up.Out.String(); strings.Contains(out, ": leaving") {
		t.Error("a member was ended that owned something")
	}
	trial.Until(t, "word of a member that left", func() bool { return strings.Contains(up.Out.String(), "exit 0, left in good order") })

	var pids []int
	for _, m := range liveMembers(status(t, dir)) {
		pids = append(pids, m.PID)
	}
	up.Process.Kill()
	trial.Until(t, "the end of all members", func() bool { return !trial.Alive(pids[0]) && !trial.Alive(pids[1]) })
	if code, stdout, stderr := rotaRuns(t.Context(), "check", filepath.Join(dir, connect.DefaultDir, "events.jsonl")); code != 0 {
		t.Errorf("rota check: %s%s", stdout, stderr)
	}
}

func TestScaleOfUpIsChecked(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"--scale 3":                 "want the least and the most",
		"--scale 0..3":              "want the least and the most",
		"--scale 1..99":             "--scale 1..99: 64 members are the most on one machine",
		"--scale 2..4 --members 5":  "--members 5 is not within --scale 2..4: leave --members out",
		"--capacity 5":              "--capacity is for --scale, which is missing",
		"--scale 1..2 --capacity 0": "--capacity",
	} {
		if code, _, stderr := rotaRuns(t.Context(), append([]string{"up", "--dir", filepath.Join(dir, "x")}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s, want %s", args, code, stderr, want)
		}
	}
}
