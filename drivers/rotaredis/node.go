package rotaredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timeouts of the connection. The default lease is five seconds: a server that is lost,
// noticed and found again within one costs no partition.
const (
	dialTime  = 2 * time.Second
	tryTime   = time.Second // for one of several servers
	pingEvery = time.Second
	pingsLost = 3
	callTime  = 10 * time.Second // the timeout of calls whose ctx has no deadline
)

// A node is one life of one server: it ends when the server restarts, is no master any
// more, or cannot be reached. No command ever reaches another life of the server by it,
// so a caller always knows which server answers.
type node struct {
	addr   string
	set    *settings
	client *redis.Client
	gone   chan struct{} // closed at its end

	mu    sync.Mutex
	facts facts
	known bool // the facts are read
	why   error
	feed  *feed
}

var (
	errOther   = errors.New("the server was started again, or promoted again")
	errDemoted = errors.New("the server is no master any more")
	errClosed  = errors.New("rotaredis: closed")
)

func newNode(set *settings, addr string) *node {
	n := &node{addr: addr, set: set, gone: make(chan struct{})}
	o := set.options(addr, false)
	o.PoolSize, o.MaxIdleConns = 16, 2
	o.OnConnect = n.connected
	n.client = redis.NewClient(o)
	return n
}

// options are those of one client. The client never repeats a command by itself: if a
// write had succeeded and only its answer was lost, the repetition would be answered with
// a conflict.
func (s *settings) options(addr string, toSentinel bool) *redis.Options {
	o := &redis.Options{
		Addr: addr, Protocol: 2, DB: s.db, ClientName: s.name,
		MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTime, ReadTimeout: callTime, WriteTimeout: callTime,
		ContextTimeoutEnabled: true, DisableIdentity: true, PipelinePoolSize: -1,
		ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer:                   func(ctx context.Context, _, addr string) (net.Conn, error) { return s.dialing(ctx, addr) },
		CredentialsProviderContext: func(context.Context) (string, string, error) {
			return s.signIns(toSentinel)
		},
	}
	if toSentinel {
		o.DB, o.PoolSize = 0, 1
	}
	return o
}

// connected refuses a connection to another life of the server.
func (n *node) connected(ctx context.Context, c *redis.Conn) error {
	n.mu.Lock()
	known, was := n.known, n.facts
	n.mu.Unlock()
	if !known {
		return nil // this is the connection that reads the facts
	}
	text, err := c.Info(ctx).Result()
	if err != nil {
		return err
	}
	is, err := readInfo(text)
	switch {
	case err != nil:
		return err
	case is.role != "master":
		err = errDemoted
	case is.identity() != was.identity():
		err = errOther
	}
	if err != nil {
		n.end(err)
	}
	return err
}

// learn asks the server what it is.
func (n *node) learn(ctx context.Context) error {
	text, err := n.run(ctx, func(ctx context.Context) (any, error) { return n.client.Info(ctx).Result() })
	if err != nil {
		return err
	}
	f, err := readInfo(text.(string))
	if err != nil {
		return permanent{err}
	}
	if f.aof && n.set.kind == single {
		f.fsync, err = n.config(ctx, "appendfsync")
		if err != nil {
			return err
		}
		lax, err := n.config(ctx, "no-appendfsync-on-rewrite")
		if err != nil {
			return err
		}
		f.lax = lax == "yes"
	}
	n.mu.Lock()
	other := n.known && f.identity() != n.facts.identity()
	if !other {
		n.facts, n.known = f, true
	}
	n.mu.Unlock()
	if other {
		n.end(errOther)
		return errOther
	}
	return nil
}

// config reads a setting of the server, "" if the server does not let us.
func (n *node) config(ctx context.Context, name string) (string, error) {
	got, err := n.run(ctx, func(ctx context.Context) (any, error) { return n.client.ConfigGet(ctx, name).Result() })
	if code(err) != "" {
		return "", nil // denied, or no such command: many services forbid CONFIG
	}
	if err != nil {
		return "", err
	}
	return got.(map[string]string)[name], nil
}

func (n *node) now() facts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.facts
}

// run calls f and returns when it does, when ctx ends or when the node does. The client
// looks at deadlines only, and would make a canceled call wait.
func (n *node) run(ctx context.Context, f func(context.Context) (any, error)) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type result struct {
		v   any
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f(ctx)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			if err := n.ended(); err != nil {
				return nil, fmt.Errorf("%w (%w)", err, r.err)
			}
		}
		return r.v, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.gone:
		return nil, n.ended()
	}
}

// ended returns why the node has ended, nil while it has not.
func (n *node) ended() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.why
}

// end closes the node's connections. Its watches end, and so do calls in flight.
func (n *node) end(why error) {
	n.mu.Lock()
	if n.why != nil {
		n.mu.Unlock()
		return
	}
	n.why = why
	f := n.feed
	close(n.gone)
	n.mu.Unlock()
	if f != nil {
		f.fail(why)
	}
	go n.client.Close() // it may wait for calls in flight
}

// subscription returns the node's feed, and opens it if there is none.
func (n *node) subscription() (*feed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.why != nil {
		return nil, n.why
	}
	if n.feed == nil || n.feed.ended() != nil {
		n.feed = openFeed(n)
	}
	return n.feed, nil
}

// redirected ends the watches of a node that has sent us to another one.
func (n *node) redirected() {
	n.mu.Lock()
	f := n.feed
	n.mu.Unlock()
	if f != nil {
		f.fail(errMoved)
	}
}
