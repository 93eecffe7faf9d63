package rotanats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A link is a connection that is made when it is first needed, and again
// whenever it was lost. Nothing that was asked is ever asked a second time by
// itself: a write repeated behind its caller's back could answer "conflict" to
// one that has succeeded.
type link struct {
	set *settings
	bad error // what is wrong with the settings

	mu     sync.Mutex
	nc     *nats.Conn    // nil until it was connected once
	dialed chan struct{} // while a dial is under way: closed at its end
	failed error         // of the last dial
	life   *life         // of the present connection, or the last
	closed bool
	ended  error // what calls are told once it is closed
	said   error // the last complaint that belongs to no call
	ears   map[*ear]bool
	serve  func() error // before each dial: see to it that there is a server
	lost   func()       // the connection was lost

	warnings warnings
}

// An ear is told when its subscription will hear nothing more.
type ear struct {
	subject string
	deaf    func(error)
}

// A life lasts from one connect to the next disconnect.
type life struct {
	context.Context // ends at the disconnect
	end             context.CancelFunc
	back            chan struct{} // closed when the next life has begun, or none will
}

func newLife() *life {
	ctx, end := context.WithCancel(context.Background())
	return &life{ctx, end, make(chan struct{})}
}

var (
	errClosed = errors.New("rotanats: closed")
	errGone   = errors.New("rotanats: the connection was lost")
)

// How soon a lost server is noticed and looked for again. A lease is five
// seconds: what is found within one costs nobody anything.
const (
	dialTime  = 2 * time.Second
	pingEvery = time.Second
	pingsLost = 3
	callTime  = 10 * time.Second // of calls whose ctx has no end
)

func newLink(url string, opts []Option) *link {
	set, err := read(url, opts)
	return &link{set: set, bad: err, ears: map[*ear]bool{},
		serve: func() error { return nil }, lost: func() {}}
}

// conn returns the connection once it is one.
func (l *link) conn(ctx context.Context) (*nats.Conn, *life, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, l.explain(err)
		}
		nc, now, wait, err := l.look()
		if wait == nil {
			return nc, now, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, l.explain(ctx.Err())
		}
		l.mu.Lock()
		err = l.failed
		l.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
	}
}

// look returns the connection, or what to wait for before looking again.
func (l *link) look() (*nats.Conn, *life, chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.bad != nil:
		return nil, nil, nil, l.bad
	case l.closed:
		return nil, nil, nil, l.ended
	case l.nc == nil && l.dialed == nil:
		l.dialed, l.failed = make(chan struct{}), nil
		go l.dial()
		return nil, nil, l.dialed, nil
	case l.nc == nil:
		return nil, nil, l.dialed, nil
	}
	if l.life.Err() != nil {
		return nil, nil, l.life.back, nil
	}
	return l.nc, l.life, nil, nil
}

func (l *link) dial() {
	nc, err := l.connect()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		close(l.dialed)
		l.dialed = nil
	}()
	if err != nil {
		l.failed = fmt.Errorf("rotanats: connect to %v: %w", l.set, err)
		return
	}
	if l.closed {
		go nc.Close()
		l.failed = l.ended
		return
	}
	l.nc = nc
	if l.life == nil { // otherwise it was lost already
		l.life = newLife()
	}
}

func (l *link) connect() (*nats.Conn, error) {
	l.set.WarnExposed()
	opts, err := l.set.Dialing(l.failing)
	if err != nil {
		return nil, err
	}
	if err := l.serve(); err != nil {
		return nil, err
	}
	opts = append(opts,
		nats.Name(l.set.Name), nats.Timeout(dialTime), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsLost),
		nats.MaxReconnects(-1), nats.CustomReconnectDelay(reconnectDelay), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1), // what was not sent fails at once, instead of being sent some time
		nats.DisconnectErrHandler(func(*nats.Conn, error) { l.left() }),
		nats.ReconnectHandler(func(*nats.Conn) { l.arrived() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.failing(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { l.complain(sub, err) }),
	)
	o := nats.GetDefaultOptions()
	o.Servers = l.set.URLs()
	for _, set := range opts {
		if err := set(&o); err != nil {
			return nil, err
		}
	}
	return o.Connect()
}

// reconnectDelay: quick at first, since a takeover or a restart takes a moment
// only, and never all at once.
func reconnectDelay(attempts int) time.Duration {
	d := min(10*time.Millisecond<<min(attempts, 7), time.Second)
	return d/2 + rand.N(d/2)
}

func (l *link) left() {
	l.mu.Lock()
	if l.life == nil {
		l.life = newLife()
	}
	l.life.end()
	closed, lost := l.closed, l.lost
	l.mu.Unlock()
	if !closed {
		lost()
	}
}

func (l *link) arrived() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	former := l.life
	l.life, l.said = newLife(), nil
	close(former.back)
}

// failing is told why the connection does not come back, and nil where nothing is
// wrong.
func (l *link) failing(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = err
}

// complain is told what belongs to no call: above all a right that is missing.
func (l *link) complain(sub *nats.Subscription, err error) {
	l.mu.Lock()
	l.said = err
	var deaf []*ear
	for e := range l.ears {
		if sub != nil && sub.Subject == e.subject {
			deaf = append(deaf, e)
		}
	}
	l.mu.Unlock()
	l.set.Log.Warn("nats", "server", l.set, "err", err)
	l.refused(err)
	for _, e := range deaf {
		e.deaf(fmt.Errorf("rotanats: subscribe to %s: %w", e.subject, err))
	}
}

// explain adds to a time-out what the server said meanwhile.
func (l *link) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said != nil {
		return fmt.Errorf("rotanats: %v: %w (it last said: %w)", l.set, err, l.said)
	}
	return fmt.Errorf("rotanats: %v: %w", l.set, err)
}

// within gives a call an end, if its caller has not.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

// request asks once. It ends with ctx, and with the connection.
func (l *link) request(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	nc, now, err := l.conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(now, func() { end(errGone) })()
	r, err := nc.RequestMsgWithContext(ctx, msg)
	switch {
	case err == nil:
		return r, nil
	case context.Cause(ctx) != nil:
		return nil, l.explain(context.Cause(ctx))
	}
	return nil, fmt.Errorf("rotanats: %v: %w", l.set, err)
}

// hear subscribes. ended is told once: when the connection is lost or closed,
// or the subscription refused.
func (l *link) hear(ctx context.Context, subject string, take nats.MsgHandler, ended func(error)) (hush func(), err error) {
	nc, now, err := l.conn(ctx)
	if err != nil {
		return nil, err
	}
	e := &ear{subject, ended}
	l.mu.Lock()
	l.ears[e] = true
	l.mu.Unlock()
	plug := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ears, e)
	}
	sub, err := nc.Subscribe(subject, take)
	if err != nil {
		plug()
		return nil, fmt.Errorf("rotanats: %v: %w", l.set, err)
	}
	sub.SetPendingLimits(-1, -1) // take never blocks
	stay := context.AfterFunc(now, func() { ended(errGone) })
	return func() {
		stay()
		plug()
		sub.Unsubscribe()
	}, nil
}

func (l *link) close() { l.abandon(errClosed) }

// abandon closes the connection for good. Whoever calls from now on is told why.
func (l *link) abandon(because error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed, l.ended = true, because
	nc := l.nc
	if l.life == nil {
		l.life = newLife()
	}
	l.life.end()
	close(l.life.back)
	l.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}
