package rotazk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/address"
)

// settings are the settings of a URL and of options.
type settings struct {
	address.Common
	chroot string        // the node below which everything is kept, such as /rota
	rights []right       // of new nodes; none: see docs/stores/zookeeper.md
	answer time.Duration // silence after which another server is tried
}

// parameters are the parameters of a URL's query.
var parameters = address.Shared(func(s *settings) *address.Common { return &s.Common }, address.Parameters[settings]{
	"acl": func(s *settings, v string) (err error) { s.rights, err = parseRights(v); return err },
	"answer": func(s *settings, v string) (err error) {
		s.answer, err = time.ParseDuration(v)
		if err != nil || s.answer < leastAnswer || s.answer > mostAnswer {
			return fmt.Errorf("want a duration from %v to %v", leastAnswer, mostAnswer)
		}
		return nil
	},
})

const (
	defaultPort   = "2181"
	defaultChroot = "/rota"
	longestChroot = 128
	leastAnswer   = 100 * time.Millisecond
	mostAnswer    = time.Minute
)

// parse reads scheme://user:password@host:port,host:port/chroot?parameter=value. Its
// errors do not repeat the URL, since a password may be anywhere in it.
func parse(url string) (*settings, error) {
	s := &settings{Common: address.Common{Log: address.Silent}, chroot: defaultChroot, answer: answerTime}
	url, query, _ := strings.Cut(url, "?")
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || scheme != "zk" && scheme != "zks" {
		return s, errors.New("not an address of ZooKeeper: write zk://HOST:PORT,HOST:PORT/CHROOT, or zks:// for TLS")
	}
	s.Secure = scheme == "zks"
	chroot, err := s.Authority(rest, defaultPort)
	if err != nil {
		return s, err
	}
	if err := s.root(chroot); err != nil {
		return s, err
	}
	_, err = parameters.Read(query, s)
	return s, err
}

// root parses the chroot. The root of ZooKeeper itself is none: the server keeps its own
// nodes there.
func (s *settings) root(path string) error {
	switch {
	case path == "":
		return nil
	case !address.PlainSteps(path, longestChroot):
		return fmt.Errorf("the URL's path is no chroot: write names of A-Z, a-z, 0-9, _ and - with single slashes between, at most %d bytes", longestChroot)
	case path == "zookeeper" || strings.HasPrefix(path, "zookeeper/"):
		return errors.New("the node /zookeeper belongs to the servers: write another chroot, such as /rota")
	}
	s.chroot = "/" + path
	return nil
}

// check refuses settings that cannot work, and settings without an effect.
func (s *settings) check() error {
	switch {
	case strings.Contains(s.User, ":"):
		return errors.New("the user has a colon, where ZooKeeper would end it: choose another name")
	case s.User == "" && slices.ContainsFunc(s.rights, func(r right) bool { return r.scheme == "auth" }):
		return errors.New("acl has the scheme auth, which means the user of this URL, and there is none: write zk://USER:PASSWORD@HOST, or another scheme")
	}
	if err := s.CheckUser("zk"); err != nil {
		return err
	}
	return s.Check()
}

// String returns the address without secrets.
func (s *settings) String() string {
	scheme := "zk://"
	if s.Secure {
		scheme = "zks://"
	}
	return scheme + strings.Join(s.Servers, ",") + s.chroot
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// digest returns user:password as ZooKeeper wants it; nothing without a user.
func (s *settings) digest() (address.Secret, error) {
	if s.User == "" {
		return "", nil
	}
	password, err := s.ReadPassword()
	if err != nil {
		return "", err
	}
	return address.Secret(s.User + ":" + string(password)), nil
}
