package address

import (
	"crypto/tls"
	"crypto/x509"
	"sync"

	"github.com/nats-io/nats.go"
)

// Certificate files are replaced before they expire. A client reads its own certificate,
// and those it trusts, for every connection; a server reads them for every client.

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
			pair, err := s.Pair()
			failing(err)
			return pair, err
		}
	}
	if s.CA != "" {
		trusted = func() (*x509.CertPool, error) {
			pool, err := s.Trusted()
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
