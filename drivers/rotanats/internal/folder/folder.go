// Package folder is the folder of an embedded server, as both its clients and its
// server see it: the files in it, who may have written them, and the socket.
package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nats-io/nkeys"
)

// A Folder holds an embedded server: its data, a lock that the serving process
// keeps for as long as it lives, and a note of where it serves.
type Folder struct {
	Dir    string
	Shared bool // others may write to it
}

func (f Folder) String() string { return f.Dir }

const (
	LockFile = "rota.lock"
	noteFile = "rota.address"
	keyFile  = "rota.nkey"
	dataDir  = "jetstream" // as the server calls it
)

// A Note is what the next server, and whoever wonders, must know of this one.
type Note struct {
	Address string `json:"address,omitempty"` // where it listens beside its socket
	Guarded bool   `json:"guarded,omitempty"` // it was told secrets, which only who was told them can ask for
	Pid     int    `json:"pid"`               // of the one that serves, or did last
}

func (f Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Read reads the note.
func (f Folder) Read() (Note, error) {
	var n Note
	text, err := f.Load(noteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return n, fmt.Errorf("nobody has served the folder %s yet", f)
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("%s is not a note of rota's: remove it if no server of this folder runs", f.Path(noteFile))
	}
	return n, nil
}

// WriteNote says what this server is.
func (f Folder) WriteNote(n Note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return f.write(noteFile, text)
}

// write replaces a file in one step: others read it at any time.
func (f Folder) write(name string, text []byte) error {
	tmp := name + ".new"
	if err := os.Remove(f.Path(tmp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // of one that ended in between
	}
	file, err := f.Open(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(f.Path(tmp), f.Path(name))
}

// Key is the public half of the folder's key, which is made when it is first needed.
// Clients that come by TCP prove that they can read the other half, and do not send it.
func (f Folder) Key() (public string, err error) {
	text, err := f.Load(keyFile)
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
		return "", fmt.Errorf("%s is not a key of rota's: remove it, and give the new one to clients", f.Path(keyFile))
	}
	return public, nil
}

// prepare makes the folder, or sees that it is one of ours.
func (f Folder) prepare() error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return f.Explain(err)
	}
	if err := f.private(); err != nil {
		return err
	}
	list, err := os.ReadDir(f.Dir)
	if err != nil {
		return f.Explain(err)
	}
	ours := func(e fs.DirEntry) bool {
		return slices.Contains([]string{LockFile, noteFile, noteFile + ".new"}, e.Name())
	}
	if len(list) > 0 && !slices.ContainsFunc(list, ours) {
		return fmt.Errorf("the folder %s holds something else (%s): choose one that is empty or does not exist", f, list[0].Name())
	}
	return nil
}

// Explain says what is wrong with the folder, and what to do.
func (f Folder) Explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission for the folder %s: choose one that this user may write to (%w)", f, err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is not a folder (%w)", f, err)
	}
	return fmt.Errorf("the folder %s: %w", f, err)
}

// ErrServed: another process has the lock.
var ErrServed = errors.New("another process serves it")

// Still sees that the folder is the one whose lock file was opened. An open file
// keeps its inode, so another file is never taken for it.
func (f Folder) Still(lock *os.File) error {
	was, err := lock.Stat()
	if err != nil {
		return nil // closed: nobody depends on it any more
	}
	now, err := os.Lstat(f.Path(LockFile))
	if err == nil && os.SameFile(was, now) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil // it cannot be seen, which says nothing
	}
	return fmt.Errorf("the folder %s %w: end all processes that use it, put the old folder back if its records matter, then start them again", f, ErrReplaced)
}

// ErrReplaced: the folder is not the one whose lock file was opened.
var ErrReplaced = errors.New("was removed or replaced while it was in use")

// Lock takes the folder, or returns ErrServed. The kernel gives it back when this
// process ends, however it ends.
func (f Folder) Lock() (*os.File, error) {
	if err := f.prepare(); err != nil {
		return nil, err
	}
	file, err := f.Open(LockFile, os.O_RDWR|os.O_CREATE|NonBlock)
	if errors.Is(err, ErrForeign) {
		return nil, err
	}
	if err != nil {
		return nil, f.Explain(err)
	}
	if err := flock(file); err != nil {
		file.Close()
		return nil, err
	}
	if f.Still(file) != nil { // since it was opened
		file.Close()
		return nil, ErrServed
	}
	return file, nil
}

// Last is the note of the server before, empty if there was none. fresh tells that
// nothing was ever served from here.
func (f Folder) Last() (n Note, fresh bool, err error) {
	n, err = f.Read()
	if err == nil {
		return n, false, nil
	}
	if _, there := os.Lstat(f.Path(noteFile)); there == nil {
		return n, false, err
	}
	_, none := os.Lstat(f.Path(dataDir))
	return Note{}, errors.Is(none, fs.ErrNotExist), nil
}
