// Package servers runs real servers for tests: child processes on free ports of
// 127.0.0.1 with a temporary directory each, never a system service. They can be
// stopped, killed, frozen, set back to an earlier state and started again, with
// the same port and data.
//
// It promises no isolation: everybody who may use the loopback interface may talk to
// them, without a password. A kill leaves to the server what it had handed to
// the kernel, so it shows what survives the death of a process, not of a
// machine. It works on Linux alone; elsewhere every server is missing.
//
// No server outlives the process that started it, see [Server.Start].
package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Server is one real server. Its methods are for one goroutine at a time.
type Server struct {
	Name string // what it is: "redis"
	Dir  string // everything it has on disk, until Close

	addr, url string
	admin     string
	more      map[string]string // addresses by protocol, of a server that speaks several
	ports     []port
	commands  []command                   // in the order to start them: the last is the server, the others serve it
	answers   func(context.Context) error // one question; nil once it serves clients
	fit       func(context.Context) error // nil once it is also whole, for one of a cluster

	leaves []string // directories that Close removes, besides Dir

	in         *Net // nil if it has no network of its own
	site       int  // which of that
	deaf, mute bool // it is cut off

	state   state
	running []*process
	starts  int
	copies  int
}

type state string

const (
	stopped state = "stopped"
	running state = "running"
	frozen  state = "frozen"
)

// command is one process to start.
type command struct {
	path string
	args []string
	env  []string // added to a small clean environment
}

// Long enough for the slowest on a busy machine; a context may ask for less.
const (
	startTime = 2 * time.Minute
	stopTime  = 30 * time.Second
)

// launch makes a server of this many ports, lets setup fill in how it is run,
// and starts it.
func launch(ctx context.Context, name string, ports int, setup func(*Server) error) (*Server, error) {
	s, err := create(name, ports, setup)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// create is launch without the start.
func create(name string, ports int, setup func(*Server) error) (*Server, error) {
	dir, err := os.MkdirTemp("", "rota-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &Server{Name: name, Dir: dir, state: stopped}
	for range ports {
		p, err := reserve()
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.ports = append(s.ports, p)
	}
	s.addr = s.ports[0].addr()
	for _, d := range []string{s.data(), s.path("conf"), s.path("tmp")} {
		err = errors.Join(err, os.Mkdir(d, 0o755))
	}
	if err == nil {
		err = setup(s)
	}
	if err != nil {
		err = s.failed("set up", err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// Addr is where clients connect to: host and port. It never changes.
func (s *Server) Addr() string { return s.addr }

// At is where clients connect to by this protocol, if the server speaks several.
func (s *Server) At(protocol string) string { return s.more[protocol] }

// URL is Addr as clients of this server like to have it.
func (s *Server) URL() string { return s.url }

// Admin is where operators connect to, if that is another address: host and port.
func (s *Server) Admin() string { return s.admin }

// Start starts it and returns once it serves clients. The context limits the
// wait, not the life: that lasts until Stop, Kill or Close, or until this
// process ends in whatever way.
func (s *Server) Start(ctx context.Context) error {
	if s.state != stopped {
		return s.failed("start", fmt.Errorf("it is %s", s.state))
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := s.runAll(); err != nil {
		return s.failed("start", err)
	}
	if err := s.wait(ctx, s.answers); err != nil {
		s.end()
		return s.failed("start", err)
	}
	return nil
}

// Launch is Start without the wait, for a server that waits for something before it serves:
// see Ready.
func (s *Server) Launch() error {
	if s.state != stopped {
		return s.failed("start", fmt.Errorf("it is %s", s.state))
	}
	if err := s.runAll(); err != nil {
		return s.failed("start", err)
	}
	return nil
}

// runAll starts all processes.
func (s *Server) runAll() error {
	s.starts++
	for _, c := range s.commands {
		p, err := s.run(c)
		if err != nil {
			s.end()
			return err
		}
		s.running = append(s.running, p)
	}
	s.state = running
	return nil
}

// Ready returns once the server can do all its work. After Start that is so,
// except for one of a cluster: it needs the others.
func (s *Server) Ready(ctx context.Context) error {
	if s.state != running {
		return s.failed("wait for", fmt.Errorf("it is %s", s.state))
	}
	if s.fit == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := s.wait(ctx, s.fit); err != nil {
		return s.failed("wait for", err)
	}
	return nil
}

// wait asks until the answer is nil, a process ends, or the context does.
func (s *Server) wait(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ask(once)
		cancel()
		if err == nil {
			return s.lost() // the answer may have been another's
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%w)", err, ctx.Err())
		}
		if err := s.lost(); err != nil {
			return err
		}
	}
}

// Stop asks it to end, as its operator would, and waits. What does not end in
// time is killed, and that is an error.
func (s *Server) Stop(ctx context.Context) error {
	if s.state == frozen {
		if err := s.Thaw(); err != nil {
			return err
		}
	}
	if err := s.must("stop", running); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	main := s.running[len(s.running)-1]
	err := main.terminate()
	again := time.NewTicker(stopTime / 3) // a Redis that became a replica meanwhile has forgotten it
	defer again.Stop()
	for ended := false; err == nil && !ended; {
		select {
		case <-main.done:
			ended = true
		case <-again.C:
			err = main.terminate()
		case <-ctx.Done():
			err = fmt.Errorf("it did not end: %w", ctx.Err())
		}
	}
	s.end()
	if err != nil {
		return s.failed("stop", err)
	}
	return nil
}

// Kill ends it like kill -9, frozen or not.
func (s *Server) Kill() error {
	if err := s.must("kill", running, frozen); err != nil {
		return err
	}
	s.end()
	return nil
}

// Freeze halts all its processes where they are, until Thaw. Connections stay
// open and the kernel goes on accepting bytes and connections for it.
func (s *Server) Freeze() error {
	if err := s.must("freeze", running); err != nil {
		return err
	}
	s.state = frozen
	for _, p := range s.running {
		if err := p.freeze(); err != nil {
			return s.failed("freeze", err)
		}
	}
	return nil
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() error {
	if err := s.must("thaw", frozen); err != nil {
		return err
	}
	s.state = running
	for _, p := range s.running {
		if err := p.thaw(); err != nil {
			return s.failed("thaw", err)
		}
	}
	return nil
}

// Close kills the server if it runs, gives back its ports and removes Dir. An
// error says that it had ended without being asked.
func (s *Server) Close() error {
	lost := s.lost()
	if lost != nil {
		lost = s.failed("close", lost)
	}
	s.end()
	for _, p := range s.ports {
		p.release()
	}
	s.ports = nil
	// A killed process may have helpers that write for a moment longer.
	var err error
	for range 50 {
		err = os.RemoveAll(s.Dir)
		for _, d := range s.leaves {
			err = errors.Join(err, os.RemoveAll(d))
		}
		if err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(lost, err)
}

// end kills what runs, last started first, and waits for it.
func (s *Server) end() {
	for i := len(s.running) - 1; i >= 0; i-- {
		s.running[i].kill()
	}
	s.running, s.state = nil, stopped
}

// must refuses what makes no sense in the present state. A server that has
// ended by itself is an error for everybody: no test wants that unnoticed.
func (s *Server) must(do string, in ...state) error {
	if err := s.lost(); err != nil {
		s.end()
		return s.failed(do, err)
	}
	for _, ok := range in {
		if s.state == ok {
			return nil
		}
	}
	return s.failed(do, fmt.Errorf("it is %s", s.state))
}

// lost tells whether a process has ended without being asked.
func (s *Server) lost() error {
	for _, p := range s.running {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended by itself: %v", filepath.Base(p.cmd.Path), p.cmd.ProcessState)
		default:
		}
	}
	return nil
}

func (s *Server) failed(do string, err error) error {
	if tail := s.Tail(); tail != "" {
		return fmt.Errorf("%s %s: %w\nits log ends with:\n%s", do, s.Name, err, tail)
	}
	return fmt.Errorf("%s %s: %w", do, s.Name, err)
}

// Log is the file with all that its processes have printed.
func (s *Server) Log() string { return s.path("log") }

// Tail is the end of the log, for people.
func (s *Server) Tail() string {
	const most = 4096
	f, err := os.Open(s.Log())
	if err != nil {
		return ""
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(0, size-most)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return ""
	}
	if from > 0 { // begin with a whole line
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
}

func (s *Server) path(name string) string { return filepath.Join(s.Dir, name) }

// data is the directory that holds what the server is trusted with, and all of
// that: it is what Snapshot copies.
func (s *Server) data() string { return s.path("data") }

// conf writes a configuration file and returns its path.
func (s *Server) conf(name, text string) (string, error) {
	file := filepath.Join(s.path("conf"), name)
	return file, os.WriteFile(file, []byte(text), 0o644)
}
