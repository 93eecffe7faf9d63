package ops

import (
	"syscall"

	"github.com/rota-dev/rota/cmd/rota/internal/proc"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/record"
)

// runsHere tells whether the process runs on this machine, also when it is frozen.
// That it is not found says nothing.
func runsHere(h record.Host) bool {
	var ns syscall.Stat_t
	if h.Boot == "" || clock.BootID() != h.Boot || syscall.Stat("/proc/self/ns/pid", &ns) != nil || ns.Ino != h.Namespace {
		return false
	}
	s, ok := proc.Read(int(h.PID))
	return ok && s.Start == h.Start && !s.Dead()
}
