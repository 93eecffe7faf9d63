package embedded

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
)

// welcome takes connections of the socket until it is closed.
func (s *Server) welcome() {
	pause := folder.AskEvery
	for {
		conn, err := s.socket.Accept()
		switch {
		case err == nil:
			pause = folder.AskEvery
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
