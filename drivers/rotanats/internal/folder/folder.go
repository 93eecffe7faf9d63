// Package folder is the folder of an embedded server, for its clients and its server: the
// files in it, the check of which user can have written them, and the socket.
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

// A Folder has the data of an embedded server, a lock that the serving process keeps as
// long as it lives, and a note about the server.
type Folder struct {
	Dir    string
	Shared bool // other users may write to it
}

func (f Folder) String() string { return f.Dir }

const (
	LockFile = "rota.lock"
	noteFile = "rota.address"
	keyFile  = "rota.nkey"
	dataDir  = "jetstream" // the server's name for it
)

// A Note describes the server to the next one, and to processes that find the folder
// locked.
type Note struct {
	Address string `json:"address,omitempty"` // where it listens for TCP clients
	Guarded bool   `json:"guarded,omitempty"` // served with secrets or TLS: a server that does not know them must not take over
	Pid     int    `json:"pid"`               // of the process that serves the folder, or did last
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
		return n, fmt.Errorf("%s was not written by rota: remove it if no server of this folder runs", f.Path(noteFile))
	}
	return n, nil
}

// WriteNote replaces the note.
func (f Folder) WriteNote(n Note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return f.write(noteFile, text)
}

// write replaces a file atomically, since other processes read it at any time.
func (f Folder) write(name string, text []byte) error {
	tmp := name + ".new" // it exists if a process ended before the rename
	if err := os.Remove(f.Path(tmp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
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

// Key returns the public half of the folder's key, which is created when it is first
// needed. TCP clients prove that they can read the private half, without sending it.
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
		return "", fmt.Errorf("%s is not a key of rota: remove it, and give the new one to clients", f.Path(keyFile))
	}
	return public, nil
}

// prepare creates the folder, or checks that it is empty or a folder of rota.
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

// Explain adds to an error of the file system which folder it is about, and what to do.
func (f Folder) Explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission for the folder %s: choose one that this user may write to (%w)", f, err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is not a folder (%w)", f, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("no space is left for the folder %s: make space, or raise the quota (%w)", f, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the folder %s is on a file system that cannot be written to: mount it writable (%w)", f, err)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("the disk of the folder %s fails: see to it (%w)", f, err)
	}
	return fmt.Errorf("the folder %s: %w", f, err)
}

// Writable returns why a number of bytes cannot be written to the folder now. It writes
// them to a file and removes it. With sync it waits until they are on the disk; without,
// they never get there, so that a disk which is slow does not become slower.
func (f Folder) Writable(bytes int, sync bool) error {
	if err := f.private(); err != nil {
		return err
	}
	file, err := os.CreateTemp(f.Dir, "rota.space-*")
	if err != nil {
		return err
	}
	os.Remove(file.Name()) // now, where the system allows it: a process that is killed leaves nothing
	_, err = file.Write(make([]byte, bytes))
	if err == nil && sync {
		err = file.Sync() // some file systems find out here that they are full
	}
	if later := file.Close(); err == nil {
		err = later
	}
	os.Remove(file.Name())
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return file.Err // the name is new each time, and the same problem is to be the same text
	}
	return err
}

// ErrServed means that another process has locked the folder.
var ErrServed = errors.New("another process serves it")

// Still returns an error if the folder is not the one whose lock file was opened. An open
// file keeps its inode, so no other file can look the same.
func (f Folder) Still(lock *os.File) error {
	was, err := lock.Stat()
	if err != nil {
		return nil // closed: the answer does not matter any more
	}
	now, err := os.Lstat(f.Path(LockFile))
	if err == nil && os.SameFile(was, now) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil // unknown, which is no proof that it was replaced
	}
	return fmt.Errorf("the folder %s %w: end all processes that use it, put the old folder back if its records matter, then start them again", f, ErrReplaced)
}

// ErrReplaced means that the folder is not the one whose lock file was opened.
var ErrReplaced = errors.New("was removed or replaced while it was in use")

// Lock creates the folder if there is none and locks it, or returns ErrServed. The kernel
// releases the lock when this process ends, in whatever way.
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
	if f.Still(file) != nil { // replaced since it was opened
		file.Close()
		return nil, ErrServed
	}
	return file, nil
}

// Last returns the note of the last server, empty if there was none. fresh tells whether
// the folder has never been served.
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
