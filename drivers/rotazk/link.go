package rotazk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A link is a connection that is dialled when it is first needed, and again by the first
// call after it was lost. Every connection has a session of its own. The client could
// resume a session elsewhere, but it then sends queued writes whose callers have given
// up, and a server that was restored from a backup refuses a session that has seen more
// than the server has, for ever.
type link struct {
	set *settings
	bad error // the settings are wrong; every call returns it

	mu        sync.Mutex
	now       *conn         // nil until the first connect
	dialed    chan struct{} // closed when the dial that is in progress has ended; nil without one
	failed    error         // of the last dial
	rounds    int           // dials that failed in a row
	next      int           // the server to dial first
	complaint error         // the last error of a dial or a connection
	voters    int           // of the ensemble; 0 if unknown or alone
	quit      chan struct{} // closed by close
	closed    bool
	warn      sync.Once
}

var (
	errClosed = errors.New("rotazk: closed")
	errLost   = errors.New("the connection was lost")
)

// Timeouts. The default lease is five seconds and its heartbeat is due every two: a
// server that falls silent is left, and another one reached, within one lease.
const (
	dialTime    = 5 * time.Second // TCP and TLS
	openTime    = 8 * time.Second // a new session: an ensemble writes it to disk, and a thousand at once take 4 s
	slowTime    = 2 * time.Second // after which the next server is dialled, too
	againTime   = 200 * time.Millisecond
	sessionTime = 6 * time.Second  // what we ask for; no rule depends on it, since no node is ephemeral
	answerTime  = time.Second      // silence after which another server is tried, unless the URL says otherwise
	callTime    = 10 * time.Second // the timeout of calls whose ctx has no deadline
	pauseFirst  = 10 * time.Millisecond
	pauseLast   = time.Second
)

func newLink(url string, opts []Option) *link {
	set, err := read(url, opts)
	l := &link{set: set, bad: err, quit: make(chan struct{})}
	if n := len(set.Servers); n > 0 {
		l.next = rand.IntN(n) // so that members spread over the servers
	}
	return l
}

// connected returns the connection. It waits until there is one.
func (l *link) connected(ctx context.Context) (*conn, error) {
	for {
		if ctx.Err() != nil {
			return nil, l.explain(ctx.Err())
		}
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
		err = l.failed
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// look returns the connection, or a channel to wait for before the next look. It starts
// a dial if there is neither.
func (l *link) look() (*conn, chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, nil, errClosed
	case l.now != nil && !l.now.over():
		return l.now, nil, nil
	case l.dialed == nil:
		l.dialed, l.failed = make(chan struct{}), nil
		go l.dial()
	}
	return nil, l.dialed, nil
}

// dial tries each server once.
func (l *link) dial() {
	c, err := l.dialAll()
	l.mu.Lock()
	switch {
	case err != nil:
		l.rounds++
		l.failed, l.complaint = fmt.Errorf("rotazk: connect to %v: %w", l.set, err), err
	case l.closed:
		l.failed = errClosed
	default:
		l.now, l.rounds, l.complaint = c, 0, nil
		l.next = slices.Index(l.set.Servers, c.server) + 1
		if c.voters > 0 {
			l.voters = c.voters
		}
	}
	close(l.dialed)
	l.dialed = nil
	closed := l.closed
	l.mu.Unlock()
	if closed && c != nil {
		c.end(errClosed)
	}
}

// dialAll pauses after dials that failed, and dials.
func (l *link) dialAll() (*conn, error) {
	l.warn.Do(func() { l.set.WarnExposed() })
	l.mu.Lock()
	rounds := l.rounds
	l.mu.Unlock()
	if rounds > 0 {
		pause := min(pauseFirst<<min(rounds, 10), pauseLast)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)): // with jitter, so that members do not all come at once
		case <-l.quit:
			return nil, errClosed
		}
	}
	return l.race()
}

// race dials the servers one after another, the next one when the last has failed or is
// slow, and returns the first connection. A server may be slow because it is frozen, or
// because many members come at once, so it is waited for; meanwhile those that have
// failed are dialled again, since they may just have elected a leader.
func (l *link) race() (*conn, error) {
	done := make(chan dialResult)
	todo, flying := l.order(), 0
	var again []string
	errs := map[string]error{}
	defer func() {
		go func(n int) {
			for range n {
				if late := <-done; late.c != nil {
					late.c.end(errClosed)
				}
			}
		}(flying)
	}()
	for len(todo) > 0 || flying > 0 {
		var next <-chan time.Time
		if len(todo) > 0 {
			server := todo[0]
			todo, flying = todo[1:], flying+1
			go func() {
				c, err := l.open(server)
				done <- dialResult{server, c, err}
			}()
			next = time.After(slowTime)
		} else if len(again) > 0 {
			next = time.After(againTime)
		}
		select {
		case r := <-done:
			flying--
			if r.err == nil {
				return r.c, nil
			}
			errs[r.server] = fmt.Errorf("%s: %w", r.server, r.err)
			if errors.As(r.err, new(permanent)) {
				return nil, errs[r.server] // a file with a secret or a certificate cannot be read
			}
			again = append(again, r.server)
		case <-next:
			if len(todo) == 0 {
				todo, again = again, nil
			}
		case <-l.quit:
			return nil, errClosed
		}
	}
	var all []error
	for _, server := range slices.Sorted(maps.Keys(errs)) {
		all = append(all, errs[server])
	}
	return nil, joined(all)
}

type dialResult struct {
	server string
	c      *conn
	err    error
}

// order returns the servers in the order to dial them. That of the last connection comes
// last, since it may be the one in trouble.
func (l *link) order() (servers []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.set.Servers)
	for i := range n {
		servers = append(servers, l.set.Servers[(l.next+i)%n])
	}
	return servers
}

// joined is errors.Join on one line.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	args, verbs := make([]any, len(errs)), make([]string, len(errs))
	for i, err := range errs {
		args[i], verbs[i] = err, "%w"
	}
	return fmt.Errorf(strings.Join(verbs, "; "), args...)
}

// lost is called when a connection has ended. It matters if calls use the connection.
func (l *link) lost(c *conn, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == c {
		l.complaint = fmt.Errorf("%s: %w", c.server, why)
	}
}

// explain adds the last error of the connection to a timeout, since it is probably the
// cause.
func (l *link) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complaint != nil {
		return fmt.Errorf("rotazk: %v: %w (the last error was: %w)", l.set, err, l.complaint)
	}
	return fmt.Errorf("rotazk: %v: %w", l.set, err)
}

// within adds callTime as a timeout to a ctx without a deadline.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

func (l *link) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	close(l.quit)
	c := l.now
	l.mu.Unlock()
	if c != nil {
		c.end(errClosed)
	}
}

// ask makes one call on a connection. The client's calls know no ctx: when ctx ends, the
// call goes on without us, until it is answered or the connection is over.
func ask[T any](ctx context.Context, c *conn, verb, node string, call func(*zk.Conn) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		stop := c.suspect()
		defer stop()
		v, err := call(c.client)
		done <- result{v, err}
	}()
	var none T
	select {
	case r := <-done:
		if r.err != nil {
			return none, c.failed(verb, node, r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		return none, c.link.explain(fmt.Errorf("%s %s: %w", verb, node, ctx.Err()))
	}
}
