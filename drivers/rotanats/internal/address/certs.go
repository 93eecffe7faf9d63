package address

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/nats-io/nats.go"
)

// Certificate files are replaced before they expire. A client reads its own certificate,
// and those it trusts, for every connection; a server reads them for every client.

// TLSConfig returns the TLS configuration of a client. A server uses the same files, with
// the CA for its clients.
func (s *Settings) TLSConfig() (*tls.Config, error) {
	if s.TLS != nil {
		return s.TLS.Clone(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		pool, err := roots(s.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if s.Cert != "" {
		pair, err := s.pair()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (s *Settings) pair() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return pair, fmt.Errorf("certificate %s with key %s: %w", filepath.Base(s.Cert), filepath.Base(s.Key), err)
	}
	return pair, nil
}

// dialingTLS returns the TLS options of the NATS client. failing is called with the result
// of each read of the files for a later connection, since the client does not report it.
func (s *Settings) dialingTLS(failing func(error)) ([]nats.Option, error) {
	c, err := s.TLSConfig()
	if err != nil {
		return nil, err
	}
	opts := []nats.Option{nats.Secure(c)}
	if s.TLS != nil || s.Cert == "" && s.CA == "" {
		return opts, nil
	}
	var pair func() (tls.Certificate, error)
	var trusted func() (*x509.CertPool, error)
	if s.Cert != "" {
		pair = func() (tls.Certificate, error) {
			pair, err := s.pair()
			failing(err)
			return pair, err
		}
	}
	if s.CA != "" {
		trusted = func() (*x509.CertPool, error) {
			pool, err := roots(s.CA)
			failing(err)
			return pool, err
		}
	}
	return append(opts, nats.ClientTLSConfig(pair, trusted)), nil
}

// ServeNewest makes a server read its certificate files for every client. While they
// cannot be read, it goes on with the last certificates, at first those in first.
func (s *Settings) ServeNewest(first *tls.Config) {
	if s.TLS != nil {
		return
	}
	var mu sync.Mutex
	last, bad := first.Clone(), ""
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		c, err := s.TLSConfig()
		if err != nil {
			if bad != err.Error() {
				bad = err.Error()
				s.Log.Warn("cannot read the certificates; serving with the last ones", "err", err)
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
