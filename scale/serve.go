package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A Supervisor runs members on this host. Serve calls its methods one at a time.
type Supervisor interface {
	// Running is how many members run or start, without those that were asked to leave.
	Running() int
	// Start starts one more member and does not wait until it has joined.
	Start() error
	// End asks a member to leave and does not wait for that. It returns an error if the
	// member has never run here, or runs in another session by now, and nil if it has ended
	// already.
	End(name, session string) error
}

// Listen makes the socket that Local connects to, for this user alone. It replaces a socket
// that nobody listens at any more.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("scale: the socket %s: %w", path, err)
	}
	return l, nil
}

func listen(path string) (net.Listener, error) {
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, errors.New("there is a file of this name that is no socket: remove it, or choose another path")
		}
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, errors.New("another supervisor listens there: end it, or choose another path")
		}
	}
	// The socket is made in a folder that only this user can enter, and moved when it has
	// its mode: in its place it would be open to others for a moment.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	if err := checkSocket(made); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		l.Close()
		return nil, err
	}
	return &socket{UnixListener: l, path: path}, nil
}

// A socket removes its file when it is closed.
type socket struct {
	*net.UnixListener
	path string
	once sync.Once
}

func (s *socket) Close() error {
	s.once.Do(func() { os.Remove(s.path) })
	return s.UnixListener.Close()
}

const (
	mostCallers = 16               // connections at once
	orderTime   = 10 * time.Second // until an order has arrived as a whole
)

// Serve obeys the orders of the group's leader until ctx ends, and then closes the listener.
// It carries out one order at a time: it ends the members that are named and starts others
// until as many run as are wanted; it never ends anybody else.
//
// Orders count in the order of their connections. An order is refused if one of a later
// connection was begun before, and dropped if its connection is closed before it is begun,
// as that of a leader that was killed is. The term of the leader is not known here: a
// leader that was frozen, wakes up and connects before it notices that it leads no more is
// obeyed once, until the next order of its successor.
func Serve(ctx context.Context, l net.Listener, s Supervisor) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	calls, failed := make(chan *call), make(chan error, 1)
	wg.Go(func() { failed <- accept(ctx, &wg, l, calls) })
	newest := 0
	for {
		select {
		case c := <-calls:
			newest = c.handle(s, newest)
			close(c.done)
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("scale: the socket: %w", err)
		}
	}
}

// A call is an order and the connection that it came by.
type call struct {
	number int // of the connection
	order  order
	err    error         // instead of an order
	gone   chan struct{} // closed when the connection is
	done   chan struct{}
	conn   net.Conn
}

// accept accepts connections until the listener is closed, and passes on what they ask for.
func accept(ctx context.Context, wg *sync.WaitGroup, l net.Listener, calls chan<- *call) error {
	free := make(chan struct{}, mostCallers)
	for number := 1; ; number++ {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		select {
		case free <- struct{}{}:
		default:
			conn.Close() // so many at once are no leaders
			continue
		}
		wg.Go(func() {
			defer func() { <-free }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			converse(number, conn, calls)
		})
	}
}

// converse reads one order and waits until it is carried out.
func converse(number int, conn net.Conn, calls chan<- *call) {
	c := &call{number: number, conn: conn, gone: make(chan struct{}), done: make(chan struct{})}
	conn.SetReadDeadline(time.Now().Add(orderTime))
	text, err := readLine(conn, mostOrder)
	if err != nil {
		return // nothing was asked for
	}
	conn.SetReadDeadline(time.Time{})
	c.order, c.err = readOrder(text)
	var read sync.WaitGroup
	defer read.Wait()
	defer conn.Close()
	read.Go(func() {
		io.Copy(io.Discard, conn)
		close(c.gone)
	})
	select {
	case calls <- c:
	case <-c.gone:
		return
	}
	<-c.done
}

// mostWanted bounds what an order can ask for.
const mostWanted = 10_000

func readOrder(text []byte) (o order, err error) {
	if err := decode(text, &o); err != nil {
		return order{}, fmt.Errorf("the request: %w", err)
	}
	if o.Want < 0 || o.Want > mostWanted {
		return order{}, fmt.Errorf("the request wants %d members: want a number from 0 to %d", o.Want, mostWanted)
	}
	if slices.ContainsFunc(o.Remove, func(v victim) bool { return v.Name == "" }) {
		return order{}, errors.New("the request names a member to remove by an empty name")
	}
	return o, nil
}

// handle carries an order out and answers it. It returns the number of the newest
// connection whose order was begun.
func (c *call) handle(s Supervisor, newest int) int {
	err := c.err
	switch {
	case err == nil && c.number < newest:
		err = errors.New("a later request was obeyed already: another member leads by now")
	case err == nil:
		newest = c.number
		err = c.obey(s)
	}
	r := reply{Done: err == nil}
	if err != nil {
		r.Error = err.Error()
	}
	if b, err := json.Marshal(r); err == nil {
		c.conn.SetWriteDeadline(time.Now().Add(orderTime))
		c.conn.Write(append(b, '\n'))
	}
	return newest
}

func (c *call) closed() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// obey ends members that are named and starts those that are missing. It stops where the
// connection ends, as the caller has then stopped to want it.
func (c *call) obey(s Supervisor) error {
	var errs []error
	for _, v := range c.order.Remove {
		if c.closed() {
			return nil
		}
		if err := s.End(v.Name, v.Session); err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w", v.Name, err))
		}
	}
	for n := s.Running(); n < c.order.Want && !c.closed(); n++ {
		if err := s.Start(); err != nil {
			errs = append(errs, fmt.Errorf("start member %d of %d: %w", n+1, c.order.Want, err))
			break
		}
	}
	return inOneLine(errs)
}

// inOneLine makes one error of several.
func inOneLine(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	text := ""
	for i, err := range errs {
		if i > 0 {
			text += "; "
		}
		text += err.Error()
	}
	return errors.New(text)
}
