package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"golang.org/x/sys/unix"
)

// A keeper is rota's side of its watchdog.
type keeper struct {
	conn   *net.UnixConn
	proc   *exec.Cmd
	holds  string        // what commands are held by: cgroup or process group
	margin time.Duration // how long before the lease end commands are gone
	env    []string      // what commands inherit
	mark   mark          // what they carry
	leases leaseFiles    // where they find the end of their time
	lost   func(error)   // the watchdog is gone: nobody would end the commands in time

	mu   sync.Mutex
	next int
	cmds map[int]*running
	down error
	tell func(partition string, pid int, what string) // of a process that cannot be ended
	done chan struct{}
}

// running is one command, as rota knows it.
type running struct {
	about   string
	id, pid int
	fd      pidfd      // of its first process, if that was still ours when we heard of it
	replies chan reply // started or failed, then gone
}

// startKeeper starts the watchdog: this binary, in a session of its own, so that
// neither the terminal nor a signal to rota's process group reaches it. Commands
// inherit env.
func startKeeper(margin time.Duration, env []string, lost func(error), args ...string) (*keeper, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	conn, err := packets(os.NewFile(uintptr(fds[0]), "watchdog"))
	theirs := os.NewFile(uintptr(fds[1]), "rota")
	defer theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	k := &keeper{conn: conn, env: env, margin: margin, lost: lost, cmds: map[int]*running{}, done: make(chan struct{})}
	if dir, err := k.leases.open("rota-run-"); err == nil {
		args = append(args, "--scratch", dir) // the watchdog outlives a rota that is killed
	}
	proc := exec.Command("/proc/self/exe", append([]string{"watchdog"}, args...)...)
	proc.Args[0] = "rota"
	proc.Env = env
	proc.Stderr = os.Stderr
	proc.ExtraFiles = []*os.File{theirs}
	proc.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := proc.Start(); err != nil {
		conn.Close()
		k.leases.close()
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	k.proc = proc
	theirs.Close()
	first, err := k.hear(make([]byte, maxPacket))
	if err != nil || first.Is != "ready" {
		conn.Close()
		proc.Wait()
		k.leases.close()
		return nil, fmt.Errorf("watchdog: it ended at once: %v", err)
	}
	k.holds, k.mark = first.Text, mark(first.Mark)
	go k.listen()
	return k, nil
}

// Close ends the watchdog, and with it every command that is left.
func (k *keeper) Close() error {
	k.mu.Lock()
	k.lost = func(error) {}
	k.mu.Unlock()
	k.conn.CloseWrite() // it answers until all is gone, then closes its own side
	<-k.done
	k.conn.Close()
	k.leases.close()
	return k.proc.Wait()
}

// folder is removed with the last command, also if rota is killed.
func (k *keeper) folder() *scratch { return &k.leases.scratch }

func (k *keeper) hear(buf []byte) (r reply, err error) {
	n, err := k.conn.Read(buf)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		err = json.Unmarshal(buf[:n], &r)
	}
	return r, err
}

func (k *keeper) listen() {
	defer close(k.done)
	buf := make([]byte, maxPacket)
	for {
		r, err := k.hear(buf)
		if err != nil {
			k.fail(fmt.Errorf("the watchdog has ended: %w", err))
			return
		}
		k.mu.Lock()
		c := k.cmds[r.ID]
		if c != nil && r.Is == "started" {
			c.id, c.pid, c.fd = r.ID, r.PID, k.hold(r)
		}
		if r.Is == "escaped" {
			about, tell := "", k.tell
			if c != nil {
				about = c.about
			}
			k.mu.Unlock()
			if tell != nil {
				tell(about, r.PID, r.Text)
			}
			continue
		}
		if r.Is != "started" {
			delete(k.cmds, r.ID)
			if c != nil {
				c.fd.Close()
				c.pid, c.fd = 0, noPidfd
			}
		}
		k.mu.Unlock()
		if c != nil {
			c.replies <- r
		}
	}
}

// fail ends all commands, since without the watchdog nobody would end them in time.
func (k *keeper) fail(err error) {
	k.mu.Lock()
	k.down = err
	lost := k.lost
	if len(k.cmds) > 0 {
		killMarked(k.mark)
	}
	for _, c := range k.cmds {
		k.end(c)
		c.fd.Close()
		c.pid, c.fd = 0, noPidfd
		close(c.replies)
	}
	k.cmds = nil
	k.mu.Unlock()
	lost(err)
}

// onEscape says whom to tell of processes that cannot be ended.
func (k *keeper) onEscape(tell func(partition string, pid int, what string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tell = tell
}

// hold holds the first process of a command that has started. When rota was
// frozen, that was long ago, and its id may be a stranger's.
func (k *keeper) hold(r reply) pidfd {
	fd, err := openPid(r.PID)
	if err != nil {
		return noPidfd
	}
	if id, ok := k.mark.on(r.PID); !ok || id != r.ID || !fd.there() {
		fd.Close()
		return noPidfd
	}
	return fd
}

// end ends a command by ourselves, as far as one call can. k.mu is held.
func (k *keeper) end(c *running) {
	switch {
	case c.fd != noPidfd:
		c.fd.signalGroup(syscall.SIGKILL)
	case c.pid > 0:
		killIf(c.pid, func(pidfd) bool { id, ok := k.mark.on(c.pid); return ok && id == c.id })
	}
}

// sendTime is how long a watchdog may leave its socket full: one that is frozen
// does for ever.
const sendTime = time.Second

// kill ends every command without the watchdog's help, and the watchdog too: it
// does not do its work.
func (k *keeper) kill() {
	k.proc.Process.Kill()
	killMarked(k.mark)
}

func (k *keeper) send(w wish, files ...*os.File) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if len(b) > maxPacket {
		return fmt.Errorf("command line and environment take %d bytes, the most is %d", len(b), maxPacket)
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = syscall.UnixRights(fds...)
	}
	k.conn.SetWriteDeadline(time.Now().Add(sendTime))
	if _, _, err = k.conn.WriteMsgUnix(b, oob, nil); err != nil {
		return notBegun{fmt.Errorf("ask the watchdog: %w", err)}
	}
	return nil
}

// An exitError is a command that ended otherwise than by exit 0.
type exitError struct {
	code int
	late bool
}

func (e exitError) Error() string {
	switch {
	case e.late:
		return "the watchdog ended the command: its lease was nearly over"
	case e.code > 128:
		return fmt.Sprintf("the command was ended by signal %d", e.code-128)
	}
	return fmt.Sprintf("the command exited with status %d", e.code)
}

// status is the command's own word: 0 if it was ended.
func (e exitError) status() int {
	if e.late || e.code > 128 {
		return 0
	}
	return e.code
}

var errNoWatchdog = errors.New("the watchdog is gone")

// run runs one command to its end. When it returns, nothing that the command
// started is left, as far as the watchdog can see it. The command ends when ctx
// does, and before the lease of by does.
func (k *keeper) run(ctx context.Context, by leaseholder, c command) error {
	first := spanOf(by, k.margin)
	if !first.holds(clock.Boot()) {
		c.sent()
		return errors.New("no lease")
	}
	err := k.begin(first, &c)
	c.sent()
	if err != nil {
		return err
	}
	return k.attend(ctx, by, first, &c)
}

// begin asks the watchdog to start a command.
func (k *keeper) begin(first span, c *command) (err error) {
	in := c.in
	if in == nil {
		if in, err = input(c.stdin); err != nil {
			return notBegun{err}
		}
		defer in.Close()
	}
	env := slices.Concat(k.env, c.env)
	if c.lease, err = k.leases.create(first); err != nil {
		c.lease = nil
		c.warn(codeLeaseFile, fmt.Sprintf("its command runs without a file of its lease, so that it cannot look: %v", err))
	} else {
		env = append(env, "ROTA_LEASE_FILE="+c.lease.path)
	}
	c.is = &running{about: c.about, replies: make(chan reply, 2)}
	if c.id, err = k.enter(c.is); err == nil {
		if err = k.send(wish{Do: "start", ID: c.id, Until: int64(first.end), Argv: c.argv, Env: env}, in, c.out, c.err); err != nil {
			k.mu.Lock()
			delete(k.cmds, c.id)
			k.mu.Unlock()
		}
	}
	if err != nil {
		c.lease.remove()
	}
	return err
}

// input is a file in memory that holds a command's whole standard input. Through
// a pipe, a rota that is killed meanwhile would leave the command with a part of
// the message, and no way to tell.
func input(b []byte) (*os.File, error) {
	if len(b) == 0 {
		return os.Open(os.DevNull)
	}
	fd, err := unix.MemfdCreate("message", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the message: %w", err)
	}
	f := os.NewFile(uintptr(fd), "message")
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("memory for the message: %w", err)
	}
	return f, nil
}

func (k *keeper) enter(r *running) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down != nil {
		return 0, k.down
	}
	k.next++
	k.cmds[k.next] = r
	return k.next, nil
}

// attend renews a command's time while its lease is renewed, and ends it when it
// is to end.
func (k *keeper) attend(ctx context.Context, by leaseholder, now span, c *command) error {
	defer c.lease.remove()
	tick := time.NewTicker(max(k.margin/4, time.Millisecond))
	defer tick.Stop()
	end, stop, ending := ctx.Done(), c.stop, false
	var term, force <-chan time.Time
	for {
		select {
		case rep, ok := <-c.is.replies:
			if !ok || rep.Is != "started" {
				return verdictOf(rep, ok)
			}
		case <-end:
			end, ending = nil, true
			if spanOf(by, k.margin) == over {
				k.force(c) // before the file, which may be slow to write
				c.lease.show(over)
				continue
			}
			k.send(wish{Do: "term", ID: c.id})
			force = time.After(termGrace)
		case <-stop:
			stop, term = nil, time.After(c.stopAfter)
		case <-term:
			k.send(wish{Do: "term", ID: c.id})
		case <-force:
			k.force(c)
		case <-tick.C:
			next := spanOf(by, k.margin)
			if next == over && ending {
				k.force(c) // its last moments were counted on a lease that is gone
			}
			if next == over {
				c.lease.show(over)
			} else if next.end > now.end+time.Millisecond {
				now = next
				k.send(wish{Do: "lease", ID: c.id, Until: int64(now.end)})
				c.lease.show(now)
			}
		}
	}
}

// force ends a command at once, with the watchdog and without it, since it is the
// watchdog that may be frozen.
func (k *keeper) force(c *command) {
	k.send(wish{Do: "kill", ID: c.id})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end(c.is)
}

// verdictOf is the error of a command by the watchdog's last word about it.
func verdictOf(rep reply, ok bool) error {
	switch {
	case !ok:
		return errNoWatchdog
	case rep.Is == "failed" && rep.Big: // by the message's id, maybe
		return errors.New(rep.Text)
	case rep.Is == "failed":
		return notBegun{errors.New(rep.Text)}
	case rep.Code != 0 || rep.Late:
		return exitError{rep.Code, rep.Late}
	}
	return nil
}
