//go:build linux

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/servers"
)

// The workers of the examples handle every message in order, while one of them is killed
// and a member leaves.
func TestB_Agent_WorkersOfTheExamples(t *testing.T) {
	t.Parallel()
	h := serveEmbedded(t)
	t.Run("workers", func(t *testing.T) {
		for _, per := range []string{"partition", "member"} {
			for _, l := range []struct {
				name string
				find func() (string, error)
			}{{"worker.py", servers.FindPython}, {"worker.js", servers.FindNode}} {
				t.Run(per+"-"+l.name, func(t *testing.T) {
					t.Parallel()
					argv := need(t, l.find) + " " + example(t, "workers/"+l.name)
					workersHandle(newCrew(t, h, 4), argv, per)
				})
			}
		}
	})
}

func workersHandle(c *crew, argv, per string) {
	file := filepath.Join(c.dir, "handled")
	c.tune = []string{"--handle", "worker:" + argv + " " + file, "--worker-per", per}
	c.join(false, "c1", "c2")
	m := c.grind(20 * time.Millisecond)
	c.until("both to handle messages", func() bool {
		return c.newest("c1").told("handled") > 5 && c.newest("c2").told("handled") > 5
	})
	var victim int
	for _, pid := range below(c.member("c1").cmd.Process.Pid) {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(b), "examples/workers/") {
			victim = pid
		}
	}
	if victim == 0 {
		c.Fatal("no worker is found")
	}
	syscall.Kill(victim, syscall.SIGKILL)
	at := len(readHandled(file))
	c.until("more messages", func() bool { return len(readHandled(file)) > at+20 })
	c.member("c2").signal(syscall.SIGTERM)
	if code := c.member("c2").code(); code != 0 {
		c.Errorf("exit %d", code)
	}
	m.stop()
	m.done.Wait()
	c.until("all messages", func() bool { return c.missing(readHandled(file), m.sent) == 0 })
	next := map[string]int{}
	for _, l := range readHandled(file) {
		var partition, token string
		var attempt, n int
		if _, err := fmt.Sscan(l, &partition, &token, &attempt, &n); err != nil {
			c.Fatalf("%q: %v", l, err)
		}
		if n > next[partition] {
			c.Errorf("%s: message %d comes before %d", partition, n, next[partition])
		}
		next[partition] = max(next[partition], n+1)
	}
	if err := c.judge(); err != nil {
		c.Error(err)
	}
}

func readHandled(file string) []string {
	b, _ := os.ReadFile(file)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// missing is how many messages were not handled yet.
func (c *crew) missing(handled []string, sent []int) (n int) {
	seen := map[string]bool{}
	for _, l := range handled {
		if f := strings.Fields(l); len(f) == 4 {
			seen[f[0]+" "+f[3]] = true
		}
	}
	for p, last := range sent {
		for i := range last {
			if !seen[fmt.Sprintf("%s.%d %d", c.stream(), p, i)] {
				n++
			}
		}
	}
	return n
}
