// Package address parses the URLs of rotazk, which are its one configuration language.
package address

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Settings are the settings of a URL and of options.
type Settings struct {
	Servers []string // host:port
	Chroot  string   // the node below which everything is kept, such as /rota
	Secure  bool     // TLS
	Log     *slog.Logger

	User         string
	Password     Secret
	PasswordFile string // read for every connection
	CA           string // file
	Cert         string // file
	Key          string // file
	TLS          *tls.Config

	Rights []Right // of new nodes; none: see docs/stores/zookeeper.md
}

// A Right says what one identity may do with a node: one entry of an ACL.
type Right struct {
	Scheme, ID string
	Perms      int32
}

// A Secret prints as xxxxx.
type Secret string

const redacted = "xxxxx"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format covers every verb, %x and %#v too.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// parameters are the parameters of a URL's query.
var parameters = map[string]func(*Settings, string) error{
	"password-file": func(s *Settings, v string) error { s.PasswordFile = v; return nil },
	"ca":            func(s *Settings, v string) error { s.Secure, s.CA = true, v; return nil },
	"cert":          func(s *Settings, v string) error { s.Secure, s.Cert = true, v; return nil },
	"key":           func(s *Settings, v string) error { s.Secure, s.Key = true, v; return nil },
	"acl":           func(s *Settings, v string) (err error) { s.Rights, err = parseRights(v); return err },
}

const (
	defaultPort   = "2181"
	defaultChroot = "/rota"
	longestChroot = 128
)

// Read parses a URL. Its errors do not repeat the URL, since a password may be anywhere
// in it, even where it does not belong.
func Read(address string) (*Settings, error) {
	s := &Settings{Log: slog.New(slog.DiscardHandler)}
	return s, s.parse(address)
}

// parse parses scheme://user:password@host:port,host:port/chroot?parameter=value.
func (s *Settings) parse(address string) error {
	address, query, _ := strings.Cut(address, "?")
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || scheme != "zk" && scheme != "zks" {
		return errors.New("rotazk: not an address of ZooKeeper: write zk://HOST:PORT,HOST:PORT/CHROOT, or zks:// for TLS")
	}
	s.Secure = scheme == "zks"
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := s.signIn(rest[:at]); err != nil {
			return err
		}
		rest = rest[at+1:]
	}
	hosts, chroot, _ := strings.Cut(rest, "/")
	if err := s.hosts(hosts); err != nil {
		return err
	}
	if err := s.root(chroot); err != nil {
		return err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("rotazk: the URL's parameters after ? cannot be read: write name=value&name=value, with % and + escaped")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set := parameters[name]
		if set == nil {
			if !plain(name) { // it may be the rest of a password that contains a question mark
				name = "?"
			}
			return fmt.Errorf("rotazk: the URL has an unknown parameter %s; known are %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		v := values[name][len(values[name])-1]
		if v == "" {
			return fmt.Errorf("rotazk: the URL's parameter %s is empty: give it a value, or leave it out", name)
		}
		if err := set(s, v); err != nil {
			return fmt.Errorf("rotazk: the URL's parameter %s: %w", name, err)
		}
	}
	return nil
}

func (s *Settings) hosts(list string) error {
	for i, host := range strings.Split(list, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // without a port
			name, port = strings.Trim(host, "[]"), defaultPort
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || name == "" || strings.ContainsAny(name, " /?#\\@%\"<>[]\x00\t\r\n") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return fmt.Errorf("rotazk: server %d of the URL is not a HOST:PORT", i+1)
		}
		s.Servers = append(s.Servers, net.JoinHostPort(name, strconv.FormatUint(n, 10)))
	}
	return nil
}

// root parses the chroot. The root of ZooKeeper itself is none: the server keeps its own
// nodes there.
func (s *Settings) root(path string) error {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		s.Chroot = defaultChroot
		return nil
	}
	for step := range strings.SplitSeq(path, "/") {
		if !plain(step) || len(path) > longestChroot {
			return fmt.Errorf("rotazk: the URL's path is no chroot: write names of A-Z, a-z, 0-9, _ and - with single slashes between, at most %d bytes", longestChroot)
		}
	}
	if path == "zookeeper" || strings.HasPrefix(path, "zookeeper/") {
		return errors.New("rotazk: the node /zookeeper belongs to the servers: write another chroot, such as /rota")
	}
	s.Chroot = "/" + path
	return nil
}

// signIn parses user:password, or a user alone, whose password is in a file.
func (s *Settings) signIn(info string) error {
	user, password, _ := strings.Cut(info, ":")
	u, err := url.PathUnescape(user)
	p, err2 := url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("rotazk: the user or password in the URL is not escaped correctly: write a % as %25, and every other escape as % and two hexadecimal digits")
	}
	s.User, s.Password = u, Secret(p)
	return nil
}

// Check refuses settings that cannot work.
func (s *Settings) Check() error {
	switch {
	case (s.Cert == "") != (s.Key == ""):
		return errors.New("rotazk: cert and key: give both or none")
	case s.TLS != nil && (s.CA != "" || s.Cert != ""):
		return errors.New("rotazk: the option TLS and the URL's ca, cert or key: give one of them")
	case s.PasswordFile != "" && s.User == "":
		return errors.New("rotazk: password-file needs a user: zk://USER@HOST?password-file=FILE")
	case s.PasswordFile != "" && s.Password != "":
		return errors.New("rotazk: a password and a password-file: give one of them")
	case s.User == "" && s.Password != "":
		return errors.New("rotazk: a password without a user: write zk://USER:PASSWORD@HOST")
	case s.User != "" && s.Password == "" && s.PasswordFile == "":
		return errors.New("rotazk: a user without a password: write zk://USER:PASSWORD@HOST, or zk://USER@HOST?password-file=FILE")
	case strings.Contains(s.User, ":"):
		return errors.New("rotazk: the user has a colon, where ZooKeeper would end it: choose another name")
	case s.User == "" && slices.ContainsFunc(s.Rights, func(r Right) bool { return r.Scheme == "auth" }):
		return errors.New("rotazk: acl has the scheme auth, which means the user of this URL, and there is none: write zk://USER:PASSWORD@HOST, or another scheme")
	}
	return nil
}

// plain tells whether a name can be used in paths as it is.
func plain(name string) bool {
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// String returns the address without secrets.
func (s *Settings) String() string {
	scheme := "zk://"
	if s.Secure {
		scheme = "zks://"
	}
	return scheme + strings.Join(s.Servers, ",") + s.Chroot
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *Settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// Digest returns user:password as ZooKeeper wants it; nothing without a user.
func (s *Settings) Digest() (Secret, error) {
	if s.User == "" {
		return "", nil
	}
	password := s.Password
	if s.PasswordFile != "" {
		b, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("the password file: %w", err)
		}
		if password = Secret(strings.TrimSpace(string(b))); password == "" {
			return "", fmt.Errorf("the password file: %s is empty", s.PasswordFile)
		}
	}
	return Secret(s.User + ":" + string(password)), nil
}
