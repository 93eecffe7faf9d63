package rotanats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// The processes of a host reach the server of a folder through a socket in it. The
// rights of the folder decide who may: there is no port that another user could
// listen on first, and no secret that has to be sent to whoever listens.

const socketFile = "rota.sock"

// socketPath is the longest path that every unix takes for a socket: macOS and the
// BSDs have 104 bytes with the final zero, Linux 108.
const socketPath = 103

// ErrNotServed: nobody serves the folder now.
var ErrNotServed = errors.New("nobody serves it now")

// Served tells whether a process serves the folder now: nil, or an error that is
// ErrNotServed, or says why that cannot be told.
func Served(dir string, opts ...Option) error {
	f, err := openFolder(dir, opts)
	if err != nil {
		return err
	}
	conn, err := f.dial()
	if err != nil {
		return fmt.Errorf("rotanats: %w", err)
	}
	return conn.Close()
}

// reach calls do with a path of the socket that is short enough for the system:
// through a link to the folder, if it has to be, in a place that is ours alone.
func (f folder) reach(do func(path string) error) error {
	path := f.path(socketFile)
	if len(path) <= socketPath {
		return do(path)
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "rota")
	if err != nil {
		return fmt.Errorf("the path of %s is too long for a socket, and there is no place for a link to it: %w", f.path(socketFile), err)
	}
	defer os.RemoveAll(tmp)
	link := filepath.Join(tmp, "d")
	if err := os.Symlink(dir, link); err != nil {
		return err
	}
	if path = filepath.Join(link, socketFile); len(path) > socketPath {
		return fmt.Errorf("the path of %s is too long for a socket, and so is that of the place for temporary files, %s: set TMPDIR to a shorter one", f.path(socketFile), os.TempDir())
	}
	return do(path)
}

// door refuses what is no socket, and one that another user can have made.
func (f folder) door() error {
	if err := f.private(); err != nil {
		return err
	}
	info, err := os.Lstat(f.path(socketFile))
	if err != nil {
		return f.explain(err)
	}
	why := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		why = "is a symbolic link"
	case info.Mode()&fs.ModeSocket == 0:
		why = "is not a socket"
	case !f.shared:
		why = strange(info)
	}
	if why != "" {
		return f.foreign(f.path(socketFile), why)
	}
	return nil
}

// Dial is what the client calls. The server of a folder has no other address.
func (f folder) Dial(string, string) (net.Conn, error) { return f.dial() }

// dial connects to whoever serves the folder now.
func (f folder) dial() (conn net.Conn, err error) {
	if err := f.door(); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder %s: %w", f, ErrNotServed)
	} else if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(dialTime); ; time.Sleep(askEvery) {
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
		return nil, f.explain(err)
	}
	if uid, known := peer(conn); known && !f.shared && uid != 0 && uid != os.Geteuid() {
		conn.Close()
		return nil, f.foreign(f.path(socketFile), fmt.Sprintf("is served by user %d, and this process runs as user %d", uid, os.Geteuid()))
	}
	return conn, nil
}

// listen opens the socket, for whoever holds the lock. One that is there is of a
// server that has ended.
func (f folder) listen() (net.Listener, error) {
	err := f.door()
	if err == nil {
		err = os.Remove(f.path(socketFile))
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
		return nil, f.explain(err)
	}
	return l, nil
}

// welcome takes connections of the socket until it is closed.
func (s *Server) welcome() {
	pause := askEvery
	for {
		conn, err := s.socket.Accept()
		switch {
		case err == nil:
			pause = askEvery
			s.guests.Go(func() { s.seat(conn) })
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		s.log.Warn("taking connections", "folder", s.dir, "err", err) // no descriptor is left, say
		select {
		case <-s.ending.Done():
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// seat hands a connection to the server, which takes none but its own: bytes are
// carried between the two. What that costs is in docs/decisions.md.
func (s *Server) seat(conn net.Conn) {
	inside, err := s.ns.InProcessConn()
	if err != nil {
		conn.Close()
		return
	}
	both := func() { conn.Close(); inside.Close() }
	defer context.AfterFunc(s.ending, both)()
	var back sync.WaitGroup
	back.Go(func() { carry(inside, conn); both() })
	carry(conn, inside)
	both()
	back.Wait()
}

// A connection at rest keeps little memory: there may be thousands.
const (
	littleAtOnce = 4 << 10
	muchAtOnce   = 64 << 10
)

var muchs = sync.Pool{New: func() any { return new([muchAtOnce]byte) }}

// carry copies until one of the two ends. A reader that does not read is given up
// after the time that the server itself gives it.
func carry(to, from net.Conn) {
	var much *[muchAtOnce]byte
	little := make([]byte, littleAtOnce)
	buf := little
	for {
		n, err := from.Read(buf)
		if n > 0 {
			to.SetWriteDeadline(time.Now().Add(writeTime))
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
		switch {
		case much == nil && n == len(buf):
			much = muchs.Get().(*[muchAtOnce]byte)
			buf = much[:]
		case much != nil && n <= littleAtOnce:
			muchs.Put(much)
			much, buf = nil, little
		}
	}
	if much != nil {
		muchs.Put(much)
	}
}
