package rotanats_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// TestFolderTakenAwayFromItsServer removes or moves a folder while processes use it, and
// lets another process begin in a new folder at the same path. The old processes must not
// go on beside it: they stop with an error that names the cause.
func TestFolderTakenAwayFromItsServer(t *testing.T) {
	for name, c := range map[string]struct {
		remove func(dir string) error
		next   bool // another process begins in a new folder
	}{
		"removed, and made again": {os.RemoveAll, true},
		"moved, and made again":   {func(dir string) error { return os.Rename(dir, dir+".old") }, true},
		"emptied, and used again": {empty, true},
		"moved":                   {func(dir string) error { return os.Rename(dir, dir+".old") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			put := func(s rota.Store, key string) error { _, err := s.Put(t.Context(), key, nil, 0); return err }
			host, guest := embedded.Store("embed:"+dir), embedded.Store("embed:"+dir)
			t.Cleanup(func() { host.Close(); guest.Close() })
			if err := errors.Join(put(host, "host"), put(guest, "guest")); err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				if err := put(host, fmt.Sprint("more/", i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.remove(dir); err != nil {
				t.Fatal(err)
			}
			var next rota.Store
			if c.next {
				next = embedded.Store("embed:" + dir)
				t.Cleanup(func() { next.Close() })
				if err := put(next, "next"); err != nil {
					t.Fatal(err)
				}
			}
			for name, s := range map[string]rota.Store{"host": host, "guest": guest} {
				noticed := func(err error) bool {
					return err != nil && strings.Contains(err.Error(), dir) && strings.Contains(err.Error(), "removed or replaced")
				}
				var err error
				for deadline := time.Now().Add(5 * time.Second); !noticed(err); err = put(s, name) {
					if time.Now().After(deadline) {
						t.Fatalf("the %s has not noticed: %v", name, err)
					}
				}
				for range 5 { // it stays closed
					if err := put(s, "again"); !noticed(err) {
						t.Errorf("the %s, once it has noticed: %v", name, err)
					}
				}
			}
			if !c.next {
				if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the folder was made again: %v", err)
				}
				return
			}
			if err := put(next, "still"); err != nil {
				t.Errorf("the next one cannot write: %v", err)
			}
			next.Close() // its records survive, although the old server has written while it stopped
			next = embedded.Store("embed:" + dir)
			t.Cleanup(func() { next.Close() })
			for _, key := range []string{"next", "still"} {
				if _, err := next.Get(t.Context(), key); err != nil {
					t.Errorf("what was written in the new folder: %s: %v", key, err)
				}
			}
			for _, key := range []string{"host", "guest", "again", "more/50"} {
				if _, err := next.Get(t.Context(), key); !errors.Is(err, rota.ErrNotFound) {
					t.Errorf("what was written in the old folder is in the new one: %s, %v", key, err)
				}
			}
		})
	}
}

func empty(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// TestServerTellsThatItsFolderIsGone checks Done and Err of a Server whose folder was
// removed.
func TestServerTellsThatItsFolderIsGone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	dir := filepath.Join(t.TempDir(), "data")
	gone, err := embedded.Serve("embed:"+dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("it serves on")
	}
	if err := gone.Err(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("it stopped because of %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("one that serves says %v", err)
	}
	s.Close()
	if err := s.Err(); err != nil {
		t.Errorf("one that was closed says %v", err)
	}
}
