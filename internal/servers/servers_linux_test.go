package servers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests use a server of their own, this very binary: what is asked here is
// whether a server is run as promised. The real ones are in the module test.
func TestMain(m *testing.M) {
	switch os.Getenv("ROTA_FAKE") {
	case "":
		os.Exit(m.Run())
	case "serve":
		fakeServe(os.Args[1], os.Args[2])
	case "parent":
		fakeParent()
	default:
		fmt.Println("this server only complains")
		os.Exit(3)
	}
}

// fakeServe notes lines in a file and answers each with all lines so far, "." last.
func fakeServe(addr, dir string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		os.WriteFile(filepath.Join(dir, "clean"), nil, 0o644)
		os.Exit(0)
	}()
	var mu sync.Mutex
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		go func() {
			defer c.Close()
			for in := bufio.NewScanner(c); in.Scan(); {
				mu.Lock()
				f, _ := os.OpenFile(filepath.Join(dir, "notes"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
				if in.Text() == "exit" {
					fmt.Println("told to exit")
					os.Exit(7)
				}
				if in.Text() != "" {
					fmt.Fprintln(f, in.Text())
				}
				f.Close()
				notes, _ := os.ReadFile(filepath.Join(dir, "notes"))
				fmt.Fprintf(c, "%s.\n", notes)
				mu.Unlock()
			}
		}()
	}
}

// fakeParent starts a frozen and an unfrozen server, tells their processes and
// waits to be killed.
func fakeParent() {
	for i := range 2 {
		s, err := fake(context.Background(), "serve")
		if err == nil && i == 1 {
			err = s.Freeze()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.running[0].pid(), s.Dir)
	}
	fmt.Println("ready")
	select {}
}

func fake(ctx context.Context, mode string) (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return launch(ctx, "fake", 1, func(s *Server) error {
		s.commands = []command{{path: self, args: []string{s.addr, s.data()}, env: []string{"ROTA_FAKE=" + mode}}}
		s.answers = func(ctx context.Context) error {
			return ask(ctx, s.addr, "\n", func(r *bufio.Reader) error { _, err := r.ReadString('.'); return err })
		}
		return nil
	})
}

func startFake(t *testing.T) *Server {
	t.Helper()
	s, err := fake(t.Context(), "serve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// note sends a line, "" to ask only, and returns all notes.
func note(t *testing.T, s *Server, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var notes string
	err := ask(ctx, s.addr, line+"\n", func(r *bufio.Reader) (err error) { notes, err = r.ReadString('.'); return err })
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(strings.TrimSuffix(notes, ".")), " ")
}

func TestRestartKeepsPortAndData(t *testing.T) {
	s := startFake(t)
	addr := s.Addr()
	note(t, s, "one")
	must(t, s.Kill(), s.Start(t.Context()))
	if _, err := os.Stat(filepath.Join(s.data(), "clean")); err == nil {
		t.Error("a killed server ended in good order")
	}
	note(t, s, "two")
	must(t, s.Stop(t.Context()), s.Start(t.Context()))
	if _, err := os.Stat(filepath.Join(s.data(), "clean")); err != nil {
		t.Error("a stopped server did not end in good order")
	}
	if got := note(t, s, ""); got != "one two" || s.Addr() != addr {
		t.Errorf("%q at %s, before at %s", got, s.Addr(), addr)
	}
}

func TestFrozenIsSilentUntilThawed(t *testing.T) {
	s := startFake(t)
	must(t, s.Freeze())
	if halted, err := s.running[0].halted(); !halted || err != nil {
		t.Fatalf("halted: %v, %v", halted, err)
	}
	answer := make(chan string, 1)
	go func() { answer <- note(t, s, "one") }()
	select {
	case got := <-answer:
		t.Fatalf("a frozen server answered %q", got)
	case <-time.After(100 * time.Millisecond): // silence can only be waited for
	}
	must(t, s.Thaw())
	if got := <-answer; got != "one" {
		t.Error(got)
	}
	must(t, s.Freeze(), s.Stop(t.Context()), s.Start(t.Context()), s.Freeze(), s.Kill(), s.Start(t.Context()))
}

func TestRestoreForgets(t *testing.T) {
	s := startFake(t)
	note(t, s, "one")
	must(t, s.Freeze())
	first, err := s.Snapshot()
	must(t, err, s.Thaw())
	note(t, s, "two")
	must(t, s.Stop(t.Context()))
	second, err := s.Snapshot()
	must(t, err)
	for _, c := range []struct {
		snap Snapshot
		want string
	}{{first, "one"}, {second, "one two"}, {first, "one"}} {
		must(t, s.Restore(c.snap), s.Start(t.Context()))
		if got := note(t, s, ""); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		must(t, s.Kill())
	}
}

func TestWrongStateIsRefused(t *testing.T) {
	s := startFake(t)
	snapshot := func() error { _, err := s.Snapshot(); return err }
	restore := func() error { return s.Restore(Snapshot{s.data()}) }
	start := func() error { return s.Start(t.Context()) }
	stop := func() error { return s.Stop(t.Context()) }
	refused := func(do func() error, says string) {
		t.Helper()
		if err := do(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	refused(start, "start fake: it is running")
	refused(snapshot, "it is running")
	refused(restore, "it is running")
	refused(s.Thaw, "it is running")
	must(t, s.Freeze())
	refused(s.Freeze, "it is frozen")
	refused(restore, "it is frozen")
	must(t, s.Kill())
	for _, do := range []func() error{stop, s.Kill, s.Freeze, s.Thaw} {
		refused(do, "it is stopped")
	}
	must(t, s.Close(), s.Close())
}

func TestErrorsEndWithTheLog(t *testing.T) {
	begun := time.Now()
	s, err := fake(t.Context(), "complain")
	if s != nil || err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "this server only complains") {
		t.Errorf("got %v", err)
	}
	if time.Since(begun) > startTime/2 {
		t.Error("it was waited for a server that had ended")
	}

	s = startFake(t)
	ask(t.Context(), s.addr, "exit\n", func(r *bufio.Reader) error { _, err := r.ReadString('.'); return err })
	<-s.running[0].done
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 7") || !strings.Contains(err.Error(), "told to exit") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Dir after Close: %v", err)
	}
}

func TestStartEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := launch(ctx, "fake", 1, func(s *Server) error {
		s.commands = []command{{path: "sleep", args: []string{"1000"}}}
		s.answers = func(context.Context) error { return errors.New("nobody there") }
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nobody there") {
		t.Errorf("got %v", err)
	}
}

// The kernel ends a child with the thread that forked it, and the runtime ends a
// thread with the goroutine that was locked to it.
func TestServerOutlivesTheThreadThatStartedIt(t *testing.T) {
	var s *Server
	var err error
	thread := onThreadThatEnds(func() { s, err = fake(context.Background(), "serve") })
	must(t, err)
	defer s.Close()
	if !eventually(func() bool { _, err := os.Stat("/proc/self/task/" + strconv.Itoa(thread)); return err != nil }) {
		t.Fatal("the thread did not end")
	}
	if got := note(t, s, "one"); got != "one" {
		t.Error(got)
	}
}

// onThreadThatEnds returns the thread that f ran on and that ends with it. The
// main one never does: while we hold it, f gets another.
func onThreadThatEnds(f func()) (thread int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, but for the main one
		if thread = syscall.Gettid(); thread == os.Getpid() {
			thread = onThreadThatEnds(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
	return thread
}

func TestNoServerOutlivesUs(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "ROTA_FAKE=parent")
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	var pids []string
	for in := bufio.NewScanner(out); in.Scan() && in.Text() != "ready"; {
		pid, dir, ok := strings.Cut(in.Text(), " ")
		if !ok {
			t.Error(in.Text())
			continue
		}
		pids = append(pids, pid)
		defer os.RemoveAll(dir) // the parent has no time for that
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
	if len(pids) != 2 {
		t.Fatalf("%d servers", len(pids))
	}
	for _, pid := range pids {
		if !eventually(func() bool { return dead(pid) }) {
			t.Errorf("process %s is still there", pid)
		}
	}
}

// dead counts those as dead that nobody has asked for yet.
func dead(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || bytes.Contains(text, []byte(") Z "))
}

func eventually(ok func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

func TestHelpersDieWithTheServer(t *testing.T) {
	s, err := launch(t.Context(), "fake", 1, func(s *Server) error {
		s.commands = []command{{path: "sh", args: []string{"-c", "sleep 1000 & echo $! >helper.part; mv helper.part helper; wait"}}}
		s.answers = func(context.Context) error { _, err := os.Stat(s.path("helper")); return err }
		return nil
	})
	must(t, err)
	defer s.Close()
	helper, err := os.ReadFile(s.path("helper"))
	must(t, err, s.Kill())
	if !eventually(func() bool { return dead(strings.TrimSpace(string(helper))) }) {
		t.Error("the helper is still there")
	}
}
