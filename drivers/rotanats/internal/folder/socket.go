package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The processes of a host reach the server of a folder through a socket in it. The
// rights of the folder decide who may: there is no port that another user could
// listen on first, and no secret that has to be sent to whoever listens.

// SocketFile is the name of the socket.
const SocketFile = "rota.sock"

// AskEvery is how often a folder is asked for while nobody serves it.
const PollEvery = 10 * time.Millisecond

// dialTime is how long a server may take to accept a connection.
const dialTime = 2 * time.Second

// socketPath is the longest path that every unix takes for a socket: macOS and the
// BSDs have 104 bytes with the final zero, Linux 108.
const socketPath = 103

// ErrNotServed: nobody serves the folder now.
var ErrNotServed = errors.New("nobody serves it now")

// reach calls do with a path of the socket that is short enough for the system:
// through a link to the folder, if it has to be, in a place that is ours alone.
func (f Folder) reach(do func(path string) error) error {
	path := f.Path(SocketFile)
	if len(path) <= socketPath {
		return do(path)
	}
	dir, err := filepath.Abs(f.Dir)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "rota")
	if err != nil {
		return fmt.Errorf("the path of %s is too long for a socket, and there is no place for a link to it: %w", f.Path(SocketFile), err)
	}
	defer os.RemoveAll(tmp)
	link := filepath.Join(tmp, "d")
	if err := os.Symlink(dir, link); err != nil {
		return err
	}
	if path = filepath.Join(link, SocketFile); len(path) > socketPath {
		return fmt.Errorf("the path of %s is too long for a socket, and so is that of the place for temporary files, %s: set TMPDIR to a shorter one", f.Path(SocketFile), os.TempDir())
	}
	return do(path)
}

// door refuses what is no socket, and one that another user can have made.
func (f Folder) checkSocket() error {
	if err := f.private(); err != nil {
		return err
	}
	info, err := os.Lstat(f.Path(SocketFile))
	if err != nil {
		return f.Explain(err)
	}
	why := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		why = "is a symbolic link"
	case info.Mode()&fs.ModeSocket == 0:
		why = "is not a socket"
	case !f.Shared:
		why = untrusted(info)
	}
	if why != "" {
		return f.foreign(f.Path(SocketFile), why)
	}
	return nil
}

// Dial is what the client calls. The server of a folder has no other address.
func (f Folder) Dial(string, string) (net.Conn, error) { return f.Connect() }

// Connect connects to whoever serves the folder now.
func (f Folder) Connect() (conn net.Conn, err error) {
	if err := f.checkSocket(); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder %s: %w", f, ErrNotServed)
	} else if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(dialTime); ; time.Sleep(PollEvery) {
		err = f.reach(func(path string) error {
			conn, err = net.DialTimeout("unix", path, dialTime)
			return err
		})
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(deadline) { // so many come at once
			break
		}
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the folder %s: %w", f, ErrNotServed)
	case err != nil:
		return nil, f.Explain(err)
	}
	if uid, known := peer(conn); known && !f.Shared && uid != 0 && uid != os.Geteuid() {
		conn.Close()
		return nil, f.foreign(f.Path(SocketFile), fmt.Sprintf("is served by user %d, and this process runs as user %d", uid, os.Geteuid()))
	}
	return conn, nil
}

// Listen opens the socket, for whoever holds the lock. One that is there is of a
// server that has ended.
func (f Folder) Listen() (net.Listener, error) {
	err := f.checkSocket()
	if err == nil {
		err = os.Remove(f.Path(SocketFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var l net.Listener
	err = f.reach(func(path string) (err error) {
		// Nobody else may connect, not even in the moment before its mode is set.
		config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return c.Control(ownerOnly) }}
		if l, err = config.Listen(context.Background(), "unix", path); err != nil {
			return err
		}
		// By the time it is closed, another folder may be at this place.
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		if l != nil {
			l.Close()
		}
		return nil, f.Explain(err)
	}
	return l, nil
}
