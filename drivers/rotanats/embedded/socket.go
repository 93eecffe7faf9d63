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
func (s *Server) accept() {
	pause := folder.PollEvery
	for {
		conn, err := s.socket.Accept()
		switch {
		case err == nil:
			pause = folder.PollEvery
			s.conns.Go(func() { s.proxy(conn) })
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
func (s *Server) proxy(conn net.Conn) {
	inside, err := s.ns.InProcessConn()
	if err != nil {
		conn.Close()
		return
	}
	both := func() { conn.Close(); inside.Close() }
	defer context.AfterFunc(s.ending, both)()
	var back sync.WaitGroup
	back.Go(func() { relay(inside, conn); both() })
	relay(conn, inside)
	both()
	back.Wait()
}

// A connection at rest keeps little memory: there may be thousands.
const (
	smallSize = 4 << 10
	largeSize   = 64 << 10
)

var largeBuffers = sync.Pool{New: func() any { return new([largeSize]byte) }}

// carry copies until one of the two ends. A reader that does not read is given up
// after the time that the server itself gives it.
func relay(to, from net.Conn) {
	var large *[largeSize]byte
	small := make([]byte, smallSize)
	buf := small
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
		case large == nil && n == len(buf):
			large = largeBuffers.Get().(*[largeSize]byte)
			buf = large[:]
		case large != nil && n <= smallSize:
			largeBuffers.Put(large)
			large, buf = nil, small
		}
	}
	if large != nil {
		largeBuffers.Put(large)
	}
}
