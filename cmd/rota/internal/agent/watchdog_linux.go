package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/proc"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/spf13/cobra"
)

func WatchdogCmd() *cobra.Command {
	var noCgroup bool
	var scratch string
	cmd := &cobra.Command{
		Use:     "watchdog",
		Short:   "End commands in time, also when rota itself is frozen (rota run starts it)",
		Example: "  rota run --handle exec:./handle.sh    starts one by itself",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			conn, err := packets(os.NewFile(watchdogFD, "rota"))
			if err != nil {
				return cli.Usagef("the watchdog is started by rota run, which gives it a socket: %v", err)
			}
			if scratch != "" {
				defer os.RemoveAll(scratch)
			}
			w := newWatchdog(conn)
			if !noCgroup {
				w.group = makeCgroup()
			}
			return w.run()
		},
	}
	cmd.Flags().BoolVar(&noCgroup, "no-cgroup", false, "hold commands by their process groups and descent alone")
	cmd.Flags().StringVar(&scratch, "scratch", "", "a folder to remove when all commands are gone")
	cmd.Flags().MarkHidden("no-cgroup")
	cmd.Flags().MarkHidden("scratch")
	return cmd
}

func packets(f *os.File) (*net.UnixConn, error) {
	if f == nil {
		return nil, errors.New("no file descriptor")
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("file descriptor %d is a %T", watchdogFD, c)
	}
	return conn, nil
}

// watchdog is the other process: one goroutine that starts, times and ends
// commands.
type watchdog struct {
	conn  *net.UnixConn
	in    chan packet // closed when rota is gone
	out   chan reply
	cmds  map[int]*kept
	group string // a cgroup folder of ours, "" where that is not permitted
	mark  mark
	// below finds what commands have started: see descendants.
	below func() (of map[int][]int, strays bool)
	kill  func(pid int) error // ends one process: see end
	// escaped are processes that we may not end.
	escaped map[int]bool
}

// packet is one wish with the files that came with it.
type packet struct {
	wish
	files []int
}

// kept is one command.
type kept struct {
	id, pid int
	fd      pidfd // of its first process
	until   int64 // 0 once it is being ended
	cgroup  string
	waited  bool // its first process has ended
	late    bool
	forced  bool // it must end now, whatever of it is left
	status  syscall.WaitStatus
}

func newWatchdog(conn *net.UnixConn) *watchdog {
	w := &watchdog{conn: conn, in: make(chan packet), out: make(chan reply, 1<<16), cmds: map[int]*kept{}, mark: newMark(), escaped: map[int]bool{}}
	w.below, w.kill = w.descendants, w.end
	return w
}

// run lives until rota is gone and nothing it started is left.
func (w *watchdog) run() error {
	runtime.LockOSThread() // commands die with the thread that forked them
	// Only rota's end ends it. Caught, not ignored: commands would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	// Whatever a command leaves behind becomes a child of ours, not of init's.
	const setChildSubreaper = 36
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); e != 0 {
		return fmt.Errorf("become the parent of orphans: %w", e)
	}
	defer func() {
		if w.group != "" {
			os.Remove(w.group)
		}
	}()
	go w.read()
	go w.write()
	w.out <- reply{Is: "ready", Text: w.hold(), Mark: string(w.mark)}
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	in := w.in
	for in != nil || len(w.cmds) > 0 {
		alarm.Reset(w.next(int64(clock.Boot())))
		select {
		case p, ok := <-in:
			if !ok { // rota is gone, and nobody renews anything any more
				in = nil
				for _, c := range w.cmds {
					c.until, c.forced = 0, true
				}
				continue
			}
			w.obey(p)
		case <-child:
		case <-alarm.C:
		}
		w.reap()
		w.look()
	}
	return nil
}

// next is how long it may wait before it looks again: until the first command's
// time is over, and never for long, since a timer stands still in suspend and
// what is being ended has to be looked after.
func (w *watchdog) next(now int64) time.Duration {
	if len(w.cmds) == 0 {
		return time.Hour // nothing to end
	}
	wait := watchdogTick
	for _, c := range w.cmds {
		// ended-at-the-instant: A command is ended at the instant at which its time is
		// over.
		// Without it: The time of a command is over just after a tick. It works on until
		// the next one, past the lease.
		if c.until != 0 && !rule.EndedAtTheInstant.Off() {
			wait = min(wait, max(time.Duration(c.until-now), 0))
		}
	}
	return wait
}

func (w *watchdog) hold() string {
	if w.group != "" {
		return "cgroup"
	}
	return "process group"
}

func (w *watchdog) read() {
	defer close(w.in)
	buf, oob := make([]byte, maxPacket), make([]byte, syscall.CmsgSpace(3*4))
	for {
		n, on, _, _, err := w.conn.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		var p packet
		if msgs, err := syscall.ParseSocketControlMessage(oob[:on]); err == nil {
			for i := range msgs {
				if fds, err := syscall.ParseUnixRights(&msgs[i]); err == nil {
					p.files = append(p.files, fds...)
				}
			}
		}
		for _, fd := range p.files {
			syscall.CloseOnExec(fd)
		}
		if json.Unmarshal(buf[:n], &p.wish) != nil {
			return
		}
		w.in <- p
	}
}

// write never holds the watchdog up: a frozen rota reads nothing.
func (w *watchdog) write() {
	for r := range w.out {
		b, _ := json.Marshal(r)
		w.conn.Write(b)
	}
}

func (w *watchdog) obey(p packet) {
	c := w.cmds[p.ID]
	switch {
	case p.Do == "start":
		w.start(p)
	case c == nil: // gone meanwhile
	// ending-is-final: A command that is being ended stays so, whatever lease arrives.
	// Without it: The time of a command is over, and it was killed; a process that it
	// forked just then survives. A late renewal arrives, and nothing ends that process.
	case p.Do == "lease" && (c.until != 0 || rule.EndingIsFinal.Off()): // what is being ended stays so: one kill may miss a process that was just forked
		c.until = max(c.until, p.Until)
	case p.Do == "kill":
		c.until, c.forced = 0, true
	case p.Do == "term" && !c.waited:
		syscall.Kill(-c.pid, syscall.SIGTERM)
	}
}

func (w *watchdog) start(p packet) {
	defer func() {
		for _, fd := range p.files {
			syscall.Close(fd)
		}
	}()
	c := &kept{id: p.ID, until: p.Until}
	if err := w.fork(c, p); err != nil {
		w.out <- reply{Is: "failed", ID: p.ID, Text: err.Error(), Big: errors.Is(err, syscall.E2BIG)}
		return
	}
	w.cmds[c.id] = c
	w.out <- reply{Is: "started", ID: c.id, PID: c.pid}
}

func (w *watchdog) fork(c *kept, p packet) error {
	if len(p.Argv) == 0 {
		return errors.New("the watchdog was asked wrongly")
	}
	if len(p.files) != 3 { // the kernel leaves out what there is no room for
		return fmt.Errorf("the watchdog: %w", syscall.EMFILE)
	}
	if p.Until <= int64(clock.Boot()) {
		return errors.New("its lease is over")
	}
	held := -1
	attr := &syscall.ProcAttr{
		Env:   append(p.Env, w.mark.entry(c.id)),
		Files: []uintptr{uintptr(p.files[0]), uintptr(p.files[1]), uintptr(p.files[2])},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &held},
	}
	if w.group != "" {
		c.cgroup = filepath.Join(w.group, strconv.Itoa(c.id))
		if err := os.Mkdir(c.cgroup, 0o755); err != nil {
			return err
		}
		fd, err := syscall.Open(c.cgroup, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
	}
	pid, err := syscall.ForkExec(p.Argv[0], p.Argv, attr)
	if err != nil {
		err = fmt.Errorf("start %s: %w", p.Argv[0], err)
	}
	if err != nil && c.cgroup != "" {
		os.Remove(c.cgroup)
	}
	if held >= 0 {
		c.fd = pidfd(held + 1)
	}
	if !pidfds() {
		c.fd.Close()
		c.fd = noPidfd
	}
	c.pid = pid
	return err
}

// reap collects what has ended: commands, and orphans they left to us.
func (w *watchdog) reap() {
	for {
		var st syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &st, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		for _, c := range w.cmds {
			if c.pid == pid && !c.waited {
				c.waited, c.status, c.until = true, st, 0
			}
		}
	}
}

// look ends what is to end, and says what is gone.
func (w *watchdog) look() {
	now := int64(clock.Boot())
	var ending bool
	for _, c := range w.cmds {
		if c.until != 0 && c.until <= now {
			c.until, c.late, c.forced = 0, true, true
		}
		ending = ending || c.until == 0
	}
	if !ending {
		return
	}
	var left map[int][]int
	var strays bool
	for _, id := range slices.Sorted(maps.Keys(w.cmds)) {
		c := w.cmds[id]
		if c.until != 0 {
			continue
		}
		c.kill()
		if left == nil {
			left, strays = w.below()
		}
		stuck := len(left[id]) > 0
		for _, pid := range left[id] {
			if err := w.kill(pid); errors.Is(err, syscall.EPERM) {
				w.escape(pid, id)
			} else {
				stuck = false
			}
		}
		// A process that was sent SIGKILL may still be in the middle of something;
		// the next owner starts when it is told that all is gone. What has escaped
		// holds up its own command, until that must end: nobody can do more.
		letGo := c.forced && stuck
		// gone-with-descendants: A command is gone only when all of its descendants are.
		// Without it: The command's shell has exited, and a child of it still writes. Gone
		// is told, q is acknowledged as stopped, and C2 starts it.
		if !letGo && (!c.waited || (len(left[id]) > 0 || strays || !c.empty()) && !rule.GoneWithDescendants.Off()) {
			continue
		}
		delete(w.cmds, id)
		c.fd.Close()
		code := c.status.ExitStatus()
		if c.status.Signaled() {
			code = 128 + int(c.status.Signal())
		}
		if !c.waited { // escaped itself
			code = 128 + int(syscall.SIGKILL)
		}
		w.out <- reply{Is: "gone", ID: id, PID: c.pid, Code: code, Late: c.late, At: int64(clock.Boot())}
	}
}

// escape tells, once, of a process that we may not end: one of another user, which
// a setuid program has started. id is 0 if nobody knows whose it is.
func (w *watchdog) escape(pid, id int) {
	if w.escaped[pid] {
		return
	}
	w.escaped[pid] = true
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	text = bytes.TrimRight(text[:min(len(text), 100)], "\x00")
	w.out <- reply{Is: "escaped", ID: id, PID: pid, Text: strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})), "?")}
}

// end ends a process that was found below us, unless its id is another's by now.
func (w *watchdog) end(pid int) error {
	return killIf(pid, func(fd pidfd) bool {
		_, marked := w.mark.on(pid)
		return marked || descends(pid, fd)
	})
}

// kill ends the command at once, as far as one call can. The id of its process
// group is its own until its first process is reaped; those that are left of the
// group then are ended one by one.
func (c *kept) kill() {
	if c.cgroup != "" {
		os.WriteFile(filepath.Join(c.cgroup, "cgroup.kill"), []byte("1"), 0)
	}
	if !c.waited {
		syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// empty tells whether nothing is left of the process group, nor in the cgroup, whose
// folder only goes when nobody is in it.
func (c *kept) empty() bool {
	err := c.fd.signalGroup(0)
	if c.fd == noPidfd {
		err = syscall.Kill(-c.pid, 0)
	}
	if err == nil {
		return false
	}
	if c.cgroup == "" {
		return true
	}
	err = os.Remove(c.cgroup)
	return err == nil || errors.Is(err, os.ErrNotExist)
}

// descendants finds, by command, all processes below us: those of its process
// group and those that left it. Zombies do not count. One that hides its mark is
// a daemon of nobody: it ends on sight, and until it is gone nobody knows whose it
// was. If it is another user's, so that it cannot be ended, it holds up nobody.
func (w *watchdog) descendants() (below map[int][]int, strays bool) {
	parent := map[int]int{}
	for _, e := range entries("/proc") {
		pid, err := strconv.Atoi(e)
		if err != nil {
			continue
		}
		if s, ok := proc.Read(pid); ok && !s.Dead() {
			parent[pid] = s.Parent
		}
	}
	first := map[int]int{}
	for id, c := range w.cmds {
		if !c.waited { // its id may be a stranger's otherwise
			first[c.pid] = id
		}
	}
	maps.DeleteFunc(w.escaped, func(pid int, _ bool) bool { return parent[pid] == 0 })
	me := os.Getpid()
	below = map[int][]int{}
	for pid := range parent {
		at, id, known := pid, 0, false
		for hops := 0; at != me && at > 1 && hops < 1000; hops++ {
			if id, known = first[at]; known {
				break
			}
			if parent[at] == me { // an orphan
				if id, known = w.marked(at); known {
					break
				}
				switch err := w.kill(pid); {
				case !errors.Is(err, syscall.EPERM):
					strays = true
				default:
					if id, known = w.grouped(pid); !known {
						w.escape(pid, 0)
					}
				}
				break
			}
			up, seen := parent[at]
			if !seen { // it ended while we looked: whose child this was, its mark tells
				id, known = w.marked(pid)
				break
			}
			at = up
		}
		if known {
			below[id] = append(below[id], pid)
		}
	}
	return below, strays
}

// marked reads from a process's environment whose it is.
func (w *watchdog) marked(pid int) (id int, ok bool) {
	id, ok = w.mark.on(pid)
	return id, ok && w.cmds[id] != nil
}

// grouped finds the command whose process group a process is in. The group's
// number is taken for as long as somebody is in it.
func (w *watchdog) grouped(pid int) (id int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if err != nil || len(f) < 3 {
		return 0, false
	}
	for id, c := range w.cmds {
		if f[2] == strconv.Itoa(c.pid) {
			return id, true
		}
	}
	return 0, false
}

func entries(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

// makeCgroup makes a folder for commands below our own cgroup, where the second
// version of cgroups is mounted and lets us; "" elsewhere.
func makeCgroup() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	path := "/"
	for line := range strings.Lines(string(own)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, ok := strings.Cut(line, " - cgroup2 ")
		f := strings.Fields(before)
		if !ok || after == "" || len(f) < 5 {
			continue
		}
		dir := filepath.Join(f[4], path, fmt.Sprintf("rota-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err == nil {
			return dir
		}
		os.Remove(dir)
	}
	return ""
}
