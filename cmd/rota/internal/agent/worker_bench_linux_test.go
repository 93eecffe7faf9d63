package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkCommands compares a process per message with workers: messages a second on
// one partition.
func BenchmarkCommands(b *testing.B) {
	for _, c := range []struct {
		name string
		argv []string
	}{{"message", []string{"/bin/sh", "-c", "cat >/dev/null"}}, {"python", []string{"python3", "../../../../examples/workers/worker.py"}}, {"node", []string{"node", "../../../../examples/workers/worker.js"}}} {
		b.Run(c.name, func(b *testing.B) {
			path, err := exec.LookPath(c.argv[0])
			if err != nil {
				b.Skip(err)
			}
			c.argv[0] = path
			k, err := startKeeper(50*time.Millisecond, os.Environ(), func(err error) {})
			if err != nil {
				b.Fatal(err)
			}
			defer k.Close()
			own := newHolding("q0")
			h := &handler{group: "g", member: "c1", deed: deed{kind: "worker", argv: append(c.argv, filepath.Join(b.TempDir(), "handled"))}, stopTime: time.Minute, keeper: k}
			defer h.workers.close()
			do := func() error { return h.work(b.Context(), message("value"), own) }
			if c.name == "message" {
				do = func() error {
					return k.run(b.Context(), own, command{argv: c.argv, stdin: []byte("value"), out: os.Stdout, err: os.Stderr})
				}
			}
			if err := do(); err != nil { // the start of a worker
				b.Fatal(err)
			}
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
