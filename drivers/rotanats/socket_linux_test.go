package rotanats_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-dev/rota/drivers/rotanats"
)

// TestSocketThatAnotherUserServes has a socket whose file belongs to this user, while
// another user listens on it. No client may send anything to it.
func TestSocketThatAnotherUserServes(t *testing.T) {
	if path := os.Getenv("ROTANATS_TEST_SQUAT"); path != "" {
		squat(t, path)
		return
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NOT ALLOWED: only root can start a process of another user")
	}
	tmp, err := os.MkdirTemp("/tmp", "rota-squat")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	exe := filepath.Join(tmp, "test")
	text, err := os.ReadFile(os.Args[0]) // user nobody cannot reach its folder
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(exe, text, 0o755), os.Chmod(tmp, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	made := filepath.Join(tmp, "s")
	cmd := exec.Command(exe, "-test.run=^TestSocketThatAnotherUserServes$", "-test.v")
	cmd.Dir, cmd.Env = "/", []string{"ROTANATS_TEST_SQUAT=" + made}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("NOT ALLOWED: a process of nobody's: %v", err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "listening" {
	}
	dir := filepath.Join(t.TempDir(), "data")
	sock := filepath.Join(dir, "rota.sock")
	for _, err := range []error{os.Mkdir(dir, 0o700), os.Rename(made, sock), os.Chown(sock, 0, 0), os.Chmod(sock, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{"Served": rotanats.Served("folder:" + dir), "Source": sourceError(t, "embed:"+dir)} {
		if err == nil || !strings.Contains(err.Error(), "is served by user 65534") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := rotanats.Served("folder:" + dir + "?shared=true"); err != nil {
		t.Errorf("the control: a folder that is shared: %v", err)
	}
}

// squat is the process of that other user.
func squat(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("listening\n")
	var guests []net.Conn // connections stay open
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err, len(guests))
		}
		guests = append(guests, c)
	}
}
