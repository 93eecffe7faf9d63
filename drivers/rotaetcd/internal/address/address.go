// Package address parses the URLs of rotaetcd, which are its one configuration language.
package address

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Settings are the settings of a URL and of options.
type Settings struct {
	Servers []string // host:port of each node
	Prefix  string   // of every key, without slashes around it
	Secure  bool     // etcds://
	Nodes   int      // how many voting nodes the URL vouches for; 0 if it does not
	Log     *slog.Logger

	User         string
	Password     Secret
	PasswordFile string // read for every sign-in
	CA           string // file
	Cert         string // file
	Key          string // file
	TLS          *tls.Config
}

// A Secret prints as xxxxx.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "xxxxx"
}

// Format covers every verb, %x and %#v too.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// parameters are the parameters of a URL's query.
var parameters = map[string]func(*Settings, string) error{
	"password-file": func(s *Settings, v string) error { s.PasswordFile = v; return file(v) },
	"ca":            func(s *Settings, v string) error { s.Secure, s.CA = true, v; return file(v) },
	"cert":          func(s *Settings, v string) error { s.Secure, s.Cert = true, v; return file(v) },
	"key":           func(s *Settings, v string) error { s.Secure, s.Key = true, v; return file(v) },
	"nodes":         func(s *Settings, v string) error { return number(&s.Nodes, v, 1, 9) },
}

const (
	defaultPort   = "2379"
	defaultPrefix = "rota"
)

func number(to *int, v string, least, most int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return fmt.Errorf("want a number from %d to %d", least, most)
	}
	*to = n
	return nil
}

func file(v string) error {
	if v == "" {
		return errors.New("want the name of a file, or leave the parameter out")
	}
	return nil
}

// Read parses a URL such as
//
//	etcds://user:password@host:port,host:port/prefix?parameter=value
//
// Its errors do not repeat the URL, since a password may be anywhere in it, even where it
// does not belong.
func Read(address string) (*Settings, error) {
	s := &Settings{Prefix: defaultPrefix, Log: slog.New(slog.DiscardHandler)}
	return s, s.parse(address)
}

func (s *Settings) parse(address string) error {
	address, query, _ := strings.Cut(address, "?")
	rest, ok := strings.CutPrefix(address, "etcd://")
	if !ok {
		rest, ok = strings.CutPrefix(address, "etcds://")
		s.Secure = ok
	}
	if !ok {
		return errors.New("rotaetcd: not an address of etcd: write etcd://HOST:PORT,HOST:PORT/PREFIX, or etcds:// for TLS")
	}
	hosts, prefix, _ := strings.Cut(rest, "/")
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		s.Prefix = prefix
	}
	if err := s.hosts(hosts); err != nil {
		return err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("rotaetcd: the URL's parameters after ? cannot be read: write name=value&name=value, with % and + escaped")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set := parameters[name]
		if set == nil {
			if !plain(name) { // it may be the rest of a password that contains a question mark
				name = "?"
			}
			return fmt.Errorf("rotaetcd: the URL has an unknown parameter %s; known are %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		v := values[name][len(values[name])-1]
		if err := set(s, v); err != nil {
			return fmt.Errorf("rotaetcd: the URL's parameter %s=%.40s: %w", name, v, err)
		}
	}
	return nil
}

func (s *Settings) hosts(list string) error {
	if at := strings.LastIndexByte(list, '@'); at >= 0 {
		if err := s.signIn(list[:at]); err != nil {
			return err
		}
		list = list[at+1:]
	}
	for i, host := range strings.Split(list, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // without a port
			name, port = strings.Trim(host, "[]"), defaultPort
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || name == "" || strings.ContainsAny(name, " /?#\\@%\"<>[]\x00\t\r\n") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return fmt.Errorf("rotaetcd: node %d of the URL is not a HOST:PORT", i+1)
		}
		server := net.JoinHostPort(name, strconv.FormatUint(n, 10))
		if slices.Contains(s.Servers, server) {
			return fmt.Errorf("rotaetcd: node %d of the URL is there twice: write each once", i+1)
		}
		s.Servers = append(s.Servers, server)
	}
	return nil
}

// signIn parses user:password, or a user alone.
func (s *Settings) signIn(info string) error {
	user, password, _ := strings.Cut(info, ":")
	u, err := url.PathUnescape(user)
	p, err2 := url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("rotaetcd: the user or password in the URL is not escaped correctly: write a % as %25, and every other escape as % and two hexadecimal digits")
	}
	s.User, s.Password = u, Secret(p)
	return nil
}

// Check refuses settings that cannot work, and settings without an effect.
func (s *Settings) Check() error {
	switch {
	case !goodPrefix(s.Prefix):
		return errors.New("rotaetcd: the prefix after the URL's hosts: use A-Z, a-z, 0-9, _, -, . and single slashes between, at most 200 bytes")
	case (s.Cert == "") != (s.Key == ""):
		return errors.New("rotaetcd: cert and key: give both or none")
	case s.TLS != nil && (s.CA != "" || s.Cert != ""):
		return errors.New("rotaetcd: the option TLS and the URL's ca, cert and key: give one of them")
	case s.PasswordFile != "" && s.User == "":
		return errors.New("rotaetcd: password-file needs a user: etcd://USER@HOST?password-file=FILE")
	case s.PasswordFile != "" && s.Password != "":
		return errors.New("rotaetcd: a password and a password-file: give one of them")
	case s.User != "" && s.PasswordFile == "" && s.Password == "":
		return errors.New("rotaetcd: a user without a password: write etcd://USER:PASSWORD@HOST or etcd://USER@HOST?password-file=FILE; " +
			"the user of a client certificate is not written into the URL")
	case s.User == "" && s.Password != "":
		return errors.New("rotaetcd: a password without a user: write etcd://USER:PASSWORD@HOST")
	}
	return nil
}

// goodPrefix keeps prefixes to names that need no escaping anywhere.
func goodPrefix(p string) bool {
	return len(p) <= 200 && !slices.ContainsFunc(strings.Split(p, "/"), func(step string) bool { return !plain(strings.ReplaceAll(step, ".", "-")) })
}

// plain tells whether a name is made of letters, digits, _ and - alone.
func plain(name string) bool {
	return name != "" && len(name) <= 200 && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// String returns the address without secrets.
func (s *Settings) String() string {
	scheme := "etcd://"
	if s.Secure {
		scheme = "etcds://"
	}
	prefix := s.Prefix
	if !goodPrefix(prefix) {
		prefix = "?" // it may be the rest of a password that contains a slash
	}
	return scheme + strings.Join(s.Servers, ",") + "/" + prefix
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *Settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
