package servers

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCopyTreeCopiesAllThatLasts(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	hole := make([]byte, 300<<10)
	hole[200<<10] = 1
	files := map[string][]byte{"a": []byte("a"), "d/e/f": []byte("f"), "empty": nil, "hole": hole, "zeros": make([]byte, 100<<10)}
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755), os.WriteFile(filepath.Join(from, name), text, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(from, "bare"), 0o755), os.Symlink("a", filepath.Join(from, "link")))
	must(t, copyTree(to, from))
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d; %v", name, len(got), len(want), err)
		}
	}
	if target, err := os.Readlink(filepath.Join(to, "link")); target != "a" {
		t.Error(target, err)
	}
	if info, err := os.Stat(filepath.Join(to, "bare")); err != nil || !info.IsDir() {
		t.Error(err)
	}
}

func TestPortsAreNotGivenTwice(t *testing.T) {
	var given []int
	for range 200 {
		p, err := reserve()
		must(t, err)
		defer p.release()
		if slices.Contains(given, p.number) {
			t.Fatalf("%v twice", p)
		}
		if p.number >= 32768 {
			t.Errorf("%v is for outgoing connections", p)
		}
		given = append(given, p.number)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
