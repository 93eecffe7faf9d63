package rotazk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// packetSize limits what is sent and received at once, as servers do. It is also the
// size of the client's two buffers.
const packetSize = 1 << 20

// A conn is one connection to one server, with one session.
type conn struct {
	link   *link
	server string
	client *zk.Conn
	wire   *wire
	voters int

	session chan struct{} // closed when the server has given a session
	ended   chan struct{} // closed when the connection is over

	mu      sync.Mutex
	begun   bool
	why     error                      // why it is over
	watches map[string]map[*watch]bool // by the path of a node
	reports interests
}

// open dials a server and gets a session.
func (l *link) open(server string) (*conn, error) {
	digest, err := l.set.digest()
	if err != nil {
		return nil, permanent{err}
	}
	raw, err := l.dialWire(server)
	if err != nil {
		return nil, err
	}
	c := &conn{link: l, server: server, wire: raw, session: make(chan struct{}), ended: make(chan struct{}), watches: map[string]map[*watch]bool{}, reports: newInterests()}
	if err := c.start(); err != nil {
		raw.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	if err := c.await(ctx); err != nil {
		c.end(err)
		return nil, err
	}
	if digest != "" {
		_, err := ask(ctx, c, "sign in", "", func(z *zk.Conn) (int, error) { return 0, z.AddAuth("digest", []byte(string(digest))) })
		if err != nil {
			c.end(err)
			return nil, err
		}
	}
	c.voters = c.countVoters(ctx)
	return c, nil
}

// dialWire connects by TCP, and TLS on top of it.
func (l *link) dialWire(server string) (*wire, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	var d net.Dialer
	if !l.set.Secure {
		raw, err := d.DialContext(ctx, "tcp", server)
		return newWire(raw), err
	}
	config, err := l.set.TLSConfig()
	if err != nil {
		return nil, permanent{err}
	}
	raw, err := (&tls.Dialer{NetDialer: &d, Config: config}).DialContext(ctx, "tcp", server)
	return newWire(raw), err
}

// start gives the wire to the client.
func (c *conn) start() error {
	client, _, err := zk.Connect([]string{c.server}, sessionTime,
		zk.WithHostProvider(&oneServer{name: c.server}),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			if c.wire.used.Swap(true) {
				return nil, errLost // a conn is one connection only
			}
			return c.wire, nil
		}),
		zk.WithEventCallback(c.event),
		zk.WithLogger(quiet{}), zk.WithLogInfo(false), // what matters comes back as an error
		zk.WithMaxBufferSize(packetSize), zk.WithMaxConnBufferSize(packetSize))
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.client = client
	over := c.why != nil
	c.mu.Unlock()
	if over { // it ended before there was a client to close
		go client.Close()
	}
	return nil
}

// await waits for the session.
func (c *conn) await(ctx context.Context) error {
	select {
	case <-c.session:
		return nil
	case <-c.ended:
		hint := "it is not serving, has no quorum, no space on its disk, or wants TLS (zks://)"
		if c.link.set.Secure {
			hint = "it is not serving, has no quorum, or does not accept our certificate"
		}
		return fmt.Errorf("the server ended the connection before it gave a session: %s (%w)", hint, c.wire.cause())
	case <-ctx.Done():
		return fmt.Errorf("no session within %v", openTime)
	}
}

// event is called by the client, one event at a time, and must not block.
func (c *conn) event(e zk.Event) {
	switch {
	case e.Type != zk.EventSession:
		c.changed(e.Path)
	case e.State == zk.StateHasSession:
		c.mu.Lock()
		begun := c.begun
		c.begun = true
		c.mu.Unlock()
		if !begun {
			close(c.session)
		}
	case e.State == zk.StateDisconnected || e.State == zk.StateExpired:
		c.end(errLost)
	}
}

// end ends the connection, once.
func (c *conn) end(why error) {
	c.mu.Lock()
	if c.why != nil {
		c.mu.Unlock()
		return
	}
	c.why = why
	client := c.client
	c.mu.Unlock()
	close(c.ended)
	c.link.lost(c, why)
	if client != nil {
		go func() {
			client.Close() // tells the server that the session is over, if it can
			c.wire.Close()
		}()
	}
}

func (c *conn) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// suspect ends the connection if a server is silent after a request, so that the next
// call goes to another one. With a single server there is nothing to gain. stop ends the
// suspicion: the request was answered.
func (c *conn) suspect() (stop func()) {
	if len(c.link.set.Servers) < 2 {
		return func() {}
	}
	answer, asked := c.link.set.answer, time.Now()
	quit := make(chan struct{})
	timer := time.AfterFunc(answer, func() {
		for {
			if c.wire.heard().Before(asked) {
				c.end(fmt.Errorf("no answer within %v", answer))
				c.wire.Close()
				return
			}
			asked = time.Now()
			select {
			case <-time.After(answer):
			case <-quit:
				return
			case <-c.ended:
				return
			}
		}
	})
	return func() { timer.Stop(); close(quit) }
}

// countVoters asks how many servers vote. It returns 0 if the server does not say, as a
// server that is alone.
func (c *conn) countVoters(ctx context.Context) int {
	text, err := ask(ctx, c, "get", "/zookeeper/config", func(z *zk.Conn) ([]byte, error) {
		b, _, err := z.Get("/zookeeper/config")
		return b, err
	})
	if err != nil {
		return 0
	}
	return voters(string(text))
}

// voters counts the lines server.N=HOST:PORT:PORT:participant;… of a configuration.
func voters(config string) (n int) {
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		server, _, _ := strings.Cut(value, ";")
		if strings.HasPrefix(name, "server.") && !strings.HasSuffix(server, ":observer") {
			n++
		}
	}
	return n
}

// failed puts an error of the client into words of ours. The client's own follow in
// brackets.
func (c *conn) failed(verb, node string, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
		return err // the verbs know what it means
	case errors.Is(err, zk.ErrNoAuth):
		who := "nobody, since the URL names no user,"
		if c.link.set.User != "" {
			who = fmt.Sprintf("the user %s with this password", c.link.set.User)
		}
		return permanent{fmt.Errorf("rotazk: %v: %s may not %s %s: check user and password, or give that right (%w)", c.link.set, who, verb, node, err)}
	case errors.Is(err, zk.ErrInvalidACL):
		return permanent{fmt.Errorf("rotazk: %v: %s %s: the server does not know a scheme or an identity of the ACL: check the URL's acl (%w)", c.link.set, verb, node, err)}
	case errors.Is(err, zk.ErrAuthFailed):
		return permanent{fmt.Errorf("rotazk: %v: the server refuses the user (%w)", c.link.set, err)}
	case errors.Is(err, zk.ErrNotEmpty):
		return fmt.Errorf("rotazk: %v: %s %s: it has children that rota did not make: remove them (%w)", c.link.set, verb, node, err)
	}
	if slices.ContainsFunc(lostErrors, func(e error) bool { return errors.Is(err, e) }) {
		c.end(errLost) // the client may not have noticed
	}
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	if why == nil {
		why = errors.New("the server answers with an error")
	}
	return fmt.Errorf("rotazk: %v: %s %s at %s: %w (%w)", c.link.set, verb, node, c.server, why, err)
}

// lostErrors are the client's errors of a connection or a session that is over.
var lostErrors = []error{zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved, zk.ErrNoServer}

// listen makes a watch hear of changes to a node.
func (c *conn) listen(node string, w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[node] == nil {
		c.watches[node] = map[*watch]bool{}
	}
	c.watches[node][w] = true
}

func (c *conn) ignore(node string, w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches[node], w)
	if len(c.watches[node]) == 0 {
		delete(c.watches, node)
	}
}

// changed wakes the watches of a node.
func (c *conn) changed(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports.reported(node)
	for w := range c.watches[node] {
		w.mark(node)
	}
}

// hearing calls read so that the next change is reported: it tells read whether it has to
// ask for that.
func hearing[T any](ctx context.Context, c *conn, verb string, i interest, read func(z *zk.Conn, tell bool) (T, error)) (T, error) {
	c.mu.Lock()
	r := c.reports.ask(i)
	c.mu.Unlock()
	return ask(ctx, c, verb, i.node, func(z *zk.Conn) (T, error) {
		v, err := read(z, r != nil)
		if r != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reports.answered(r, err == nil)
		}
		return v, err
	})
}

// oneServer is a zk.HostProvider of one server. The client looks names up once, all
// together, and fails if one of them is not known.
type oneServer struct {
	name string
	mu   sync.Mutex
	gone bool
}

func (o *oneServer) Init([]string) error { return nil }
func (o *oneServer) Len() int            { return 1 }
func (o *oneServer) Connected()          {}

// Next makes the client pause from the second time on. It then notices that it was
// closed.
func (o *oneServer) Next() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	again := o.gone
	o.gone = true
	return o.name, again
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// A wire notes when something was last heard on a connection, and how it ended.
type wire struct {
	net.Conn
	used  atomic.Bool
	begun time.Time
	last  atomic.Int64 // nanoseconds after begun
	err   atomic.Pointer[error]
}

func newWire(raw net.Conn) *wire {
	if raw == nil {
		return nil
	}
	return &wire{Conn: raw, begun: time.Now()}
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.last.Store(int64(time.Since(w.begun)))
	}
	if err != nil {
		w.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (w *wire) heard() time.Time { return w.begun.Add(time.Duration(w.last.Load())) }

// cause is the first error of the connection.
func (w *wire) cause() error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	return errLost
}
