package rotatest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of 24 MB for one test. fill uses it up, to the last
// byte; free gives 3 MB back, as when somebody removes a file or two. Only root can mount:
// for others the test is skipped, and fails with ROTA_REQUIRE_REAL=1.
func SmallDisk(t testing.TB) (dir string, fill func() (free func())) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=0700"); errors.Is(err, syscall.EPERM) {
		const why = "NOT ALLOWED: only root can mount a small file system"
		if os.Getenv("ROTA_REQUIRE_REAL") == "1" {
			t.Fatal(why)
		}
		t.Skip("SKIP " + why)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func() func() { return fillDisk(t, filepath.Join(dir, "fill")) }
}

func fillDisk(t testing.TB, name string) (free func()) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		n, err := file.Write(make([]byte, size))
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if n < size {
			size /= 2
		}
	}
	return func() {
		info, err := os.Stat(name)
		if err == nil {
			err = os.Truncate(name, info.Size()-3<<20)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
