// Package address parses what the URLs of all drivers share: servers, user and password,
// files with secrets and certificates, and parameters. Its errors never repeat a URL,
// since a password may be anywhere in it, even where it does not belong. They do not name
// the driver either: Named does.
package address

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Common are the settings that the URLs of all drivers share.
type Common struct {
	Servers []string // host:port
	Secure  bool     // TLS
	Log     *slog.Logger

	User         string
	Password     Secret
	PasswordFile string // read for every connection
	CA           string // file
	Cert         string // file
	Key          string // file
	TLS          *tls.Config
}

// Silent is the logger of settings that were given none.
var Silent = slog.New(slog.DiscardHandler)

// Authority parses user:password@host:port,host:port/path and returns the path, without a
// slash at its end. A password may contain slashes.
func (c *Common) Authority(rest, defaultPort string) (path string, err error) {
	at := strings.LastIndexByte(rest, '@')
	if at >= 0 {
		user, password, _, err := SignIn(rest[:at])
		if err != nil {
			return "", err
		}
		c.User, c.Password = user, password
	}
	hosts, path, _ := strings.Cut(rest[at+1:], "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if err := c.AddServer(host, defaultPort); err != nil {
			return "", err
		}
	}
	return strings.TrimSuffix(path, "/"), nil
}

// AddServer adds a host, which may have a port.
func (c *Common) AddServer(host, defaultPort string) error {
	n := len(c.Servers) + 1
	server, ok := HostPort(host, defaultPort)
	switch {
	case !ok:
		return fmt.Errorf("server %d of the URL is not a HOST:PORT", n)
	case slices.Contains(c.Servers, server):
		return fmt.Errorf("server %d of the URL is there twice: write each once", n)
	}
	c.Servers = append(c.Servers, server)
	return nil
}

// HostPort returns host:port, with the default port if the host has none, and false if the
// host is not one.
func HostPort(host, defaultPort string) (string, bool) {
	name, port, err := net.SplitHostPort(host)
	if err != nil { // without a port
		name, port = strings.Trim(host, "[]"), defaultPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || name == "" || strings.ContainsAny(name, " /?#\\@%\"<>[]\x00\t\r\n") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
		return "", false
	}
	return net.JoinHostPort(name, strconv.FormatUint(n, 10)), true
}

// SignIn parses user:password. both tells whether there was a colon.
func SignIn(info string) (user string, password Secret, both bool, err error) {
	name, secret, both := strings.Cut(info, ":")
	user, err = url.PathUnescape(name)
	p, err2 := url.PathUnescape(secret)
	if err != nil || err2 != nil {
		return "", "", both, errors.New("the user or password in the URL is not escaped correctly: write a % as %25, and every other escape as % and two hexadecimal digits")
	}
	return user, Secret(p), both, nil
}

// Check refuses settings that cannot work, and settings without an effect.
func (c *Common) Check() error {
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("cert and key: give both or none")
	case c.TLS != nil && (c.CA != "" || c.Cert != ""):
		return errors.New("the option TLS and the URL's ca, cert and key: give one of them")
	case c.PasswordFile != "" && c.Password != "":
		return errors.New("a password and a password-file: give one of them")
	}
	return nil
}

// CheckUser refuses a password without a user and a user without a password, for servers
// that need both.
func (c *Common) CheckUser(scheme string) error {
	switch {
	case c.PasswordFile != "" && c.User == "":
		return fmt.Errorf("password-file needs a user: %s://USER@HOST?password-file=FILE", scheme)
	case c.User == "" && c.Password != "":
		return fmt.Errorf("a password without a user: write %s://USER:PASSWORD@HOST", scheme)
	case c.User != "" && c.Password == "" && c.PasswordFile == "":
		return fmt.Errorf("a user without a password: write %s://USER:PASSWORD@HOST, or %[1]s://USER@HOST?password-file=FILE", scheme)
	}
	return nil
}

// Named puts the driver's name before an error.
func Named(driver string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", driver, err)
}

// Plain tells whether a name consists of at most 64 letters, digits, _ and -, so that it
// needs no escape anywhere.
func Plain(name string) bool { return name != "" && len(name) <= 64 && plain(name) }

// PlainSteps tells whether a path consists of such names, with single slashes between.
func PlainSteps(path string, most int) bool {
	return len(path) <= most && !slices.ContainsFunc(strings.Split(path, "/"), func(step string) bool { return step == "" || !plain(step) })
}

func plain(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool { return !PlainRune(r) }) < 0
}

// PlainRune tells whether r is a letter, a digit, _ or -.
func PlainRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}
