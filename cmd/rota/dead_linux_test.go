package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// deadHandler finds messages bad, or fails, until the file fixed exists.
const deadHandler = `#!/bin/sh
read message
[ -e %dir/fixed ] && exit 0
case $message in bad*) exit 65 ;; away*) exit 1 ;; esac
`

// TestB_Ops_DeadLettersAreSeenAndReplayed goes the way of an operator: a partition whose
// handler fails is seen, a dead letter too, and each is over when the cause is.
func TestB_Ops_DeadLettersAreSeenAndReplayed(t *testing.T) {
	y := newYard(t)
	handler, fixed := filepath.Join(y.dir, "handle.sh"), filepath.Join(y.dir, "fixed")
	if err := os.WriteFile(handler, []byte(strings.ReplaceAll(deadHandler, "%dir", y.dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	src := y.source(2)
	p := y.member("c1", "--source", src, "--handle", "exec:"+handler)
	dead := func(args ...string) []string { return append(append([]string{"dead"}, args...), "--source", src) }
	send := func(partition, text string) { y.must("produce", "--source", src, "--partition", partition, text) }
	y.says("runs", "status")
	if got := y.must(dead("list")...); got != "there are no dead letters\n" {
		t.Errorf("before the first: %q", got)
	}

	send("orders.0", "away")
	y.says("It runs, and its messages wait", "explain", "orders.0")
	y.says("c1 says: its handler has failed since ", "explain", "orders.0")
	y.says("attempts: the command exited with status 1", "status")
	y.says("It runs, and waits for nothing.", "explain", "orders.1")

	send("orders.1", "bad one")
	send("orders.1", "bad two")
	y.says("2 messages were dead-lettered since", "status")
	y.says("2   orders.1", dead("list")...)
	y.says("the message is bad: the command exited with status 65", dead("list", "--partition", "orders.1")...)
	code, stdout, stderr := y.rota(dead("show", "1")...)
	if code != 0 || !strings.HasPrefix(stdout, "bad one") || !strings.Contains(stderr, "of orders.1, group g") || !strings.Contains(stderr, "after 1 attempt: the message is bad") {
		t.Errorf("show: exit %d, %q, %q", code, stdout, stderr)
	}
	var shape struct {
		Value   []byte
		Reason  string
		Headers []struct{ Key string }
	}
	if err := json.Unmarshal([]byte(y.must(dead("show", "1", "-o", "json")...)), &shape); err != nil || !strings.HasPrefix(string(shape.Value), "bad one") {
		t.Errorf("show -o json: %+v, %v", shape, err)
	}

	code, stdout, stderr = y.rota(dead("replay", "1")...)
	if code != cli.ExitFailed || !strings.Contains(stdout, "1: failed again, and is letter 3 now: the message is bad") || !strings.Contains(stderr, "1 letter of 1 failed again") {
		t.Errorf("replay of what is still bad: exit %d, %q, %q", code, stdout, stderr)
	}
	if err := os.WriteFile(fixed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	y.says("It runs, and waits for nothing.", "explain", "orders.0")
	if got := y.must(dead("replay", "--partition", "orders.1")...); strings.Count(got, ": handled, message ") != 2 {
		t.Errorf("replay: %q", got)
	}
	if got := y.must(dead("list", "-o", "json")...); got != "[]\n" {
		t.Errorf("after the replay: %q", got)
	}
	if err := os.Remove(fixed); err != nil {
		t.Fatal(err)
	}
	send("orders.1", "bad three")
	y.says("4   ", dead("list")...)
	if got := y.must(dead("drop", "4")...); !strings.HasPrefix(got, "4: dropped, message ") {
		t.Errorf("drop: %q", got)
	}
	code, _, stderr = y.rota(dead("drop", "4")...)
	if code != cli.ExitFailed || !strings.Contains(stderr, `there is no dead letter "4"`) {
		t.Errorf("drop again: exit %d, %q", code, stderr)
	}
	for args, says := range map[string]string{
		"dead replay": "say which letters",
		"partitions set orders.0 rota.replay=1 a=b": "keys that begin with rota. are rota's own",
	} {
		all := strings.Fields(args)
		if all[0] == "dead" {
			all = dead(all[1:]...)
		}
		if code, _, stderr := y.rota(all...); code != cli.ExitUsage || !strings.Contains(stderr, says) {
			t.Errorf("rota %s: exit %d, %q", args, code, stderr)
		}
	}
	if got := y.must("partitions", "list"); strings.Contains(got, "rota.") {
		t.Errorf("partitions list shows what is rota's own: %q", got)
	}
	p.Process.Signal(syscall.SIGTERM)
	if code := p.Code(); code != 0 {
		t.Errorf("exit %d", code)
	}
	events, _ := os.ReadFile(filepath.Join(y.dir, "c1.jsonl"))
	if n := strings.Count(string(events), `"event":"dead_letter"`); n != 3 {
		t.Errorf("%d dead letters were told as events, want 3", n)
	}
	trial.Tame(t, "standard error", p.Err.String())
}
