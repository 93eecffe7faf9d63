//go:build unix

package rotanats_test

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// A trap is a folder that another user has prepared.
type trap struct{ dir, victim string }

const precious = "precious\n"

// newTrap makes a folder of the given mode with a lock file, so that it looks like one of
// rota, and a file of ours elsewhere that must not be touched.
func newTrap(t *testing.T, mode os.FileMode) *trap {
	t.Helper()
	home := t.TempDir()
	tr := &trap{dir: filepath.Join(home, "data"), victim: filepath.Join(home, "victim")}
	tr.must(t, os.Mkdir(tr.dir, 0o700), os.WriteFile(filepath.Join(tr.dir, "rota.lock"), nil, 0o600),
		os.WriteFile(tr.victim, []byte(precious), 0o600), os.Chmod(tr.dir, mode))
	return tr
}

func (tr *trap) must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// link puts a symbolic link into the folder.
func (tr *trap) link(t *testing.T, name, to string) {
	t.Helper()
	os.Remove(filepath.Join(tr.dir, name))
	tr.must(t, os.Symlink(to, filepath.Join(tr.dir, name)))
}

// spring uses the folder in every way, and returns the errors.
func (tr *trap) spring(t *testing.T, query string) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all := map[string]error{}
	s, err := embedded.Serve("embed:"+tr.dir+query, "")
	if err == nil {
		s.Close()
	}
	all["Serve"] = err
	st := embedded.Store("embed:" + tr.dir + query)
	_, all["Embed"] = st.Put(ctx, "k", nil, 0)
	st.Close()
	src := rotanats.Source(with("embed:"+tr.dir+query, "stream=S&subject=s.*"))
	_, all["Source"] = src.Partitions(ctx)
	src.(interface{ Close() error }).Close()
	_, all["ReadFolder"] = rotanats.ReadFolder("folder:"+tr.dir+query, "rota.address")
	if text, err := os.ReadFile(tr.victim); err != nil || string(text) != precious {
		t.Errorf("the file of ours that a link leads to holds %q, %v", text, err)
	}
	return all
}

const noted = `{"address":"127.0.0.1:1","token":"of-somebody-else","pid":1}`

// TestFolderThatOthersPrepared checks that a folder of another user is refused, and that no
// file is touched to which it leads.
func TestFolderThatOthersPrepared(t *testing.T) {
	const nobody = 65534
	for name, c := range map[string]struct {
		mode    os.FileMode
		prepare func(t *testing.T, tr *trap) error
		root    bool // only root can prepare it
		says    string
	}{
		"writable by all":       {mode: 0o777, says: "may be written by other users (mode 0777)"},
		"writable by a group":   {mode: 0o770, says: "may be written by other users (mode 0770)"},
		"sticky":                {mode: 0o777 | os.ModeSticky, says: "may be written by other users"},
		"of another user":       {mode: 0o700, root: true, says: "belongs to user 65534", prepare: func(_ *testing.T, tr *trap) error { return os.Chown(tr.dir, nobody, nobody) }},
		"linked by another":     {mode: 0o700, root: true, says: "belongs to user 65534", prepare: linked(nobody)},
		"a note of another's":   {mode: 0o700, root: true, says: "belongs to user 65534", prepare: noteOf(nobody, 0o644)},
		"a note for all":        {mode: 0o700, says: "may be written by other users (mode 0666)", prepare: noteOf(os.Geteuid(), 0o666)},
		"a socket of another's": {mode: 0o700, root: true, says: "belongs to user 65534", prepare: socketOf(nobody, 0o600)},
		"a socket for all":      {mode: 0o700, says: "may be written by other users (mode 0666)", prepare: socketOf(os.Geteuid(), 0o666)},
		"a file as a socket":    {mode: 0o700, says: "is not a socket", prepare: fileAsSocket},
		"records of another's":  {mode: 0o700, root: true, says: "belongs to user 65534", prepare: recordsOf(nobody)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.root && os.Geteuid() != 0 {
				t.Skip("NOT ALLOWED: only root can give a file to another user")
			}
			tr := newTrap(t, c.mode)
			tr.link(t, "rota.address.new", tr.victim)
			if c.prepare == nil || strings.HasPrefix(name, "of ") {
				tr.must(t, os.WriteFile(filepath.Join(tr.dir, "rota.address"), []byte(noted), 0o600))
			}
			if c.prepare != nil {
				tr.must(t, c.prepare(t, tr))
			}
			for how, err := range tr.spring(t, "") {
				if reads := map[string]string{"rec": "Serve Embed", "a n": "Serve Embed ReadFolder", "a s": "Serve Embed Source", "a f": "Serve Embed Source"}[name[:3]]; reads != "" && !strings.Contains(reads, how) {
					continue // it does not touch that file
				}
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "--shared-folder") {
					t.Errorf("%s: %v; want %q and what to do", how, err, c.says)
				}
			}
		})
	}
}

// linked replaces the folder by another user's link to it.
func linked(uid int) func(*testing.T, *trap) error {
	return func(t *testing.T, tr *trap) error {
		real := tr.dir + ".real"
		tr.must(t, os.Rename(tr.dir, real), os.Symlink(real, tr.dir))
		return os.Lchown(tr.dir, uid, uid)
	}
}

func noteOf(uid int, mode os.FileMode) func(*testing.T, *trap) error {
	return func(t *testing.T, tr *trap) error {
		file := filepath.Join(tr.dir, "rota.address")
		tr.must(t, os.WriteFile(file, []byte(noted), 0o600), os.Chmod(file, mode))
		return os.Chown(file, uid, -1)
	}
}

// socketOf puts a socket there on which the trap listens.
func socketOf(uid int, mode os.FileMode) func(*testing.T, *trap) error {
	return func(t *testing.T, tr *trap) error {
		file := filepath.Join(tr.dir, "rota.sock")
		tr.listen(t, file)
		tr.must(t, os.Chmod(file, mode))
		return os.Chown(file, uid, -1)
	}
}

func fileAsSocket(_ *testing.T, tr *trap) error {
	return os.WriteFile(filepath.Join(tr.dir, "rota.sock"), nil, 0o600)
}

// listen accepts connections at a path, and fails the test for each.
func (tr *trap) listen(t *testing.T, path string) {
	t.Helper()
	short := filepath.Join("/tmp", "rota-trap-"+rand.Text()) // a path that is short enough for a socket
	l, err := net.Listen("unix", short)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	tr.must(t, os.Rename(short, path))
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			t.Errorf("somebody has connected to %s", path)
		}
	}()
}

func recordsOf(uid int) func(*testing.T, *trap) error {
	return func(t *testing.T, tr *trap) error {
		dir := filepath.Join(tr.dir, "jetstream")
		tr.must(t, os.Mkdir(dir, 0o755))
		return os.Chown(dir, uid, uid)
	}
}

// TestLinksInAFolderAreNotFollowed checks symbolic links, also in a folder of our own and
// in a shared one.
func TestLinksInAFolderAreNotFollowed(t *testing.T) {
	for _, name := range []string{"rota.lock", "rota.address", "rota.sock", "jetstream"} {
		for _, mode := range []os.FileMode{0o700, 0o777} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				tr := newTrap(t, mode)
				to := tr.victim
				if name == "jetstream" {
					to = filepath.Dir(tr.victim)
				}
				if name == "rota.sock" {
					to = tr.victim + ".sock"
					tr.listen(t, to)
				}
				if name == "rota.address" {
					tr.must(t, os.WriteFile(tr.victim+".note", []byte(noted), 0o600))
					to = tr.victim + ".note"
				}
				tr.link(t, name, to)
				for how, err := range tr.spring(t, "?shared=true") {
					if how == "Source" && name != "rota.sock" || how == "ReadFolder" && name != "rota.address" {
						continue
					}
					if err == nil || !strings.Contains(err.Error(), "is a symbolic link") && !strings.Contains(err.Error(), "is not a folder") {
						t.Errorf("%s: %v", how, err)
					}
				}
			})
		}
	}
}

// TestSharedFolderIsUsed checks that shared=true makes another user's folder usable. A link
// in the place of rota.address is replaced, and not followed.
func TestSharedFolderIsUsed(t *testing.T) {
	t.Parallel()
	tr := newTrap(t, 0o777)
	tr.link(t, "rota.address.new", tr.victim)
	if err := works(t, embedded.Store("embed:"+tr.dir+"?shared=true")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(tr.victim); err != nil || string(text) != precious {
		t.Errorf("the file of ours that a link leads to holds %q, %v", text, err)
	}
}
