package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"golang.org/x/sys/unix"
)

// A rota that somebody made setuid or setgid does nothing.
func TestSetuidIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT ALLOWED: only root can give a file to another user")
	}
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("NOT ALLOWED: %s is mounted nosuid (%v)", dir, err)
	}
	const nobody = 65534
	for name, c := range map[string]struct {
		mode os.FileMode
		says string
	}{
		"setuid": {0o755 | os.ModeSetuid, "rota must not be setuid"},
		"setgid": {0o755 | os.ModeSetgid, "rota must not be setgid"},
	} {
		file := filepath.Join(dir, name)
		copyFile(t, file)
		if err := errors.Join(os.Chown(file, nobody, nobody), os.Chmod(file, c.mode)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(file, "version")
		cmd.Env = append(os.Environ(), "ROTA_TEST_AS=rota")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != cli.ExitUsage || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "go1.") {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}

// copyFile copies this binary.
func copyFile(t *testing.T, to string) {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
