package rotanats

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/nats-io/nats.go"
)

// Certificates are files that somebody replaces before they expire. A client reads
// its own, and those that it trusts, for every connection it makes; a server for
// every client that comes.

func (s *settings) tlsConfig() (*tls.Config, error) {
	if s.tls != nil {
		return s.tls.Clone(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		pool, err := roots(s.ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if s.cert != "" {
		pair, err := s.pair()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (s *settings) pair() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return pair, fmt.Errorf("certificate %s with key %s: %w", filepath.Base(s.cert), filepath.Base(s.key), err)
	}
	return pair, nil
}

// dialingTLS is what the client wants to know of TLS. failing hears of files that
// cannot be read when a connection is made again; the client itself keeps silent.
func (s *settings) dialingTLS(failing func(error)) ([]nats.Option, error) {
	c, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	opts := []nats.Option{nats.Secure(c)}
	if s.tls != nil || s.cert == "" && s.ca == "" {
		return opts, nil
	}
	var pair func() (tls.Certificate, error)
	var trusted func() (*x509.CertPool, error)
	if s.cert != "" {
		pair = func() (tls.Certificate, error) {
			pair, err := s.pair()
			failing(err)
			return pair, err
		}
	}
	if s.ca != "" {
		trusted = func() (*x509.CertPool, error) {
			pool, err := roots(s.ca)
			failing(err)
			return pool, err
		}
	}
	return append(opts, nats.ClientTLSConfig(pair, trusted)), nil
}

// serveNewest makes a server that has begun with these certificates show and trust
// the newest. While the files cannot be read, it goes on with those it has.
func (s *settings) serveNewest(first *tls.Config) {
	if s.tls != nil {
		return
	}
	var mu sync.Mutex
	last, bad := first.Clone(), ""
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		c, err := s.tlsConfig()
		if err != nil {
			if bad != err.Error() {
				bad = err.Error()
				s.log.Warn("serving with the former certificates", "err", err)
			}
			return last, nil
		}
		c.ClientCAs, c.ClientAuth, bad = c.RootCAs, first.ClientAuth, ""
		last = c
		return last, nil
	}
}

func roots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the file of trusted certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the file of trusted certificates: no certificate in %s", file)
	}
	return pool, nil
}
