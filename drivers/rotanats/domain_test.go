package rotanats_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/internal/certs"
)

// start runs a server of the test's process.
func start(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = -1
	}
	if o.JetStream {
		o.StoreDir = t.TempDir()
	}
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	return ns
}

// group runs two members of a group one after the other, whose store and source are at a
// URL. Each handles messages that b publishes, and the first dead-letters one.
func (b *broker) group(t *testing.T, at string) {
	t.Helper()
	l := newLedger(t)
	for i, name := range []string{"a", "b"} {
		store, source := rotanats.Store(at), rotanats.Source(with(at, fmt.Sprintf("stream=%s&subject=%[1]s.in.*&partitions=%d", b.stream, len(b.names))))
		ctx, leave := context.WithCancel(t.Context())
		ended := l.memberUntil(ctx, name, store, source, func(c *rota.Config) {
			c.Handle = func(ctx context.Context, m rota.Message) error {
				if err := l.handle(ctx, m); err != nil || !strings.HasSuffix(string(m.Value), " 3") {
					return err
				}
				return fmt.Errorf("%w: for a test", rota.ErrBad)
			}
		})
		b.flow(10*i+1, 10*i+10)
		l.wait("the messages of "+name, 60*time.Second, l.reached(b, 10*i+10))
		leave()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		source.(interface{ Close() error }).Close()
		store.Close()
	}
	if l.again > 0 {
		t.Errorf("%d messages came again", l.again)
	}
	if dead, err := b.Dead(); err != nil || len(dead) != 1 {
		t.Errorf("%d dead letters, %v", len(dead), err)
	}
}

// TestDomain runs a group at a leaf node that has no JetStream. Its store and source are in
// the domain of the hub.
func TestDomain(t *testing.T) {
	t.Parallel()
	o := &server.Options{JetStream: true, JetStreamDomain: "hub", LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: -1}}
	hub := start(t, o)
	remote := &url.URL{Scheme: "nats-leaf", Host: fmt.Sprint("127.0.0.1:", o.LeafNode.Port)} // the server has filled it in
	leaf := start(t, &server.Options{LeafNode: server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}}})
	b := newBroker(t, hub.ClientURL())
	b.group(t, leaf.ClientURL()+"?domain=hub")
	if err := works(t, rotanats.Store(leaf.ClientURL()+"?domain=elsewhere")); err == nil {
		t.Error("a domain that does not exist has a bucket")
	}
}

// TestWebSockets runs a group through web sockets, with and without TLS.
func TestWebSockets(t *testing.T) {
	dir := t.TempDir()
	ca := certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for scheme, o := range map[string]server.WebsocketOpts{
		"ws":  {NoTLS: true},
		"wss": {TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}},
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			o.Host, o.Port = "127.0.0.1", -1
			ns := start(t, &server.Options{JetStream: true, Websocket: o})
			at := ns.PortsInfo(30 * time.Second).WebSocket[0]
			query := ""
			if scheme == "wss" {
				query = "?ca=" + ca.File
				if err := works(t, rotanats.Store(at)); err == nil {
					t.Error("a certificate of an unknown CA was accepted")
				}
			}
			newBroker(t, ns.ClientURL()).group(t, at+query)
		})
	}
	if _, err := embedded.Serve("embed:"+dir, "ws://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "has no web sockets") {
		t.Errorf("an embedded server with web sockets: %v", err)
	}
}
