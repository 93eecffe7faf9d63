package rotarabbit

import (
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/address"
)

// settings are the settings of a URL and of options.
type settings struct {
	address.Common
	vhost      string
	queues     queues
	declare    string // the type of queues that are declared; "" if they are not
	limit      int    // x-delivery-limit of quorum queues that are declared; 0 for none
	unfenced   bool   // queues without a fence are consumed
	prefetch   int
	heartbeat  time.Duration
	management []string      // base URLs of the management API
	listEvery  time.Duration // an answer of it is good for as long as this
	dead       string        // queue of the dead letters
	takeover   string        // group
	name       string        // of the connection, for the broker's operator
	given      []string
}

// The types of queues.
const (
	classic = "classic"
	quorum  = "quorum"
)

const (
	defaultPrefetch  = 256
	mostPrefetch     = 65535
	defaultHeartbeat = 2 * time.Second
	defaultDead      = "rota.dead"
	defaultListEvery = time.Minute
)

// parameters are the parameters of a URL's query.
var parameters = address.Shared(func(s *settings) *address.Common { return &s.Common }, address.Parameters[settings]{
	"queues":         func(s *settings, v string) (err error) { s.queues, err = readQueues(v); return err },
	"declare":        func(s *settings, v string) error { return oneOf(&s.declare, v, classic, quorum) },
	"delivery-limit": func(s *settings, v string) error { return address.Number(&s.limit, v, 1, 1<<30) },
	"unfenced":       func(s *settings, v string) error { return address.Only(&s.unfenced, v, "true") },
	"prefetch":       func(s *settings, v string) error { return address.Number(&s.prefetch, v, 1, mostPrefetch) },
	"heartbeat":      readHeartbeat,
	"management":     readManagement,
	"list-every":     readListEvery,
	"dead":           func(s *settings, v string) error { return readQueueName(&s.dead, v) },
	"takeover":       func(s *settings, v string) error { return address.Name(&s.takeover, v) },
	"name":           func(s *settings, v string) error { return address.Name(&s.name, v) },
})

func oneOf(to *string, v string, words ...string) error {
	for _, w := range words {
		if v == w {
			*to = v
			return nil
		}
	}
	return fmt.Errorf("want %s, not %.40q", strings.Join(words, " or "), v)
}

func readHeartbeat(s *settings, v string) error {
	n := 0
	err := address.Number(&n, v, 1, 60)
	s.heartbeat = time.Duration(n) * time.Second
	return err
}

func readListEvery(s *settings, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < leastListEvery || d > mostListEvery {
		return fmt.Errorf("want a time from %v to %v, such as 1m, not %.40q", leastListEvery, mostListEvery, v)
	}
	s.listEvery = d
	return nil
}

const (
	leastListEvery = 100 * time.Millisecond
	mostListEvery  = time.Hour
)

func readQueueName(to *string, v string) error {
	if !validQueue(v) {
		return fmt.Errorf("%.40q is not the name of a queue: write 1 to 200 bytes of UTF-8 without control characters", v)
	}
	*to = v
	return nil
}

// readManagement reads the address of the management API. It has no user and password: those
// of the broker are used. The error does not repeat it.
func readManagement(s *settings, v string) error {
	u, err := neturl.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("want http://HOST:PORT or https://HOST:PORT, without a user: the user of the broker is used")
	}
	s.management = append(s.management, strings.TrimSuffix(u.String(), "/"))
	return nil
}

// parse reads amqp://user:password@host:port,host:port/vhost?parameter=value. Its errors do
// not repeat the URL, since a password may be anywhere in it.
func parse(url string) (*settings, error) {
	s := &settings{Common: address.Common{Log: address.Silent}, vhost: "/", prefetch: defaultPrefetch, heartbeat: defaultHeartbeat, dead: defaultDead, listEvery: defaultListEvery}
	url, query, _ := strings.Cut(url, "?")
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || scheme != "amqp" && scheme != "amqps" {
		return s, errors.New("not an address of RabbitMQ: write amqp://HOST:PORT/VHOST?queues=orders.{0..63}, or amqps:// for TLS")
	}
	s.Secure = scheme == "amqps"
	port := "5672"
	if s.Secure {
		port = "5671"
	}
	path, err := s.Authority(rest, port)
	if err != nil {
		return s, err
	}
	if err := s.path(path); err != nil {
		return s, err
	}
	s.given, err = parameters.Read(query, s)
	return s, err
}

// path reads the name of a virtual host.
func (s *settings) path(path string) error {
	if path == "" {
		return nil
	}
	vhost, err := neturl.PathUnescape(path)
	if err != nil || len(vhost) > 255 || strings.ContainsFunc(vhost, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Contains(path, "/") {
		return errors.New("the path of the URL is not the name of a virtual host: write / as %2F, and leave it out for the virtual host /")
	}
	s.vhost = vhost
	return nil
}

// check refuses settings that cannot work, or have no effect.
func (s *settings) check() error {
	switch {
	case s.queues.empty():
		return errors.New("a source needs queues: queues=a,b, queues=orders.{0..63} or queues=orders.*")
	case s.declare != "" && len(s.queues.patterns) > 0:
		return errors.New("queues with a star and declare: what matches the star is found, and cannot be declared; write a range such as orders.{0..63}")
	case s.declare != "" && s.unfenced:
		return errors.New("declare and unfenced: queues that are declared have a fence: give one of them")
	case s.limit > 0 && s.declare != quorum:
		return errors.New("the URL's parameter delivery-limit: it is for declare=quorum: leave it out")
	case len(s.management) > 0 && s.declare != "":
		return errors.New("the URL's parameter management: with declare it is not asked: leave it out")
	case slices.Contains(s.given, "list-every") && s.declare != "":
		return errors.New("the URL's parameter list-every: with declare the management API is not asked: leave it out")
	}
	if err := s.Check(); err != nil {
		return err
	}
	return s.CheckUser("amqp")
}

// apis are the addresses of the management API: that of the URL, or the usual one of each
// server.
func (s *settings) apis() (all []string) {
	if len(s.management) > 0 {
		return s.management
	}
	for _, server := range s.Servers {
		host, _, _ := net.SplitHostPort(server)
		if s.Secure {
			all = append(all, "https://"+net.JoinHostPort(host, "15671"))
		} else {
			all = append(all, "http://"+net.JoinHostPort(host, "15672"))
		}
	}
	return all
}

// String returns the address without secrets.
func (s *settings) String() string {
	scheme := "amqp://"
	if s.Secure {
		scheme = "amqps://"
	}
	address := scheme + strings.Join(s.Servers, ",")
	if s.vhost != "/" {
		address += "/" + neturl.PathEscape(s.vhost)
	}
	return address
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
