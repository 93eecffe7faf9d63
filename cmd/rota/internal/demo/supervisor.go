package demo

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/ops"
	"github.com/rota-dev/rota/internal/line"
)

// A supervisor runs members as processes of their own. They hang on a tether, a
// pipe into their standard input: when it is cut, however that came about, they
// leave.
type supervisor struct {
	exe    string
	args   []string // of every member, besides its name
	events chan happening
	spawns chan func()
	wg     sync.WaitGroup

	mu       sync.Mutex
	children []*child
}

// A child is one member's process.
type child struct {
	name    string
	cmd     *exec.Cmd
	tether  io.Closer
	pid     int
	session string // of its newest joining
	over    bool
	leaving bool // a scaler has asked it to
}

// A happening is one thing that a child told or suffered.
type happening struct {
	c    *child
	line *line.Line // an event of it
	says string     // or what it wrote to standard error
	end  string     // or how it ended
}

func newSupervisor(args ...string) (*supervisor, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &supervisor{exe: exe, args: args, events: make(chan happening, 1024), spawns: make(chan func())}
	go func() {
		runtime.LockOSThread() // members are told when this very thread ends
		for f := range s.spawns {
			f()
		}
	}()
	return s, nil
}

// start starts one member.
func (s *supervisor) start(name string) (*child, error) {
	c := &child{name: name, cmd: exec.Command(s.exe, append(append([]string{"run"}, s.args...), "--name", name)...)}
	c.cmd.Env = memberEnv(os.Environ())
	c.cmd.SysProcAttr = ChildAttr()
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.tether = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	failed := make(chan error)
	s.spawns <- func() { failed <- c.cmd.Start() }
	if err := <-failed; err != nil {
		return nil, fmt.Errorf("start member %s: %w", name, err)
	}
	c.pid = c.cmd.Process.Pid
	s.mu.Lock()
	s.children = append(s.children, c)
	s.mu.Unlock()
	var read sync.WaitGroup
	read.Go(func() { s.readEvents(c, stdout) })
	read.Go(func() { s.readWords(c, stderr) })
	s.wg.Go(func() {
		read.Wait()
		err := c.cmd.Wait()
		s.mu.Lock()
		c.over = true
		s.mu.Unlock()
		s.events <- happening{c: c, end: HowEnded(c.cmd.ProcessState, err)}
	})
	return c, nil
}

// memberEnv leaves out settings that are rota up's own to make; others, such as
// ROTA_LEASE, reach the members.
func memberEnv(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"ROTA_GROUP", "ROTA_STORE", "ROTA_SOURCE", "ROTA_DIR", "ROTA_HANDLE", "ROTA_OWN", "ROTA_NAME", "ROTA_EVENTS", "ROTA_START_GATE", "ROTA_CONFIG", "ROTA_SCALER", "ROTA_SCALE"}, name)
	})
}

func (s *supervisor) readEvents(c *child, r io.Reader) {
	b := bufio.NewReaderSize(r, line.MaxSize)
	for {
		text, err := b.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // no event line is that long; to stop reading would stop the member
		}
		if err != nil {
			return
		}
		if l, err := line.Parse(text); err == nil {
			if l.Event == "joined" {
				s.mu.Lock()
				c.session = l.Session
				s.mu.Unlock()
			}
			s.events <- happening{c: c, line: &l}
		}
	}
}

func (s *supervisor) readWords(c *child, r io.Reader) {
	b := bufio.NewReaderSize(r, 1<<16)
	for {
		text, _, err := b.ReadLine() // in pieces, if it is very long
		if err != nil {
			return
		}
		s.events <- happening{c: c, says: string(text)}
	}
}

func HowEnded(st *os.ProcessState, err error) string {
	if st == nil {
		return fmt.Sprint("it could not be waited for: ", err)
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf("ended by signal %d (%v)", int(ws.Signal()), ws.Signal())
	}
	words := map[int]string{0: "left in good order", cli.ExitFenced: "fenced", cli.ExitAborted: "aborted", cli.ExitOrphaned: "orphaned", cli.ExitUnreachable: "the store could not be reached"}
	return fmt.Sprintf("exit %d, %s", st.ExitCode(), cmp.Or(words[st.ExitCode()], "failed"))
}

func (s *supervisor) alive() (out []*child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if !c.over {
			out = append(out, c)
		}
	}
	return out
}

// patienceToLeave is how long members have to leave before they are killed.
const patienceToLeave = 10 * time.Second

// stop asks all members to leave, and ends what does not. Somebody must read
// events meanwhile; they are closed when all is over.
func (s *supervisor) stop() {
	for _, c := range s.alive() {
		c.cmd.Process.Signal(syscall.SIGTERM)
		wake(c.cmd.Process) // a frozen one would not hear it
	}
	late := time.AfterFunc(patienceToLeave, func() {
		for _, c := range s.alive() {
			c.cmd.Process.Kill()
		}
	})
	defer late.Stop()
	s.wg.Wait()
	for _, c := range s.children {
		c.tether.Close()
	}
	close(s.spawns)
	close(s.events)
}

// eventFile keeps what the children tell to a file that rota check can read.
type eventFile struct {
	w *os.File
	b *bufio.Writer
}

func newEventFile(dir string) (*eventFile, error) {
	f, err := connect.WriteFolder(dir, "events.jsonl")
	if err != nil {
		return nil, err
	}
	return &eventFile{f, bufio.NewWriter(f)}, nil
}

func (r *eventFile) add(l *line.Line) {
	if l.Event == "work" {
		return
	}
	if b, err := json.Marshal(l); err == nil {
		r.b.Write(append(b, '\n'))
		r.b.Flush()
	}
}

func (r *eventFile) Close() error {
	r.b.Flush()
	return r.w.Close()
}

// self is how this binary is called from a shell.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		return "rota"
	}
	if strings.Contains(exe, "go-build") { // go run keeps its binaries there
		return "go run ./cmd/rota"
	}
	if path, err := exec.LookPath("rota"); err == nil {
		if abs, err := filepath.Abs(path); err == nil && abs == exe {
			return "rota"
		}
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, exe); err == nil && !strings.HasPrefix(rel, "..") {
			return "./" + rel
		}
	}
	return exe
}

// runningOf are the partitions of each session that run, in order.
func runningOf(st *rota.Status) map[string][]string {
	out := map[string][]string{}
	stateOf := ops.PartitionStates(st)
	for i := range st.Partitions {
		if p := &st.Partitions[i]; ops.Runs(stateOf(p)) {
			out[p.Owner] = append(out[p.Owner], p.Name)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, cli.Natural)
	}
	return out
}
