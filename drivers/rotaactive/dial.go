package rotaactive

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Timeouts of a connection.
const (
	dialTime  = 5 * time.Second  // to connect to one server and sign in
	callTime  = 10 * time.Second // for the answer to a request
	writeTime = 5 * time.Second  // to send what is due
)

// connect makes a connection to a server, with TLS if the URL says so. Files with
// certificates are read anew for every connection, since they are replaced while members
// run.
func (s *settings) connect(ctx context.Context, server string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", server)
	if err != nil || !s.Secure {
		return c, err
	}
	config, err := s.TLSConfig()
	if err != nil {
		c.Close()
		return nil, permanent{err}
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server)
	}
	secured := tls.Client(c, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		c.Close()
		if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(tls.RecordHeaderError)) {
			err = fmt.Errorf("no answer to the TLS handshake: does this port speak TLS? (%w)", err)
		}
		return nil, err
	}
	return secured, nil
}

// A timedConn has a deadline for each Read and each Write.
type timedConn struct {
	net.Conn
	read, write time.Duration // 0 for none
}

func (c *timedConn) Read(b []byte) (int, error) {
	if c.read > 0 {
		c.Conn.SetReadDeadline(time.Now().Add(c.read))
	}
	return c.Conn.Read(b)
}

func (c *timedConn) Write(b []byte) (int, error) {
	c.Conn.SetWriteDeadline(time.Now().Add(c.write))
	return c.Conn.Write(b)
}
