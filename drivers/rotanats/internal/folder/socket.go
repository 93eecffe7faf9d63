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

// The processes of a host reach the server of a folder through a socket in it. The mode of
// the folder decides which users may connect: there is no port that another user could
// listen on first, and no secret that has to be sent to an unknown listener.

// SocketFile is the name of the socket.
const SocketFile = "rota.sock"

// PollEvery is the interval of attempts to connect to a folder, or to lock it, while no
// process serves it.
const PollEvery = 10 * time.Millisecond

// dialTime is the timeout for the server to accept a connection.
const dialTime = 2 * time.Second

// socketPath is the length of the longest path of a socket on every Unix: macOS and the
// BSDs have 104 bytes with the final zero, Linux 108.
const socketPath = 103

// ErrNotServed means that no process serves the folder now.
var ErrNotServed = errors.New("nobody serves it now")

// reach calls do with a path of the socket that is short enough for the system. If the
// path is too long, it goes through a link to the folder, in a private temporary folder.
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
		return fmt.Errorf("the path of %s is too long for a socket, and there is no temporary folder for a link to it: %w", f.Path(SocketFile), err)
	}
	defer os.RemoveAll(tmp)
	link := filepath.Join(tmp, "d")
	if err := os.Symlink(dir, link); err != nil {
		return err
	}
	if path = filepath.Join(link, SocketFile); len(path) > socketPath {
		return fmt.Errorf("the path of %s is too long for a socket, and so is that of the folder for temporary files, %s: set TMPDIR to a shorter one", f.Path(SocketFile), os.TempDir())
	}
	return do(path)
}

// checkSocket refuses a file that is not a socket, and a socket that another user can have
// created.
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

// Dial implements nats.CustomDialer. It ignores the address: the folder is the address.
func (f Folder) Dial(string, string) (net.Conn, error) { return f.Connect() }

// Connect connects to the process that serves the folder now.
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
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(deadline) { // EAGAIN: the backlog of the socket is full
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

// Listen opens the socket. The caller holds the lock, so a socket that is there belongs to
// a server that has ended, and is removed.
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
		// No other user may connect, not even in the moment before the mode is set.
		config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return c.Control(ownerOnly) }}
		if l, err = config.Listen(context.Background(), "unix", path); err != nil {
			return err
		}
		// When it is closed, the path may lead to another folder.
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
