package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// A member with a message in hand gets one SIGTERM after the other, as from a
// supervisor that repeats itself. Those of the first second are one request to leave;
// the next one ends the process.
func TestRepeatedSignalsAreOneForASecond(t *testing.T) {
	y := newYard(t)
	p := y.member("c1", "--source", y.source(1), "--handle", "sleep:10m")
	y.says("runs", "status")
	y.must("produce", "--source", y.source(1), "--partition", "orders.0", "m1")
	trial.Until(t, "a message in hand", func() bool {
		events, _ := os.ReadFile(filepath.Join(y.dir, "c1.jsonl"))
		return strings.Contains(string(events), `"event":"handle"`)
	})
	first := time.Now()
	trial.Until(t, "its end", func() bool {
		p.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.Exited:
			return true
		default:
			return false
		}
	})
	if took := time.Since(first); took < time.Second {
		t.Errorf("it ended after %v: signals of one second are one", took)
	}
	if s := p.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, not by a later signal", p.ProcessState)
	}
}
