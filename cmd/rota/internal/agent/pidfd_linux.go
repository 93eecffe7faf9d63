package agent

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/proc"
	"golang.org/x/sys/unix"
)

// Process ids are used again. A rota that was frozen for long wakes up with ids
// that are somebody else's by now, so no process is signalled by its id alone:
// either it is a child that only we can reap, or a pidfd was opened first and the
// process behind it was then found to be ours.

// A pidfd is one process, for as long as it is held: a file descriptor and one, so
// that zero is none.
type pidfd int

const noPidfd pidfd = 0

// pidfds tells whether processes can be held: not by kernels before 5.3, nor where
// a container forbids calls that it does not know.
var pidfds = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0) == nil
})

// openPid opens a process; errors.ErrUnsupported where that cannot be done.
func openPid(pid int) (pidfd, error) {
	if !pidfds() {
		return noPidfd, errors.ErrUnsupported
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return noPidfd, err
	}
	return pidfd(fd + 1), nil
}

func (p pidfd) Close() {
	if p != noPidfd {
		unix.Close(int(p) - 1)
	}
}

func (p pidfd) signal(s syscall.Signal) error { return unix.PidfdSendSignal(int(p)-1, s, nil, 0) }

// there: the process has not been reaped yet, so its id is still its own.
func (p pidfd) there() bool {
	err := p.signal(0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// signalGroup signals the process group that the process leads or led: since
// Linux 6.9, and the process alone before.
func (p pidfd) signalGroup(s syscall.Signal) error {
	const processGroup = 1 << 2 // PIDFD_SIGNAL_PROCESS_GROUP
	err := unix.PidfdSendSignal(int(p)-1, s, nil, processGroup)
	if errors.Is(err, syscall.EINVAL) {
		return p.signal(s)
	}
	return err
}

// A mark is in the environment of everything that the commands of one watchdog
// start: a variable whose name holds a random number. Its value is the command.
// A rota below a handler of another one has a mark of its own besides.
type mark string

func newMark() mark { return mark(commandMark + rand.Text()) }

func (m mark) entry(id int) string { return string(m) + "=" + strconv.Itoa(id) }

// in finds the command in an environment. Only a whole entry counts: the text may
// be a part of anybody's variable.
func (m mark) in(environ []byte) (id int, ok bool) {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, found := strings.Cut(string(entry), "=")
		if !found || name != string(m) || m == "" {
			continue
		}
		if id, err := strconv.Atoi(value); err == nil && id > 0 && strconv.Itoa(id) == value {
			return id, true
		}
	}
	return 0, false
}

// on finds the command that a process belongs to.
func (m mark) on(pid int) (id int, ok bool) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0, false
	}
	return m.in(env)
}

// killMarked ends all processes that carry the mark. One look may miss some: what
// is being forked is not listed yet, and what is about to run another program has
// no environment for a moment. So it looks until nothing was there five times.
func killMarked(m mark) {
	for looks, quiet := 0, 0; looks < 50 && quiet < 5; looks++ {
		if quiet++; killSeen(m) {
			quiet = 0
		}
		time.Sleep(time.Millisecond)
	}
}

func killSeen(m mark) (some bool) {
	for _, e := range entries("/proc") {
		pid, err := strconv.Atoi(e)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if _, ok := m.on(pid); ok { // most are not, and this is the cheaper question
			some = true
			killIf(pid, func(pidfd) bool { _, ok := m.on(pid); return ok })
		}
	}
	return some
}

// killIf ends a process if it is ours, which is asked once it is held. Where the
// kernel cannot hold it, it is asked with noPidfd.
func killIf(pid int, ours func(pidfd) bool) error {
	fd, err := openPid(pid)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		if !ours(noPidfd) {
			return syscall.ESRCH
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	case err != nil:
		return err
	}
	defer fd.Close()
	if !ours(fd) || !fd.there() { // what was read under its id was its own
		return syscall.ESRCH
	}
	return fd.signal(syscall.SIGKILL)
}

// descends proves that a process is below us. Each parent is held before it is
// asked for again: if child and parent are there afterwards, neither id was used
// again meanwhile. Without a pidfd only our children are proven: nobody else reaps
// them.
func descends(pid int, fd pidfd) bool {
	for hops := 0; hops < 1000; hops++ {
		at, ok := proc.Read(pid)
		switch {
		case !ok || hops > 0 && fd == noPidfd:
			return false
		case at.Parent == os.Getpid():
			return fd == noPidfd || fd.there()
		case at.Parent <= 1 || fd == noPidfd:
			return false
		}
		up, err := openPid(at.Parent)
		if err != nil {
			return false
		}
		defer up.Close()
		again, ok := proc.Read(pid)
		if !ok || again.Parent != at.Parent || !fd.there() || !up.there() {
			return false
		}
		pid, fd = at.Parent, up
	}
	return false
}
