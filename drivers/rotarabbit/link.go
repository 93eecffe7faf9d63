package rotarabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A link has the connections to the broker: those that consume, and one that publishes. A
// broker that is short of memory stops reading from connections that publish, and those must
// not be the ones that settle.
type link struct {
	set *settings
	bad error // the settings are wrong; every call returns it

	consuming  pool
	publishing pool
}

// A pool has connections of one kind. They are dialled when they are first needed, and again
// when they were lost.
type pool struct {
	set *settings

	mu     sync.Mutex
	open   []*conn
	dial   *dialing // the one in progress; nil without one
	first  int      // the server to be tried first
	failed error    // of the last dial
	until  time.Time
	times  int // dials that failed in a row
	denied int // of these, those that ended in the sign-in
	closed bool
}

// A conn is a connection. It is full once the broker permits no more channels.
type conn struct {
	*amqp.Connection
	full bool
}

// A dialing is a dial that others wait for.
type dialing struct {
	done chan struct{}
	err  error
}

var (
	errClosed = errors.New("closed")
	errGone   = errors.New("the connection was lost")
)

// Timeouts. A broker that refuses a password does so after three seconds.
const (
	dialTime      = 3 * time.Second
	handshakeTime = 8 * time.Second
	callTime      = 10 * time.Second // of calls whose ctx has no deadline
)

// The pause after a dial that failed, which doubles, and the longest. Calls during the pause
// get the error of that dial.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	deniedPause  = 5 * time.Second // the broker counts refused passwords as attacks
)

// mostChannels is how many channels a connection asks for. RabbitMQ permits 2047 by default.
const mostChannels = 2047

func newLink(url string, opts []Option) *link {
	set, err := read(url, opts)
	l := &link{set: set, bad: err}
	l.consuming.set, l.publishing.set = set, set
	return l
}

// channel opens a channel of a connection.
func (l *link) channel(ctx context.Context, p *pool) (*amqp.Channel, error) {
	if l.bad != nil {
		return nil, permanent{l.bad}
	}
	for {
		c, err := p.conn(ctx)
		if err != nil {
			return nil, err
		}
		ch, err := call(ctx, c.Channel, closeChannel)
		switch {
		case errors.Is(err, amqp.ErrChannelMax):
			p.mu.Lock()
			c.full = true
			p.mu.Unlock()
		case err != nil && c.IsClosed():
			return nil, errGone
		default:
			return ch, err
		}
	}
}

// closeChannel closes a channel and does not wait for it.
func closeChannel(ch *amqp.Channel) { go ch.Close() }

// call calls f and waits for it, or for the end of ctx: the calls of the client have no ctx.
// If ctx ends first, drop gets what f returns later. A call ends at the latest when the
// client has missed heartbeats of the broker.
func call[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		v, err := f()
		answered <- answer{v, err}
	}()
	select {
	case a := <-answered:
		return a.v, a.err
	case <-ctx.Done():
		go func() {
			if a := <-answered; a.err == nil {
				drop(a.v)
			}
		}()
		var none T
		return none, ctx.Err()
	}
}

// do is call for an f that returns nothing.
func do(ctx context.Context, f func() error) error {
	_, err := call(ctx, func() (struct{}, error) { return struct{}{}, f() }, func(struct{}) {})
	return err
}

// conn returns a connection with room for a channel. It dials if there is none.
func (p *pool) conn(ctx context.Context) (*conn, error) {
	for {
		p.mu.Lock()
		c, d, err := p.look(time.Now())
		p.mu.Unlock()
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, p.explain(ctx.Err())
		}
	}
}

// look returns a connection, or the dial to wait for, which it begins if need be. The caller
// holds the lock.
func (p *pool) look(now time.Time) (*conn, *dialing, error) {
	if p.closed {
		return nil, nil, errClosed
	}
	alive := p.open[:0]
	var found *conn
	for _, c := range p.open {
		if c.IsClosed() {
			continue
		}
		alive = append(alive, c)
		if !c.full && found == nil {
			found = c
		}
	}
	clear(p.open[len(alive):])
	p.open = alive
	switch {
	case found != nil:
		return found, nil, nil
	case p.dial != nil:
		return nil, p.dial, nil
	case now.Before(p.until):
		return nil, nil, p.failed
	}
	p.dial = &dialing{done: make(chan struct{})}
	go p.connect(p.dial)
	return nil, p.dial, nil
}

// explain adds the error of the last dial to a timeout, since it is probably the cause.
func (p *pool) explain(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return fmt.Errorf("%v: %w (the last error was: %w)", p.set, err, p.failed)
	}
	return fmt.Errorf("%v: %w", p.set, err)
}

// connect tries one server after another.
func (p *pool) connect(d *dialing) {
	p.set.WarnExposed()
	p.mu.Lock()
	first, again := p.first, p.denied > 0
	p.mu.Unlock()
	var errs []error
	var c *amqp.Connection
	denied := false
	for i := range p.set.Servers {
		at := (first + i) % len(p.set.Servers)
		var err error
		if c, err = p.set.dialServer(p.set.Servers[at]); err == nil {
			first = at
			break
		}
		denied = denied || errors.Is(err, amqp.ErrCredentials)
		errs = append(errs, p.set.dialError(err, again))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(d.done)
	p.dial = nil
	switch {
	case c != nil && p.closed:
		go c.Close()
		d.err = errClosed
	case c != nil:
		p.open = append(p.open, &conn{Connection: c})
		p.first, p.failed, p.times, p.denied = first, nil, 0, 0
	default:
		p.fail(fmt.Errorf("connect to %v: %w", p.set, together(errs)), denied)
		d.err = p.failed
	}
}

// fail notes the error of a dial, and when the next may begin. The caller holds the lock.
func (p *pool) fail(err error, denied bool) {
	p.failed = err
	pause := min(firstPause<<min(p.times, 10), longestPause)
	p.times++
	if p.first++; p.first >= len(p.set.Servers) {
		p.first = 0
	}
	switch {
	case !denied:
		p.denied = 0
	case p.denied > 0:
		pause = deniedPause
		fallthrough
	default:
		p.denied++
	}
	p.until = time.Now().Add(pause)
}

// dialServer connects to one server and signs in. Files with passwords and certificates are
// replaced while members run, so every connection reads them anew.
func (s *settings) dialServer(server string) (*amqp.Connection, error) {
	auth, err := s.signIn()
	if err != nil {
		return nil, permanent{err}
	}
	c, err := net.DialTimeout("tcp", server, dialTime)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(handshakeTime)) // the client ends it when it is signed in
	if s.Secure {
		if c, err = s.shake(c, server); err != nil {
			return nil, err
		}
	}
	name := s.name
	if name == "" {
		name = "rota"
	}
	opened, err := amqp.Open(c, amqp.Config{
		SASL: []amqp.Authentication{auth}, Vhost: s.vhost, Heartbeat: s.heartbeat, Locale: "en_US",
		ChannelMax: mostChannels, FrameSize: 128 << 10,
		Properties: amqp.Table{"product": "rota", "connection_name": name},
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	return opened, nil
}

// signIn returns how to sign in: with a user and a password, those of the URL or RabbitMQ's
// own default, or with the certificate.
func (s *settings) signIn() (amqp.Authentication, error) {
	if s.User == "" && s.Cert != "" {
		return &amqp.ExternalAuth{}, nil
	}
	user, password, err := s.account()
	return &amqp.PlainAuth{Username: user, Password: password}, err
}

// account returns the user and the password.
func (s *settings) account() (user, password string, err error) {
	if s.User == "" {
		return "guest", "guest", nil
	}
	secret, err := s.ReadPassword()
	return s.User, string(secret), err
}

// shake makes a TLS connection of a plain one.
func (s *settings) shake(c net.Conn, server string) (net.Conn, error) {
	config, err := s.TLSConfig()
	if err != nil {
		c.Close()
		return nil, permanent{err}
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server)
	}
	secured := tls.Client(c, config)
	if err := secured.Handshake(); err != nil {
		c.Close()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			err = fmt.Errorf("no answer to the TLS handshake: does the server speak TLS? If not, write amqp:// (%w)", err)
		}
		return nil, err
	}
	return secured, nil
}

// within adds callTime as a timeout to a ctx without a deadline.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

// Close closes the connections. Every Consume that is running fails.
func (l *link) Close() error {
	for _, p := range []*pool{&l.consuming, &l.publishing} {
		p.mu.Lock()
		p.closed = true
		open := p.open
		p.open = nil
		p.mu.Unlock()
		for _, c := range open {
			c.CloseDeadline(time.Now().Add(time.Second))
		}
	}
	return nil
}
