//go:build linux

package processes

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// Every time is a setting. What cannot work together is refused by one line with both
// numbers; what can is what the group then shows and does.
func TestS2_Knobs_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 4)
		for _, bad := range []struct {
			flags string
			says  []string // both numbers
		}{
			{"--lease 2s --heartbeat 1s", []string{"1s", "2s"}},
			{"--lease 1s --heartbeat 5s", []string{"1s", "5s"}},
			{"--lease 100s --stop-time 5s", []string{"5s", "1m40s"}},
			{"--lease 5s --heartbeat 2s --backoff-first 9s --backoff-last 3s", []string{"9s", "3s"}},
			{"--return 9s --name", []string{"9s", "name"}},
			{"--strategy pack --target 0.9 --trigger 0.8", []string{"0.9", "0.8"}},
			{"--lease 48h", []string{"48h", "24h"}},
		} {
			flags := strings.Fields(bad.flags)
			if flags[len(flags)-1] == "--name" {
				flags[len(flags)-1] = "--name="
			}
			cmd := exec.Command(c.rota, append([]string{"run", "--group", "g", "--source", "none:?partitions=4", "--own", "exec:true"}, flags...)...)
			cmd.Env = append(os.Environ(), "ROTA_STORE="+c.storeURL())
			var says bytes.Buffer
			cmd.Stderr = &says
			err := cmd.Run()
			text := strings.TrimSpace(says.String())
			if cmd.ProcessState.ExitCode() != 64 || strings.Contains(text, "\n") {
				t.Errorf("%s: %v: %s; want one line and exit 64", bad.flags, err, text)
			}
			for _, number := range bad.says {
				if !strings.Contains(text, number) {
					t.Errorf("%s: %s: want it to name %s", bad.flags, text, number)
				}
			}
		}

		c.tune = []string{"--lease", "3s", "--heartbeat", "1s", "--grace", "2s", "--orphan", "7s", "--stop-time", "9s"}
		c.join(false, "c1", "c2")
		c.until("everything to run", func() bool { return c.running() == 4 })
		c.untilShown("lease and heartbeat", func(st *rota.Status) bool {
			for _, m := range st.Members {
				if m.Lease != 3*time.Second || m.Heartbeat != time.Second {
					return false
				}
			}
			return len(st.Members) == 2
		})
		killed := time.Now()
		c.member("c2").signal(syscall.SIGKILL)
		c.until("c1 to have everything", func() bool { return len(c.newest("c1").owns) == 4 })
		if took := time.Since(killed); took < 2*time.Second {
			t.Errorf("what c2 had was taken over after %v, with a lease of 3 s", took)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}
