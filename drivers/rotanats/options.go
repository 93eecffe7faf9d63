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

// An Option is a setting that a URL cannot hold: a Go value, or a choice that depends
// on what the program does and not on where it connects to.
type Option func(*settings)

// TLS sets everything about TLS at once, instead of the URL's ca, cert and key.
func TLS(c *tls.Config) Option { return func(s *settings) { s.Secure, s.TLS = true, c } }

// Log receives the log lines of the connection and of an embedded server.
func Log(l *slog.Logger) Option { return func(s *settings) { s.Log = l } }

// AsItIs makes a Store use the bucket as it is: it neither creates nor changes the
// bucket, and while there is none every call returns an error that wraps
// rota.ErrNotFound. It is for programs that only read or give orders and have no
// rights for more. It is no parameter of the URL, so that such a program can use the
// URL of the members.
func AsItIs() Option { return func(s *settings) { s.AsItIs = true } }

// read parses a URL, applies the options and checks the result.
func read(url string, opts []Option) (*settings, error) {
	s, err := address.Read(url)
	if err != nil {
		return s, err
	}
	for _, o := range opts {
		o(s)
	}
	if s.Open {
		return s, errors.New("rotanats: the URL's parameter open is for a server that listens: leave it out")
	}
	why, names := "it is for a folder", ofFolders
	if s.Folder != "" {
		why, names = "a folder's server is reached through its socket and needs no sign-in", ofSignIn
	}
	if err := useless(s, names, why); err != nil {
		return s, err
	}
	return s, s.Check()
}

// Connect connects to servers by the same URLs and options as Store and Source, for
// everything else a program does with NATS, such as publishing. With embed:DIR it
// connects to the process that serves the folder and never starts a server. Its
// errors contain no secrets.
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
