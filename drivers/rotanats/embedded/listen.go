package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// free tells whether an address can be listened on.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the port is taken: %s: another program listens there; stop it, or give another address", address)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to listen on %s: choose a port above 1023 (%w)", address, err)
	}
	return fmt.Errorf("listen on %s: %w", address, err)
}

// loopback tells whether an address can be reached from this host alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// leastSecret is how many bytes a password or a token has at least that other hosts
// can try. It is no measure of a good one: this keeps out what is guessed at once.
const minSecret = 8

// guessable refuses a server that other hosts can reach and whose secret they would
// soon guess.
func guessable(s *address.Settings, listen string) error {
	if listen == "" || loopback(listen) {
		return nil
	}
	for what, secret := range map[string]address.Secret{"password": s.Password, "token": s.Token} {
		if n := len(secret); n > 0 && n < minSecret {
			return fmt.Errorf("%s can be reached from other hosts, and its %s has %d bytes: whoever tries has guessed it soon; use %d or more, better 32 random ones, as from openssl rand -hex 16",
				listen, what, n, minSecret)
		}
	}
	return nil
}
