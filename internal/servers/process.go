package servers

import (
	"fmt"
	"os"
	"os/exec"
)

// A process is a child of ours that leads a process group of its own.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its group was killed
}

// run starts a command that prints into the log.
func (s *Server) run(c command) (*process, error) {
	log, err := os.OpenFile(s.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	fmt.Fprintf(log, "%s %s\n", s.startLine(), c.path)
	argv := append([]string{c.path}, c.args...)
	if s.in != nil {
		argv = append(s.in.command(s.site), argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.Dir
	// Nothing of the caller's settings: etcd, for one, reads dozens.
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + s.Dir,
		"TMPDIR=" + s.path("tmp"),
		"LANG=C.UTF-8",
	}, c.env...)
	cmd.Stdout, cmd.Stderr = log, log // files, so that Wait waits for nothing else
	p := &process{cmd: cmd, done: make(chan struct{})}
	if err := p.fork(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		cmd.Wait() // how it ended is in cmd.ProcessState
		p.killGroup()
	}()
	return p, nil
}

// startLine is how the lines of the log begin that tell of the last start.
func (s *Server) startLine() string { return fmt.Sprintf("== start %d:", s.starts) }

// kill ends the process and its group and waits for it.
func (p *process) kill() {
	select {
	case <-p.done: // its number may be another's by now
	default:
		p.killGroup()
		<-p.done
	}
}
