package demo

import (
	"os"
	"syscall"

	"github.com/rota-dev/rota/cmd/rota/internal/proc"
)

// ChildAttr shields a member from the terminal's Ctrl-C, which is the
// supervisor's to hear, and wakes it, should it be frozen, when the supervisor is
// gone: it then finds its tether cut and leaves. The kernel sends that signal
// when the thread ends that started the member: see supervisor.spawn.
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
}

// stopped tells whether a process is frozen by SIGSTOP.
func stopped(pid int) bool {
	s, ok := proc.Read(pid)
	return ok && s.State == 'T'
}

func wake(p *os.Process) { p.Signal(syscall.SIGCONT) }
