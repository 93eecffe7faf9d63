package rotaactive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// A link is a connection that is made when it is first needed, and again when it is needed
// after it was lost. Of several servers one serves, the active one, and the others refuse
// connections: the link tries them in turn.
type link struct {
	set  *settings
	dial dialer

	mu     sync.Mutex
	now    client        // nil if there is none
	dialed chan struct{} // closed when the dial in progress has ended; nil without one
	failed error         // of the last dial
	server int           // the last that accepted us: it is tried first
	fails  int           // dials that failed in a row
	next   time.Time     // the next dial begins no sooner
	closed bool
}

var errClosed = errors.New("closed")

// unreachable is the error of a dial that may succeed when it is tried again.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// Pauses between dials that fail. Many partitions may ask at once and again: they share
// a dial and its result.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// client returns the connection. It waits for the dial in progress, or begins one.
func (l *link) client(ctx context.Context) (client, error) {
	c, wait, err := l.look()
	if wait == nil {
		return c, err
	}
	select {
	case <-wait:
	case <-ctx.Done():
		return nil, l.explain(ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		return nil, l.failed
	}
	return l.now, nil
}

// look returns the connection, or a channel to wait for.
func (l *link) look() (client, chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		select {
		case <-l.now.done():
			l.failed = l.now.err()
			l.now = nil
		default:
		}
	}
	switch {
	case l.closed:
		return nil, nil, errClosed
	case l.now != nil:
		return l.now, nil, nil
	case l.dialed == nil:
		l.dialed = make(chan struct{})
		go l.try(l.server, time.Until(l.next))
	}
	return nil, l.dialed, nil
}

// explain adds the last error to a timeout, since it is probably the cause.
func (l *link) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return fmt.Errorf("%v: %w (the last error was: %w)", l.set, err, l.failed)
	}
	return fmt.Errorf("%v: %w", l.set, err)
}

// try dials the servers, one after the other.
func (l *link) try(first int, pause time.Duration) {
	time.Sleep(pause)
	l.set.WarnExposed()
	var errs []error
	var c client
	at := first
	for i := range l.set.Servers {
		at = (first + i) % len(l.set.Servers)
		ctx, cancel := context.WithTimeout(context.Background(), dialTime)
		var err error
		c, err = l.dial(ctx, l.set, l.set.Servers[at])
		cancel()
		if err == nil {
			break
		}
		errs = append(errs, inWords(err))
		c = nil
	}
	l.finish(c, at, errs)
}

// finish ends a dial.
func (l *link) finish(c client, at int, errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.dialed)
	l.dialed = nil
	switch {
	case l.closed:
		l.failed = errClosed
		if c != nil {
			go c.close()
		}
	case c == nil:
		l.failed = fmt.Errorf("connect to %v: %w", l.set, together(errs))
		if !errors.Is(l.failed, rota.ErrPermanent) {
			l.failed = unreachable{l.failed}
		}
		pause := min(firstPause<<min(l.fails, 6), mostPause)
		l.fails++
		l.next = time.Now().Add(pause/2 + rand.N(pause/2))
	default:
		l.now, l.server, l.failed, l.fails, l.next = c, at, nil, 0, time.Time{}
	}
}

// close ends the connection for good.
func (l *link) close() {
	l.mu.Lock()
	c := l.now
	l.now, l.closed = nil, true
	l.mu.Unlock()
	if c != nil {
		c.close()
	}
}
