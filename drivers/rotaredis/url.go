package rotaredis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-dev/rota/internal/address"
)

// settings are the settings of a URL and of options. Servers are servers, Sentinels or
// nodes of a Cluster.
type settings struct {
	address.Common
	kind   kind
	master string // the name that Sentinels know the master by
	db     int
	prefix string // of every key and channel
	synced bool   // the URL vouches for appendfsync always
	name   string // of the connection, for the server's operator
	given  []string

	sentinelUser         string
	sentinelPasswordFile string
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

// parameters are the parameters of a URL's query.
var parameters = address.Shared(func(s *settings) *address.Common { return &s.Common }, address.Parameters[settings]{
	"prefix":                 func(s *settings, v string) error { s.prefix = v; return nil },
	"sync":                   func(s *settings, v string) error { return address.Only(&s.synced, v, "always") },
	"db":                     func(s *settings, v string) error { return address.Number(&s.db, v, 0, lastDatabase) },
	"name":                   func(s *settings, v string) error { s.name = v; return nil },
	"sentinel-user":          func(s *settings, v string) error { return address.Name(&s.sentinelUser, v) },
	"sentinel-password-file": func(s *settings, v string) error { return address.File(&s.sentinelPasswordFile, v) },
})

const lastDatabase = 1<<20 - 1

// useless are the parameters that have no effect on a kind of servers: a setting without
// an effect is a mistake that nobody finds.
var useless = map[kind]map[string]string{
	single:   {"sentinel-user": "it is for redis+sentinel://", "sentinel-password-file": "it is for redis+sentinel://"},
	sentinel: {"sync": "a failover may lose acknowledged writes, synced or not"},
	cluster: {"sync": "a failover may lose acknowledged writes, synced or not", "db": "a Cluster has one database only",
		"sentinel-user": "it is for redis+sentinel://", "sentinel-password-file": "it is for redis+sentinel://"},
}

// parse reads scheme://user:password@host:port,host:port/path?parameter=value. Its errors
// do not repeat the URL, since a password may be anywhere in it.
func parse(url string) (*settings, error) {
	s := &settings{Common: address.Common{Log: address.Silent}, prefix: "rota"}
	url, query, _ := strings.Cut(url, "?")
	name, rest, ok := strings.Cut(url, "://")
	scheme, known := schemes[name]
	if !ok || !known {
		return s, errors.New("not an address of Redis: write redis://HOST:PORT, rediss://HOST:PORT for TLS, redis+sentinel://HOST,HOST/NAME or redis+cluster://HOST,HOST")
	}
	s.kind, s.Secure = scheme.kind, scheme.secure
	path, err := s.Authority(rest, scheme.port)
	if err != nil {
		return s, err
	}
	if err := s.path(path); err != nil {
		return s, err
	}
	s.given, err = parameters.Read(query, s)
	return s, err
}

// path reads what is behind the hosts: the number of a database, or the name of a master.
func (s *settings) path(path string) error {
	switch {
	case s.kind == sentinel:
		if !validMaster(path) {
			return errors.New("the URL does not name the master as the Sentinels know it: write redis+sentinel://HOST,HOST/NAME, with letters, digits, ., _ and -")
		}
		s.master = path
	case path == "":
	case s.kind == cluster:
		return errors.New("the URL of a Cluster ends behind its hosts: leave the path out")
	case address.Number(&s.db, path, 0, lastDatabase) != nil:
		return errors.New("the path of the URL is the number of a database, such as redis://HOST/0: leave it out, or write a number")
	}
	return nil
}

// validMaster accepts the names that a Sentinel does.
func validMaster(name string) bool {
	return name != "" && len(name) <= 128 && strings.IndexFunc(name, func(r rune) bool { return !address.PlainRune(r) && r != '.' }) < 0
}

// check refuses settings that cannot work, or have no effect.
func (s *settings) check() error {
	for _, name := range s.given {
		if why := useless[s.kind][name]; why != "" {
			return fmt.Errorf("the URL's parameter %s: %s: leave it out", name, why)
		}
	}
	switch {
	case !address.Plain(s.prefix):
		return fmt.Errorf("prefix %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.prefix)
	case s.name != "" && !address.Plain(s.name):
		return fmt.Errorf("name %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.name)
	case s.User != "" && s.Password == "" && s.PasswordFile == "":
		return errors.New("a user without a password: write USER:PASSWORD@HOST, or add password-file=FILE; a password alone is :PASSWORD@HOST")
	case s.sentinelUser != "" && s.sentinelPasswordFile == "":
		return errors.New("sentinel-user needs sentinel-password-file=FILE")
	case len(s.Servers) > 1 && s.kind == single && s.synced:
		return errors.New("sync=always with several servers: when another one becomes the master, acknowledged writes may be lost, synced or not: leave sync out, or name one server")
	}
	return s.Check()
}

// String returns the address without secrets.
func (s *settings) String() string {
	for name, scheme := range schemes {
		if scheme.kind != s.kind || scheme.secure != s.Secure {
			continue
		}
		address := name + "://" + strings.Join(s.Servers, ",")
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
