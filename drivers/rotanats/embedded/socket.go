package embedded

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
)

// accept accepts connections of the socket until it is closed. After an error it retries
// with back-off.
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
		s.log.Warn("accepting connections", "folder", s.dir, "err", err) // for example, no file descriptor is left
		select {
		case <-s.ending.Done():
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// proxy copies bytes between a connection of the socket and an in-process connection of
// the server, which accepts no connections that others have opened. The cost is in
// docs/decisions.md.
func (s *Server) proxy(conn net.Conn) {
	ns := s.ns.Load()
	if ns == nil { // it is restarted: the client retries
		conn.Close()
		return
	}
	inside, err := ns.InProcessConn()
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

// Sizes of buffers. An idle connection has a small one, since there may be thousands.
const (
	smallSize = 4 << 10
	largeSize = 64 << 10
)

var largeBuffers = sync.Pool{New: func() any { return new([largeSize]byte) }}

// relay copies bytes until one of the connections ends. If the receiver does not read, it
// gives up after the server's own write timeout.
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
