package rotaredis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
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
	if !s.secure {
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
	config, err := s.tlsConfig()
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

func (s *settings) tlsConfig() (*tls.Config, error) {
	if s.tls != nil {
		return s.tls.Clone(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("the file of trusted certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file of trusted certificates: no certificate in %s", s.ca)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", filepath.Base(s.cert), filepath.Base(s.key), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// signIns returns what a connection signs in with, to a server or to a Sentinel.
func (s *settings) signIns(toSentinel bool) (user, password string, err error) {
	user, password, file := s.user, string(s.password), s.passwordFile
	if toSentinel {
		user, password, file = s.sentinelUser, "", s.sentinelPasswordFile
	}
	if file == "" {
		return user, password, nil
	}
	password, err = readSecret(file)
	return user, password, err
}

// readSecret reads a file that contains a password and nothing else.
func readSecret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", permanent{fmt.Errorf("the password file: %w", err)}
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", permanent{fmt.Errorf("the password file: %s is empty", file)}
	}
	return text, nil
}

// warnExposed logs a warning for each file with a secret that other users may read.
func (s *settings) warnExposed() {
	for _, file := range []string{s.passwordFile, s.sentinelPasswordFile, s.key} {
		info, err := os.Stat(file)
		if file == "" || err != nil || runtime.GOOS == "windows" {
			continue // an error shows when the file is read; Windows has no such modes
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			s.log.Warn("other users may read this secret: chmod 600", "file", file, "mode", fmt.Sprintf("%04o", mode))
		}
	}
}
