package rotaredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rota-dev/rota/internal/address"
)

// Files with certificates and passwords are replaced while members run, so every
// connection reads them anew.

// dialing is dial for the client. The client writes a line to the standard error for each
// dial that fails, however many there are, and has no setting for that but one for the
// whole process. So a dial that fails makes a connection that fails.
func (s *settings) dialing(ctx context.Context, addr string) (net.Conn, error) {
	c, err := s.dial(ctx, addr)
	if err != nil {
		return brokenConn{err: err}, nil
	}
	return c, nil
}

// A brokenConn is a connection that could not be made.
type brokenConn struct {
	net.Conn // nil
	err      error
}

func (c brokenConn) Read([]byte) (int, error)         { return 0, c.err }
func (c brokenConn) Write([]byte) (int, error)        { return 0, c.err }
func (c brokenConn) Close() error                     { return nil }
func (c brokenConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c brokenConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c brokenConn) SetDeadline(time.Time) error      { return nil }
func (c brokenConn) SetReadDeadline(time.Time) error  { return nil }
func (c brokenConn) SetWriteDeadline(time.Time) error { return nil }

// dial connects to a server.
func (s *settings) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError{err}
	}
	if !s.Secure {
		return c, nil
	}
	secured, err := s.shake(ctx, c, addr)
	if err != nil {
		c.Close()
		return nil, dialError{err}
	}
	return secured, nil
}

// shake makes a TLS connection of a plain one.
func (s *settings) shake(ctx context.Context, c net.Conn, addr string) (net.Conn, error) {
	config, err := s.TLSConfig()
	if err != nil {
		return nil, permanent{err}
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secured := tls.Client(c, config)
	err = secured.HandshakeContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer to the TLS handshake: does the server speak TLS? If not, write redis:// (%w)", err)
	}
	return secured, err
}

// signIns returns what a connection signs in with, to a server or to a Sentinel.
func (s *settings) signIns(toSentinel bool) (user, password string, err error) {
	var secret address.Secret
	switch {
	case !toSentinel:
		user = s.User
		secret, err = s.ReadPassword()
	case s.sentinelPasswordFile != "":
		user = s.sentinelUser
		secret, err = address.ReadSecret("password", s.sentinelPasswordFile)
	}
	if err != nil {
		err = permanent{err}
	}
	return user, string(secret), err
}
