package rotaredis

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

// settings are the settings of a URL and of options.
type settings struct {
	kind    kind
	servers []string // host:port: of servers, Sentinels or nodes of a Cluster
	master  string   // the name that Sentinels know the master by
	db      int
	prefix  string // of every key and channel
	synced  bool   // the URL vouches for appendfsync always
	name    string // of the connection, for the server's operator
	given   []string
	log     *slog.Logger

	user                 string
	password             secret
	passwordFile         string
	sentinelUser         string
	sentinelPasswordFile string

	secure        bool
	ca, cert, key string // files
	tls           *tls.Config
}

// A kind says what the servers of a URL are.
type kind int

const (
	single kind = iota // servers, of which one is the master
	sentinel
	cluster
)

// schemes are the schemes of a URL, the secure ones with an s.
var schemes = map[string]struct {
	kind   kind
	secure bool
	port   string
}{
	"redis":           {single, false, "6379"},
	"rediss":          {single, true, "6379"},
	"redis+sentinel":  {sentinel, false, "26379"},
	"rediss+sentinel": {sentinel, true, "26379"},
	"redis+cluster":   {cluster, false, "6379"},
	"rediss+cluster":  {cluster, true, "6379"},
}

// A secret prints as xxxxx.
type secret string

func (s secret) String() string {
	if s == "" {
		return ""
	}
	return "xxxxx"
}

// Format covers every verb, %x and %#v too.
func (s secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// parameters are the parameters of a URL's query.
var parameters = map[string]func(*settings, string) error{
	"prefix":                 func(s *settings, v string) error { s.prefix = v; return nil },
	"sync":                   func(s *settings, v string) error { s.synced = true; return oneOf(v, "always") },
	"db":                     func(s *settings, v string) error { return s.database(v) },
	"name":                   func(s *settings, v string) error { s.name = v; return nil },
	"password-file":          func(s *settings, v string) error { s.passwordFile = v; return nil },
	"sentinel-user":          func(s *settings, v string) error { s.sentinelUser = v; return nil },
	"sentinel-password-file": func(s *settings, v string) error { s.sentinelPasswordFile = v; return nil },
	"ca":                     func(s *settings, v string) error { s.secure, s.ca = true, v; return nil },
	"cert":                   func(s *settings, v string) error { s.secure, s.cert = true, v; return nil },
	"key":                    func(s *settings, v string) error { s.secure, s.key = true, v; return nil },
}

// useless are the parameters that have no effect on a kind of servers: a setting without
// an effect is a mistake that nobody finds.
var useless = map[kind]map[string]string{
	single:   {"sentinel-user": "it is for redis+sentinel://", "sentinel-password-file": "it is for redis+sentinel://"},
	sentinel: {"sync": "a failover may lose acknowledged writes, synced or not"},
	cluster: {"sync": "a failover may lose acknowledged writes, synced or not", "db": "a Cluster has one database only",
		"sentinel-user": "it is for redis+sentinel://", "sentinel-password-file": "it is for redis+sentinel://"},
}

func oneOf(v, want string) error {
	if v != want {
		return fmt.Errorf("want %q", want)
	}
	return nil
}

const mostDatabases = 1 << 20

func (s *settings) database(v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n >= mostDatabases {
		return errors.New("want the number of a database, such as 0")
	}
	s.db = n
	return nil
}

// parse reads scheme://user:password@host:port,host:port/path?parameter=value. Its errors
// do not repeat the URL, since a password may be anywhere in it, even where it does not
// belong.
func parse(address string) (*settings, error) {
	s := &settings{prefix: "rota", log: slog.New(slog.DiscardHandler)}
	address, query, _ := strings.Cut(address, "?")
	name, rest, ok := strings.Cut(address, "://")
	scheme, known := schemes[name]
	if !ok || !known {
		return s, errors.New("rotaredis: not an address of Redis: write redis://HOST:PORT, rediss://HOST:PORT for TLS, redis+sentinel://HOST,HOST/NAME or redis+cluster://HOST,HOST")
	}
	s.kind, s.secure = scheme.kind, scheme.secure
	at := strings.LastIndexByte(rest, '@') + 1
	hosts, path, _ := strings.Cut(rest[at:], "/")
	if at > 0 {
		if err := s.signIn(rest[:at-1]); err != nil {
			return s, err
		}
	}
	if err := s.hosts(hosts, scheme.port); err != nil {
		return s, err
	}
	if err := s.path(path); err != nil {
		return s, err
	}
	return s, s.query(query)
}

// signIn reads user:password, of which either may be missing.
func (s *settings) signIn(info string) error {
	user, password, _ := strings.Cut(info, ":")
	u, err := url.PathUnescape(user)
	p, err2 := url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("rotaredis: the user or password in the URL is not escaped correctly: write a % as %25, and every other escape as % and two hexadecimal digits")
	}
	s.user, s.password = u, secret(p)
	return nil
}

func (s *settings) hosts(list, port string) error {
	for i, host := range strings.Split(list, ",") {
		addr, err := hostPort(host, port)
		if err != nil {
			return fmt.Errorf("rotaredis: server %d of the URL is not a HOST:PORT", i+1)
		}
		s.servers = append(s.servers, addr)
	}
	return nil
}

var errNotHost = errors.New("not a HOST:PORT")

// hostPort adds the port if there is none.
func hostPort(host, port string) (string, error) {
	name, given, err := net.SplitHostPort(host)
	if err != nil { // without a port
		name, given = strings.Trim(host, "[]"), port
	}
	n, err := strconv.ParseUint(given, 10, 16)
	if err != nil || n == 0 || name == "" || strings.ContainsAny(name, " /?#\\@%\"<>[]\x00\t\r\n") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
		return "", errNotHost
	}
	return net.JoinHostPort(name, strconv.FormatUint(n, 10)), nil
}

// path reads what is behind the hosts: the number of a database, or the name of a master.
func (s *settings) path(path string) error {
	path = strings.TrimSuffix(path, "/")
	switch {
	case s.kind == sentinel:
		if !validMaster(path) {
			return errors.New("rotaredis: the URL does not name the master as the Sentinels know it: write redis+sentinel://HOST,HOST/NAME, with letters, digits, ., _ and -")
		}
		s.master = path
	case path == "":
	case s.kind == cluster:
		return errors.New("rotaredis: the URL of a Cluster ends behind its hosts: leave the path out")
	case s.database(path) != nil:
		return errors.New("rotaredis: the path of the URL is the number of a database, such as redis://HOST/0: leave it out, or write a number")
	}
	return nil
}

// validMaster accepts the names that a Sentinel does.
func validMaster(name string) bool {
	return name != "" && len(name) <= 128 && strings.IndexFunc(name, func(r rune) bool { return !plainRune(r) && r != '.' }) < 0
}

func (s *settings) query(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("rotaredis: the URL's parameters after ? cannot be read: write name=value&name=value, with % and + escaped")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set := parameters[name]
		if set == nil {
			if !plain(name) { // it may be the rest of a password that contains a question mark
				name = "?"
			}
			return fmt.Errorf("rotaredis: the URL has an unknown parameter %s; known are %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		s.given = append(s.given, name)
		v := values[name][len(values[name])-1]
		if err := set(s, v); err != nil {
			return fmt.Errorf("rotaredis: the URL's parameter %s=%.40s: %w", name, v, err)
		}
	}
	return nil
}

// check refuses settings that cannot work, or have no effect.
func (s *settings) check() error {
	for _, name := range s.given {
		if why := useless[s.kind][name]; why != "" {
			return fmt.Errorf("rotaredis: the URL's parameter %s: %s: leave it out", name, why)
		}
	}
	switch {
	case !plain(s.prefix):
		return fmt.Errorf("rotaredis: prefix %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.prefix)
	case s.name != "" && !plain(s.name):
		return fmt.Errorf("rotaredis: name %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.name)
	case (s.cert == "") != (s.key == ""):
		return errors.New("rotaredis: cert and key: give both or none")
	case s.password != "" && s.passwordFile != "":
		return errors.New("rotaredis: a password and a password-file: give one of them")
	case s.user != "" && s.password == "" && s.passwordFile == "":
		return errors.New("rotaredis: a user without a password: write USER:PASSWORD@HOST, or add password-file=FILE; a password alone is :PASSWORD@HOST")
	case s.sentinelUser != "" && s.sentinelPasswordFile == "":
		return errors.New("rotaredis: sentinel-user needs sentinel-password-file=FILE")
	case len(s.servers) > 1 && s.kind == single && s.synced:
		return errors.New("rotaredis: sync=always with several servers: when another one becomes the master, acknowledged writes may be lost, synced or not: leave sync out, or name one server")
	}
	return nil
}

func plain(name string) bool {
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool { return !plainRune(r) }) < 0
}

func plainRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

// String returns the address without secrets.
func (s *settings) String() string {
	for name, scheme := range schemes {
		if scheme.kind != s.kind || scheme.secure != s.secure {
			continue
		}
		address := name + "://" + strings.Join(s.servers, ",")
		switch {
		case s.master != "":
			address += "/" + s.master
		case s.db != 0:
			address += "/" + strconv.Itoa(s.db)
		}
		return address
	}
	return "redis:"
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
