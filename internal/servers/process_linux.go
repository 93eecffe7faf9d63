package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const supported = true

// fork starts the process so that it dies with us, be it by a panic, os.Exit or
// kill -9. The kernel's word for that reaches the process itself but none of its
// children; those of our servers end when they lose their parent.
func (p *process) fork() error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err := make(chan error)
	forker() <- func() { err <- p.cmd.Start() }
	return <-err
}

// forker runs functions on a thread that lives as long as we do. Pdeathsig is
// sent at the end of the *thread* that forked, and the runtime ends a thread
// whenever a goroutine that was locked to it returns: forked from just anywhere,
// a server might die in the middle of a test. Hence a goroutine without an end.
var forker = sync.OnceValue(func() chan<- func() {
	forks := make(chan func())
	go func() {
		runtime.LockOSThread() // for good
		for f := range forks {
			f()
		}
	}()
	return forks
})

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

func (p *process) killGroup() { syscall.Kill(-p.pid(), syscall.SIGKILL) }

func (p *process) thaw() error { return syscall.Kill(-p.pid(), syscall.SIGCONT) }

// freeze returns when nothing of the process runs any more: the signal alone is
// but a request.
func (p *process) freeze() error {
	if err := syscall.Kill(-p.pid(), syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		still, err := p.halted()
		if still || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("it does not halt")
		}
	}
}

// halted tells whether every thread of the process stands still.
func (p *process) halted() (bool, error) {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(p.pid()) + "/task/*/stat")
	if err != nil {
		return false, err
	}
	if len(tasks) == 0 {
		return false, errors.New("it has ended")
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that ended meanwhile
		}
		// pid (name) state …, where the name may hold anything, brackets too
		after := text[bytes.LastIndexByte(text, ')')+1:]
		if fields := bytes.Fields(after); len(fields) == 0 {
			return false, fmt.Errorf("%s: no state in %q", task, text)
		} else if state := fields[0][0]; state != 'T' && state != 't' && state != 'Z' && state != 'X' {
			return false, nil
		}
	}
	return true, nil
}
