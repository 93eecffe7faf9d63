package rotanats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nats-io/nkeys"
)

// A folder holds an embedded server: its data, a lock that whoever serves it
// keeps for as long as it lives, and a note of where it serves.
type folder struct {
	dir    string
	shared bool // others may write to it
}

func (f folder) String() string { return f.dir }

const (
	lockFile = "rota.lock"
	noteFile = "rota.address"
	keyFile  = "rota.nkey"
	dataDir  = "jetstream" // as the server calls it
)

// note is what the next server, and whoever wonders, must know of this one.
type note struct {
	Address string `json:"address,omitempty"` // where it listens beside its socket
	Guarded bool   `json:"guarded,omitempty"` // it was told secrets, which only who was told them can ask for
	Pid     int    `json:"pid"`               // of the one that serves, or did last
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f folder) read() (note, error) {
	var n note
	text, err := f.load(noteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return n, fmt.Errorf("nobody has served the folder %s yet", f)
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("%s is not a note of rota's: remove it if no server of this folder runs", f.path(noteFile))
	}
	return n, nil
}

// note writes what this server is.
func (f folder) note(n note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return f.write(noteFile, text)
}

// write replaces a file in one step: others read it at any time.
func (f folder) write(name string, text []byte) error {
	tmp := name + ".new"
	if err := os.Remove(f.path(tmp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // of one that ended in between
	}
	file, err := f.open(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(f.path(tmp), f.path(name))
}

// key is the public half of the folder's key, which is made when it is first needed.
// Clients that come by TCP prove that they can read the other half, and do not send it.
func (f folder) key() (public string, err error) {
	text, err := f.load(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		var pair nkeys.KeyPair
		if pair, err = nkeys.CreateUser(); err == nil {
			text, err = pair.Seed()
		}
		if err == nil {
			err = f.write(keyFile, text)
		}
	}
	if err != nil {
		return "", err
	}
	pair, err := nkeys.FromSeed(bytes.TrimSpace(text))
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("%s is not a key of rota's: remove it, and give the new one to clients", f.path(keyFile))
	}
	return public, nil
}

// prepare makes the folder, or sees that it is one of ours.
func (f folder) prepare() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return f.explain(err)
	}
	if err := f.private(); err != nil {
		return err
	}
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return f.explain(err)
	}
	ours := func(e fs.DirEntry) bool {
		return slices.Contains([]string{lockFile, noteFile, noteFile + ".new"}, e.Name())
	}
	if len(list) > 0 && !slices.ContainsFunc(list, ours) {
		return fmt.Errorf("the folder %s holds something else (%s): choose one that is empty or does not exist", f, list[0].Name())
	}
	return nil
}

func (f folder) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission for the folder %s: choose one that this user may write to (%w)", f, err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is not a folder (%w)", f, err)
	}
	return fmt.Errorf("the folder %s: %w", f, err)
}

// errServed: somebody else has the lock.
var errServed = errors.New("another process serves it")

// still sees that the folder is the one whose lock file was opened. An open file
// keeps its inode, so another file is never taken for it.
func (f folder) still(lock *os.File) error {
	was, err := lock.Stat()
	if err != nil {
		return nil // closed: nobody depends on it any more
	}
	now, err := os.Lstat(f.path(lockFile))
	if err == nil && os.SameFile(was, now) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil // it cannot be seen, which says nothing
	}
	return fmt.Errorf("the folder %s %w: end all processes that use it, put the old folder back if its records matter, then start them again", f, errReplaced)
}

var errReplaced = errors.New("was removed or replaced while it was in use")

// lock takes the folder, or returns errServed. The kernel gives it back when this
// process ends, however it ends.
func (f folder) lock() (*os.File, error) {
	if err := f.prepare(); err != nil {
		return nil, err
	}
	file, err := f.open(lockFile, os.O_RDWR|os.O_CREATE|nonBlock)
	if errors.Is(err, errForeign) {
		return nil, err
	}
	if err != nil {
		return nil, f.explain(err)
	}
	if err := flock(file); err != nil {
		file.Close()
		return nil, err
	}
	if f.still(file) != nil { // since it was opened
		file.Close()
		return nil, errServed
	}
	return file, nil
}

// last is the note of the server before, empty if there was none. fresh tells that
// nothing was ever served from here.
func (f folder) last() (n note, fresh bool, err error) {
	n, err = f.read()
	if err == nil {
		return n, false, nil
	}
	if _, there := os.Lstat(f.path(noteFile)); there == nil {
		return n, false, err
	}
	_, none := os.Lstat(f.path(dataDir))
	return note{}, errors.Is(none, fs.ErrNotExist), nil
}

// free tells whether an address can be listened on.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the port is taken: %s: another program listens there; stop it, or give another address", address)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to listen on %s: choose a port above 1023 (%w)", address, err)
	}
	return fmt.Errorf("listen on %s: %w", address, err)
}

// loopback tells whether an address can be reached from this host alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
