package rotaetcd

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-dev/rota/internal/address"
)

// settings are the settings of a URL and of options.
type settings struct {
	address.Common
	prefix string // of every key, without slashes around it
	nodes  int    // how many voting nodes the URL vouches for; 0 if it does not
}

// parameters are the parameters of a URL's query.
var parameters = address.Shared(func(s *settings) *address.Common { return &s.Common }, address.Parameters[settings]{
	"nodes": func(s *settings, v string) error { return address.Number(&s.nodes, v, 1, 9) },
})

const (
	defaultPort   = "2379"
	defaultPrefix = "rota"
	longestPrefix = 200
)

// parse reads a URL such as
//
//	etcds://user:password@host:port,host:port/prefix?parameter=value
//
// Its errors do not repeat the URL, since a password may be anywhere in it.
func parse(url string) (*settings, error) {
	s := &settings{Common: address.Common{Log: address.Silent}}
	url, query, _ := strings.Cut(url, "?")
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || scheme != "etcd" && scheme != "etcds" {
		return s, errors.New("not an address of etcd: write etcd://HOST:PORT,HOST:PORT/PREFIX, or etcds:// for TLS")
	}
	s.Secure = scheme == "etcds"
	prefix, err := s.Authority(rest, defaultPort)
	if err != nil {
		return s, err
	}
	s.prefix = cmp.Or(prefix, defaultPrefix)
	_, err = parameters.Read(query, s)
	return s, err
}

// check refuses settings that cannot work, and settings without an effect.
func (s *settings) check() error {
	if !goodPrefix(s.prefix) {
		return fmt.Errorf("the prefix after the URL's hosts: use A-Z, a-z, 0-9, _, -, . and single slashes between, at most %d bytes", longestPrefix)
	}
	if err := s.CheckUser("etcd"); err != nil {
		if s.Cert != "" {
			err = fmt.Errorf("%w; the user of a client certificate is not written into the URL", err)
		}
		return err
	}
	return s.Check()
}

// goodPrefix keeps prefixes to names that need no escaping anywhere.
func goodPrefix(p string) bool {
	return address.PlainSteps(strings.ReplaceAll(p, ".", "-"), longestPrefix)
}

// String returns the address without secrets.
func (s *settings) String() string {
	scheme := "etcd://"
	if s.Secure {
		scheme = "etcds://"
	}
	prefix := s.prefix
	if !goodPrefix(prefix) {
		prefix = "?" // it may be the rest of a password
	}
	return scheme + strings.Join(s.Servers, ",") + "/" + prefix
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
