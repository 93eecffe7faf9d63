package rotanats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A link is a connection that is dialled when it is first needed, and again whenever it
// was lost. It never repeats a request by itself: if a write had succeeded and only its
// answer was lost, the repetition would be answered with a conflict.
type link struct {
	set *settings
	bad error // the settings are wrong; every call returns it

	mu        sync.Mutex
	nc        *nats.Conn    // nil until the first connect
	dialed    chan struct{} // closed when the dial that is in progress has ended; nil without one
	failed    error         // of the last dial
	epoch     *epoch        // the current one, or the last
	closed    bool
	ended     error // the result of calls once the link is closed
	complaint error // the last error of the server that belongs to no call
	interests map[*interest]bool
	answers   answers
	serve     func() error // called before each dial; starts a server if there is none
	lost      func()       // called when the connection was lost

	warnings warnings
}

// An epoch lasts from one connect to the next disconnect. Its context ends at the
// disconnect.
type epoch struct {
	context.Context
	end  context.CancelFunc
	back chan struct{} // closed when the next epoch has begun, or the link is closed
}

func newEpoch() *epoch {
	ctx, end := context.WithCancel(context.Background())
	return &epoch{ctx, end, make(chan struct{})}
}

var (
	errClosed = errors.New("rotanats: closed")
	errGone   = errors.New("rotanats: the connection was lost")
)

// Timeouts of the connection. The default lease is five seconds: a server that is
// lost, noticed and reached again within one costs no partition.
const (
	dialTime  = 2 * time.Second
	pingEvery = time.Second
	pingsLost = 3
	callTime  = 10 * time.Second // the timeout of calls whose ctx has no deadline
)

func newLink(url string, opts []Option) *link {
	set, err := read(url, opts)
	return &link{set: set, bad: err, interests: map[*interest]bool{},
		serve: func() error { return nil }, lost: func() {}}
}

// conn returns the connection and its epoch. It waits until the link is connected.
func (l *link) conn(ctx context.Context) (*nats.Conn, *epoch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, l.explain(err)
		}
		nc, epoch, wait, err := l.look()
		if wait == nil {
			return nc, epoch, err
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

// look returns the connection and its epoch, or a channel to wait for before the next
// look. It starts the first dial.
func (l *link) look() (*nats.Conn, *epoch, chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.bad != nil:
		return nil, nil, nil, permanent{l.bad}
	case l.closed:
		return nil, nil, nil, l.ended
	case l.nc == nil && l.dialed == nil:
		l.dialed, l.failed = make(chan struct{}), nil
		go l.dial()
		return nil, nil, l.dialed, nil
	case l.nc == nil:
		return nil, nil, l.dialed, nil
	}
	if l.epoch.Err() != nil {
		return nil, nil, l.epoch.back, nil
	}
	return l.nc, l.epoch, nil, nil
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
		l.failed = fmt.Errorf("rotanats: connect to %v: %w", l.set, dialError(err))
		l.complaint = err // explains the timeout of a call that waits for the next dial
		return
	}
	if l.closed {
		go nc.Close()
		l.failed = l.ended
		return
	}
	l.nc, l.complaint = nc, nil
	if l.epoch == nil { // otherwise the connection was lost already
		l.epoch = newEpoch()
	}
}

func (l *link) connect() (*nats.Conn, error) {
	l.set.WarnExposed()
	opts, err := l.set.Dialing(l.failing)
	if err != nil {
		return nil, permanent{err} // a file with a secret or a certificate cannot be read
	}
	if err := l.serve(); err != nil {
		return nil, err
	}
	opts = append(opts,
		nats.Name(l.set.Name), nats.Timeout(dialTime), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsLost),
		nats.MaxReconnects(-1), nats.CustomReconnectDelay(reconnectDelay), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1), // a write fails while disconnected, instead of being sent later
		nats.DisconnectErrHandler(func(*nats.Conn, error) { l.disconnected() }),
		nats.ReconnectHandler(func(*nats.Conn) { l.reconnected() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.failing(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.asyncError(err) }),
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

// reconnectDelay is the back-off between attempts to connect again: short at first,
// since a takeover or a restart is quick, with jitter so that members do not all come
// at once.
func reconnectDelay(attempts int) time.Duration {
	d := min(10*time.Millisecond<<min(attempts, 7), time.Second)
	return d/2 + rand.N(d/2)
}

// disconnected ends the epoch.
func (l *link) disconnected() {
	l.mu.Lock()
	if l.epoch == nil {
		l.epoch = newEpoch()
	}
	l.epoch.end()
	closed, lost := l.closed, l.lost
	l.mu.Unlock()
	if !closed {
		lost()
	}
}

// reconnected begins a new epoch.
func (l *link) reconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	former := l.epoch
	l.epoch, l.complaint = newEpoch(), nil
	close(former.back)
}

// failing notes why an attempt to connect again failed; nil is ignored.
func (l *link) failing(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complaint = err
}

// asyncError handles an error of the server that belongs to no call, such as a missing
// right. Requests and subscriptions that it refuses end.
func (l *link) asyncError(err error) {
	if errors.Is(err, nats.ErrSlowConsumer) { // watches and pumps count what is missing
		l.set.Log.Debug("nats", "server", l.set, "err", err)
		return
	}
	r := readRefusal(err)
	l.mu.Lock()
	if r == nil || !r.advisory() { // nothing fails for lack of that right
		l.complaint = err
	}
	all := slices.Collect(maps.Keys(l.interests))
	l.mu.Unlock()
	l.set.Log.Warn("nats", "server", l.set, "err", err)
	if r == nil {
		return
	}
	text := l.missing(r)
	l.warn(text)
	for _, i := range all {
		if i.concerns(r) {
			i.end(fmt.Errorf("rotanats: %s (%w)", text, r))
		}
	}
}

// explain adds the server's last error to a timeout, since it is probably the cause.
func (l *link) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complaint != nil {
		return fmt.Errorf("rotanats: %v: %w (the last error was: %w)", l.set, err, l.complaint)
	}
	return fmt.Errorf("rotanats: %v: %w", l.set, err)
}

// within adds callTime as a timeout to a ctx without a deadline.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

// request sends a request once. It fails when ctx ends, the connection is lost or the
// server refuses the request.
func (l *link) request(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	nc, epoch, err := l.conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(epoch, func() { end(errGone) })()
	defer l.onRefusal(func(r *refusal) bool { return l.concernsRequest(r, msg.Subject) }, end)()
	r, err := l.answers.ask(ctx, nc, msg)
	switch {
	case err == nil:
		return r, nil
	case denied(context.Cause(ctx)):
		return nil, context.Cause(ctx)
	case context.Cause(ctx) != nil:
		return nil, l.explain(context.Cause(ctx))
	}
	return nil, fmt.Errorf("rotanats: %v: %w", l.set, err)
}

// subscribe calls handle with the messages of a subject. It calls ended when the connection
// is lost or closed, and when the server refuses the subscription.
func (l *link) subscribe(ctx context.Context, subject string, handle nats.MsgHandler, ended func(error)) (unsubscribe func(), err error) {
	_, unsubscribe, err = l.subscribeBy(ctx, subject, ended, func(nc *nats.Conn) (*nats.Subscription, error) {
		sub, err := nc.Subscribe(subject, handle)
		if err == nil {
			sub.SetPendingLimits(-1, -1) // no limit is needed: handle never blocks
		}
		return sub, err
	})
	return unsubscribe, err
}

// subscribeTo is subscribe with a channel instead of a function, which would cost a
// goroutine. If the channel is full, messages are dropped, and the subscription counts them.
func (l *link) subscribeTo(ctx context.Context, subject string, to chan *nats.Msg, ended func(error)) (sub *nats.Subscription, unsubscribe func(), err error) {
	return l.subscribeBy(ctx, subject, ended, func(nc *nats.Conn) (*nats.Subscription, error) { return nc.ChanSubscribe(subject, to) })
}

func (l *link) subscribeBy(ctx context.Context, subject string, ended func(error), by func(*nats.Conn) (*nats.Subscription, error)) (sub *nats.Subscription, unsubscribe func(), err error) {
	nc, epoch, err := l.conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	remove := l.onRefusal(func(r *refusal) bool { return !r.publish && r.subject == subject },
		func(err error) { ended(fmt.Errorf("rotanats: subscribe to %s: %w", subject, err)) })
	if sub, err = by(nc); err != nil {
		remove()
		return nil, nil, fmt.Errorf("rotanats: %v: %w", l.set, err)
	}
	detach := context.AfterFunc(epoch, func() { ended(errGone) })
	return sub, func() {
		detach()
		remove()
		endSubscription(sub)
	}, nil
}

// unsubscribeTime is how long the end of a subscription is waited for.
const unsubscribeTime = 50 * time.Millisecond

// endSubscription ends a subscription. A connection that connects again holds its lock until the
// server answers, or for dialTime: a source must not wait for that when its lease is over.
func endSubscription(sub *nats.Subscription) {
	done := make(chan struct{})
	go func() {
		sub.Unsubscribe()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(unsubscribeTime):
	}
}

func (l *link) close() { l.abandon(errClosed) }

// abandon closes the link for good. Calls from now on return because.
func (l *link) abandon(because error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed, l.ended = true, because
	nc := l.nc
	if l.epoch == nil {
		l.epoch = newEpoch()
	}
	l.epoch.end()
	close(l.epoch.back)
	l.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}
