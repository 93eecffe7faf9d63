package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats"
)

// A stranger is another user of the same machine. It is a process that has really
// changed its user, and it tries whatever it can think of.

const strangerArg = "be-a-stranger"

func init() {
	if len(os.Args) == 3 && os.Args[1] == strangerArg {
		var p prey
		if err := json.Unmarshal([]byte(os.Args[2]), &p); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		p.attack()
		os.Exit(0)
	}
}

// prey is what a stranger knows: everything but secrets.
type prey struct {
	Dir   string
	Files []string // below it
	Pids  []int
	URL   string // by TCP
	Look  bool   // only look, touch nothing
}

// attack prints a line for each deed: that it was done, or the refusal.
func (p *prey) attack() {
	try := func(what string, err error) {
		switch {
		case err == nil:
			fmt.Println("DONE", what)
		case errors.Is(err, fs.ErrPermission), strings.Contains(err.Error(), "Authorization Violation"):
			fmt.Println("refused", what)
		default:
			fmt.Println("ODD", what, err)
		}
	}
	file := func(name string) string { return filepath.Join(p.Dir, name) }
	conn, err := net.Dial("unix", file("rota.sock"))
	if err == nil {
		conn.Close()
	}
	try("connect to the socket", err)
	for _, name := range p.Files {
		if !strings.HasSuffix(name, ".sock") {
			_, err := os.ReadFile(file(name))
			try("read "+name, err)
		}
	}
	for _, pid := range p.Pids {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		try("read the environment", err)
		_, err = os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		try("see its files", err)
	}
	if p.Look {
		return
	}
	for _, url := range []string{p.URL, p.URL + "?nkey=" + file("rota.nkey"), p.URL + "?token=guess"} {
		if p.URL == "" {
			break
		}
		nc, err := rotanats.Connect(url, []nats.Option{nats.NoReconnect(), nats.Timeout(trial.Patience)})
		if err == nil {
			nc.Close()
		}
		try("connect to "+url, err)
	}
	for _, name := range p.Files {
		f, err := os.OpenFile(file(name), os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		try("open for writing "+name, err)
		try("link "+name, os.Link(file(name), fmt.Sprintf("/tmp/rota-stranger-%d", os.Getpid())))
		try("chmod "+name, os.Chmod(file(name), 0o777))
		try("rename "+name, os.Rename(file(name), file(name+".old")))
		try("remove "+name, os.Remove(file(name)))
	}
	try("make a file", os.WriteFile(file("rota.up"+strconv.Itoa(os.Getpid())), nil, 0o600))
	try("take the folder away", os.Rename(p.Dir, p.Dir+".old"))
	for _, pid := range p.Pids {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		try("open its memory", err)
		for _, s := range []syscall.Signal{0, syscall.SIGHUP, syscall.SIGSTOP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			try(fmt.Sprint("send it ", s), syscall.Kill(pid, s))
		}
	}
}

// strangerSays runs a stranger, as the user of the given id, and returns its lines.
func strangerSays(t *testing.T, uid int, p prey) []string {
	t.Helper()
	dir := openDir(t)
	exe := filepath.Join(dir, "stranger")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(exe, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	knows, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, strangerArg, string(knows))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		notAllowedHere(t, fmt.Sprintf("a process of user %d: %v", uid, err))
	}
	if err != nil {
		t.Fatalf("the stranger: %v: %s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// openDir is a folder that everybody may enter, unlike those of the testing package.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rota-stranger")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// notAllowedHere ends a test that the system does not let run.
func notAllowedHere(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("ROTA_REQUIRE_REAL") == "1" {
		t.Fatal(trial.NotAllowed + why)
	}
	t.Skip(trial.NotAllowed + why)
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		notAllowedHere(t, "only root can change its user")
	}
}

const nobodysID = 65534

// below names all files of a folder.
func below(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if d != nil && !d.IsDir() {
			name, err := filepath.Rel(dir, path)
			names = append(names, name)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// ways are the sockets that processes listen on: tcp ADDRESS:PORT, unix PATH, and so on.
func ways(t *testing.T, pids ...int) (all []string) {
	t.Helper()
	ours := map[string]bool{}
	for _, pid := range pids {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				ours[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	read := func(kind string, state, want, inode, name int) {
		b, err := os.ReadFile("/proc/net/" + kind)
		if err != nil {
			return // no IPv6, say
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) <= max(state, inode) || !ours[f[inode]] {
				continue
			}
			if s, err := strconv.ParseInt(f[state], 16, 64); want != 0 && (err != nil || s != int64(want)) {
				continue
			}
			if len(f) > name {
				all = append(all, kind+" "+f[name])
			}
		}
	}
	const listening, accepts = 0x0a, 0x10000
	for _, kind := range []string{"tcp", "tcp6"} {
		read(kind, 3, listening, 9, 1)
	}
	for _, kind := range []string{"udp", "udp6", "raw", "raw6"} {
		read(kind, 3, 0, 9, 1)
	}
	read("unix", 3, accepts, 6, 7)
	return all
}

// TestAStrangerGetsNowhere: another user of the machine, against rota serve and rota up
// of root, in a folder as they make it and in one that everybody may enter. Nothing is
// read, written or stopped.
func TestAStrangerGetsNowhere(t *testing.T) {
	needsRoot(t)
	quick(t)
	for _, c := range []struct {
		name string
		mode os.FileMode
		args []string
		tcp  bool
	}{
		{"serve", 0o700, []string{"serve"}, false},
		{"serve in a folder for all", 0o755, []string{"serve"}, false},
		{"serve by TCP", 0o755, []string{"serve", "--listen", trial.FreePort(t)}, true},
		{"up", 0o700, []string{"up", "--partitions", "2", "--members", "2"}, false},
		{"up in a folder for all", 0o755, []string{"up", "--partitions", "2", "--members", "2"}, false},
		{"up by TCP", 0o700, []string{"up", "--partitions", "2", "--members", "2", "--listen", trial.FreePort(t)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := openDir(t)
			data := filepath.Join(dir, connect.DefaultDir)
			if c.mode != 0o700 { // else it is theirs to make
				if err := errors.Join(os.Mkdir(data, c.mode), os.Chmod(data, c.mode)); err != nil {
					t.Fatal(err)
				}
			}
			p := trial.Start(t, dir, c.args...)
			pids := []int{p.Process.Pid}
			up := c.args[0] == "up"
			trial.Until(t, "the server", func() bool { return rotanats.Served("folder:"+data) == nil })
			if up {
				trial.Until(t, "the members", func() bool { return mapIs(spread(status(t, dir)), map[string]int{"c1": 1, "c2": 1}) })
				pids = append(pids, pidOf(t, p, "c1"), pidOf(t, p, "c2"))
			}
			victim := prey{Dir: data, Files: below(t, data), Pids: pids}
			if c.tcp {
				victim.URL = "nats://" + c.args[len(c.args)-1]
			}
			for _, want := range []string{"rota.lock", "rota.address", "rota.sock"} {
				if !slices.Contains(victim.Files, want) {
					t.Errorf("there is no %s to attack in %q", want, victim.Files)
				}
			}
			open := slices.DeleteFunc(ways(t, pids...), func(w string) bool { return w == "unix "+filepath.Join(connect.DefaultDir, "rota.sock") })
			if wants := map[bool]int{false: 0, true: 1}[c.tcp]; len(open) != wants {
				t.Errorf("there are other ways in than the folder's socket: %q", open)
			}
			said := strangerSays(t, nobodysID, victim)
			for _, line := range said {
				if !strings.HasPrefix(line, "refused ") {
					t.Error("the stranger: ", line)
				}
			}
			if least := 6*len(victim.Files) + 9*len(pids); len(said) < least {
				t.Errorf("it tried %d things, want %d: %q", len(said), least, said)
			}
			// The control: root can, so it was not the attack that did not work.
			victim.Look = true
			for _, line := range strangerSays(t, 0, victim) {
				if !strings.HasPrefix(line, "DONE ") && !strings.Contains(line, "jetstream") { // files come and go there
					t.Error("root: ", line)
				}
			}
			if code, _, stderr := rotaRuns(t.Context(), "status", "--dir", data, "--group", "demo"); code != 0 && !strings.Contains(stderr, "there is no group") {
				t.Errorf("after it: exit %d, %q", code, stderr)
			}
			select {
			case <-p.Exited:
				t.Error("it was ended")
			default:
			}
			if up && len(p.Out.String()) > 0 && strings.Contains(p.Out.String(), "is gone") {
				t.Error("a member was ended")
			}
		})
	}
}

// A squatter listens where a server was, and keeps what it hears.
type squatter struct {
	net.Listener
	mu    sync.Mutex
	heard []string
}

func squat(t *testing.T, address string) *squatter {
	t.Helper()
	var s squatter
	trial.Until(t, "the port "+address, func() (ok bool) {
		var err error
		s.Listener, err = net.Listen("tcp", address)
		return err == nil
	})
	t.Cleanup(func() { s.Close() })
	go func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.heard = append(s.heard, "a connection")
			s.mu.Unlock()
			go s.listen(conn)
		}
	}()
	return &s
}

func (s *squatter) listen(conn net.Conn) {
	defer conn.Close()
	conn.Write([]byte(`INFO {"server_id":"x","version":"2.11.0","proto":1,"headers":true,"max_payload":1048576,"auth_required":true,"nonce":"abcdefghijk"}` + "\r\n"))
	buf := make([]byte, 4<<10)
	n, _ := conn.Read(buf)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, string(buf[:n]))
}

func (s *squatter) words() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.heard, "; ")
}

// TestASquatterLearnsNothing: the server is down, and somebody else listens at its port.
// Nobody who goes by the folder speaks to it, and the folder can be served again.
func TestASquatterLearnsNothing(t *testing.T) {
	dir, port := t.TempDir(), trial.FreePort(t)
	data := filepath.Join(dir, connect.DefaultDir)
	p := trial.Start(t, dir, "serve", "--listen", port)
	trial.Until(t, "the server", func() bool { return strings.Contains(p.Out.String(), "serving") })
	p.Process.Kill()
	p.Code()
	s := squat(t, port)
	source := "embed:" + data + "?stream=S&subject=s.*&partitions=1"
	for _, args := range [][]string{
		{"status", "--group", "g", "--dir", data}, {"pause", "s.0", "--group", "g", "--dir", data}, {"produce", "--source", source, "x"},
		{"run", "--group", "g", "--dir", data, "--source", source, "--handle", "none"},
	} {
		code, _, stderr := rotaRuns(t.Context(), args...)
		if code != cli.ExitUnreachable || !strings.Contains(stderr, "no rota up or rota serve runs in "+data+" now") {
			t.Errorf("rota %v: exit %d, %q", args, code, stderr)
		}
	}
	if code, _, stderr := rotaRuns(t.Context(), "serve", "--dir", data, "--listen", port); code == 0 || !strings.Contains(stderr, "the port is taken: "+port) {
		t.Errorf("serve at the port of another: exit %d, %q", code, stderr)
	}
	trial.Start(t, dir, "serve")
	trial.Until(t, "the server without a port", func() bool { return rotanats.Served("folder:"+data) == nil })
	if code, _, stderr := rotaRuns(t.Context(), "status", "--group", "g", "--dir", data); code != cli.ExitFailed || !strings.Contains(stderr, "there is no group") {
		t.Errorf("status: exit %d, %q", code, stderr)
	}
	if heard := s.words(); heard != "" {
		t.Errorf("the squatter heard %s", heard)
	}
}

// TestOpenIsSaidFirst, and never again: the next server of the folder listens nowhere.
func TestOpenIsSaidFirst(t *testing.T) {
	for _, verb := range [][]string{{"serve"}, {"up", "--members", "1", "--partitions", "1"}} {
		t.Run(verb[0], func(t *testing.T) {
			quick(t)
			dir, port := t.TempDir(), trial.FreePort(t)
			data := filepath.Join(dir, connect.DefaultDir)
			p := trial.Start(t, dir, append(verb, "--open", "--listen", port)...)
			trial.Until(t, "its first line", func() bool { return strings.Contains(p.Out.String(), "\n") })
			if first, _, _ := strings.Cut(p.Out.String(), "\n"); !strings.Contains(first, "OPEN to every user of this machine") || !strings.Contains(first, port) {
				t.Errorf("it begins with %q", first)
			}
			code, _, stderr := rotaRuns(t.Context(), "status", "--group", "nosuch", "--store", "nats://"+port)
			if code != cli.ExitFailed || !strings.Contains(stderr, "there is no group") {
				t.Errorf("by TCP: exit %d, %q", code, stderr)
			}
			p.Process.Signal(syscall.SIGTERM)
			p.Code()
			again := trial.Start(t, dir, verb...)
			trial.Until(t, "its first line", func() bool { return strings.Contains(again.Out.String(), "\n") })
			if first, _, _ := strings.Cut(again.Out.String(), "\n"); strings.Contains(first, "OPEN") || strings.Contains(first, "nats://") {
				t.Errorf("without --open it begins with %q", first)
			}
			if err := rotanats.Served("folder:" + data); err != nil {
				t.Error(err)
			}
			if conn, err := net.Dial("tcp", port); err == nil {
				conn.Close()
				t.Error("somebody listens at the port where it was open")
			}
		})
	}
}

// TestConnectionsLeaveFilesToOpen: whoever can reach the port can make connections, and
// the server takes no more of them than half of the files that it may have open.
func TestConnectionsLeaveFilesToOpen(t *testing.T) {
	dir, port := t.TempDir(), trial.FreePort(t)
	const most = 256
	t.Setenv("ROTA_TEST_EXE", os.Args[0])
	p := trial.StartBy(t, exec.Command("/bin/sh", "-c", fmt.Sprintf("ulimit -n %d; exec \"$ROTA_TEST_EXE\" serve --listen %s", most, port)), dir)
	trial.Until(t, "the server", func() bool { return strings.Contains(p.Out.String(), "serving") })
	refused := make(chan struct{})
	var once sync.Once
	for range 2 * most {
		conn, err := net.DialTimeout("tcp", port, trial.Patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			buf := make([]byte, 4<<10)
			for said := ""; ; {
				n, err := conn.Read(buf)
				if said += string(buf[:n]); strings.Contains(said, "maximum connections exceeded") {
					once.Do(func() { close(refused) })
				}
				if err != nil {
					return
				}
			}
		}()
	}
	select {
	case <-refused:
	case <-time.After(trial.Patience):
		t.Fatal("it refuses nobody")
	}
	trial.Until(t, "the refused to be gone", func() bool {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid))
		return err == nil && len(files) < most*3/4
	})
	// They are gone after a while, since they did not sign in, and others come in again.
	trial.Until(t, "room for the owner", func() bool {
		code, _, stderr := rotaRuns(t.Context(), "status", "--group", "g", "--dir", filepath.Join(dir, connect.DefaultDir))
		return code == cli.ExitFailed && strings.Contains(stderr, "there is no group")
	})
}
