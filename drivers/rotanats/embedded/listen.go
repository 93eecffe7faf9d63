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

// free returns an error if this process cannot listen on an address.
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

// loopback tells whether an address can be reached from this host only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// minSecret is the least number of bytes of a password or token that other hosts can
// try. A longer one is not thereby a good one: this keeps out those that are guessed at
// once.
const minSecret = 8

// guessable refuses a server that other hosts can reach and whose secret is so short
// that it is soon guessed.
func guessable(s *address.Settings, listen string) error {
	if listen == "" || loopback(listen) {
		return nil
	}
	for what, secret := range map[string]address.Secret{"password": s.Password, "token": s.Token} {
		if n := len(secret); n > 0 && n < minSecret {
			return fmt.Errorf("%s can be reached from other hosts, and its %s has %d bytes, which is soon guessed: use %d or more, better 32 random ones, as from openssl rand -hex 16",
				listen, what, n, minSecret)
		}
	}
	return nil
}
