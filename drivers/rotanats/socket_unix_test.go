//go:build unix

package rotanats_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// TestSocketOfAFolder checks that only the owner can connect, whatever the process's umask
// and the folder's mode are, and that the server does not listen elsewhere.
func TestSocketOfAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	was := syscall.Umask(0)
	s, err := embedded.Serve("embed:"+dir, "")
	syscall.Umask(was)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := os.Lstat(filepath.Join(dir, "rota.sock"))
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if s.Addr() != "" || s.URL() != "folder:"+dir {
		t.Errorf("it serves at %q, %q", s.Addr(), s.URL())
	}
	for _, url := range []string{"folder:" + dir, "embed:" + dir} {
		if err := works(t, embedded.Store(url)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := rotanats.Served("folder:" + dir); err != nil {
		t.Error(err)
	}
}

// TestLongPaths uses a folder whose path is longer than that of a socket may be.
func TestLongPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30), strings.Repeat("long", 50))
	tmp, err := os.MkdirTemp("/tmp", "rota-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	t.Setenv("TMPDIR", tmp)
	kill := host(t, dir)
	if err := works(t, rotanats.Store("folder:"+dir)); err != nil {
		t.Errorf("by another process: %v", err)
	}
	kill()
	if err := works(t, embedded.Store("embed:"+dir)); err != nil {
		t.Errorf("after the socket of a killed server: %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	t.Setenv("TMPDIR", dir)
	if err := rotanats.Served("folder:" + dir); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("without a short place for a link: %v", err)
	}
}

// TestDeadSocket leaves the socket of a server that was killed or closed. It counts as not
// served, and the next server replaces it.
func TestDeadSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	unserved := func() {
		t.Helper()
		if err := rotanats.Served("folder:" + dir); err == nil || !strings.Contains(err.Error(), "nobody serves it now") {
			t.Errorf("served: %v", err)
		}
	}
	unserved()
	kill := host(t, dir)
	kill()
	if _, err := os.Lstat(filepath.Join(dir, "rota.sock")); err != nil {
		t.Fatal(err)
	}
	unserved()
	s, err := embedded.Serve("embed:"+dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := works(t, rotanats.Store(s.URL())); err != nil {
		t.Error(err)
	}
	s.Close()
	unserved()
}

// TestDeafClientDoesNotHoldUpAServer closes a server while a client does not read, and all
// buffers on the way to it are full.
func TestDeafClientDoesNotHoldUpAServer(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "rota-test") // short enough to be dialled as it is
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := embedded.Serve("embed:"+dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	deaf, err := net.Dial("unix", filepath.Join(dir, "rota.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := deaf.Write([]byte("CONNECT {\"verbose\":false}\r\nSUB news 1\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	heard := ""
	for buf := make([]byte, 4<<10); !strings.Contains(heard, "PONG"); {
		n, err := deaf.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		heard += string(buf[:n])
	}
	nc, err := rotanats.Connect(s.URL(), []nats.Option{nats.NoReconnect()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 16 {
		if err := nc.Publish("news", make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 8*time.Second { // the server's write timeout is ten
		t.Errorf("it took %v to end", took)
	}
}
