package rotakafka

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"

	"github.com/rota-dev/rota/internal/address"
)

// An Option is a setting that a URL cannot hold.
type Option func(*settings)

// TLS sets everything about TLS at once, instead of the URL's ca, cert and key.
func TLS(c *tls.Config) Option { return func(s *settings) { s.Secure, s.TLS = true, c } }

// Log receives the log lines of the connections.
func Log(l *slog.Logger) Option { return func(s *settings) { s.Log = l } }

// Dialer opens the connections to brokers, for example through a tunnel. It gets each
// address as the brokers tell it, and TLS is added to what it returns.
func Dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

// Check returns an error if a URL or an option is wrong. It does not connect.
func Check(url string, opts ...Option) error {
	_, err := read(url, opts)
	return err
}

// read parses a URL, applies the options and checks the result.
func read(url string, opts []Option) (*settings, error) {
	s, err := parse(url)
	if err == nil {
		for _, o := range opts {
			o(s)
		}
		err = s.check()
	}
	return s, address.Named("rotakafka", err)
}
