package rotanats

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

type settings = address.Settings

// An Option says what a URL cannot: it holds a value of Go, or is decided by what the
// program does and not by where it connects to.
type Option func(*settings)

// TLS sets everything about TLS at once, instead of the URL's ca, cert and key.
func TLS(c *tls.Config) Option { return func(s *settings) { s.Secure, s.TLS = true, c } }

// Log receives what the connection, and an embedded server, have to say.
func Log(l *slog.Logger) Option { return func(s *settings) { s.Log = l } }

// AsItIs makes a Store use the bucket as it is: it is neither made nor changed, and
// while there is none every call answers with an error that wraps rota.ErrNotFound.
// It is for programs that read, or give orders: they need no rights for more. The URL
// does not say it, so that they can be given the URL of the members.
func AsItIs() Option { return func(s *settings) { s.AsItIs = true } }

// read makes settings of a URL and options.
func read(url string, opts []Option) (*settings, error) {
	s, err := address.Read(url)
	if err != nil {
		return s, err
	}
	for _, o := range opts {
		o(s)
	}
	if s.Open {
		return s, errors.New("rotanats: the URL's parameter open: it is for a server that listens; leave it out")
	}
	return s, s.Check()
}

// Connect connects to servers by the same URLs and options as Store and Source
// do, for whatever else there is to do: to publish, say. Of embed:DIR it is the
// server that somebody runs: Connect starts none. No error of it tells a secret.
func Connect(url string, more []nats.Option, opts ...Option) (*nats.Conn, error) {
	s, err := read(url, opts)
	if err != nil {
		return nil, err
	}
	dialing, err := s.Dialing(func(error) {})
	if err != nil {
		return nil, fmt.Errorf("rotanats: connect to %v: %w", s, err)
	}
	return nats.Connect(strings.Join(s.URLs(), ","), append(dialing, more...)...)
}
