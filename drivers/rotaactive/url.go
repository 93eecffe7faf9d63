package rotaactive

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/address"
)

// settings are the settings of a URL and of options.
type settings struct {
	address.Common
	scheme   string
	queues   []string
	dead     string // the queue of dead letters
	prefetch int
	beat     time.Duration // heart-beat
	takeover string        // a group whose queues this one takes over
	markers  *markers
}

// A scheme is a kind of URL.
type scheme struct {
	dial   dialer
	secure bool
	port   string
}

var schemes = map[string]scheme{
	"stomp":     {dialSTOMP, false, "61613"},
	"stomp+ssl": {dialSTOMP, true, "61614"},
	"amqp10":    {dialAMQP, false, "5672"},
	"amqp10s":   {dialAMQP, true, "5671"},
}

// Defaults and limits.
const (
	defaultPrefetch = 100
	mostPrefetch    = 10_000
	defaultBeat     = 2 * time.Second
	shortestBeat    = 100 * time.Millisecond
	longestBeat     = time.Minute
	mostQueues      = 100_000
	longestQueue    = 200 // bytes
)

// parameters are the parameters of a URL's query.
var parameters = address.Shared(func(s *settings) *address.Common { return &s.Common }, address.Parameters[settings]{
	"queues":   func(s *settings, v string) (err error) { s.queues, err = readQueues(v); return err },
	"dead":     func(s *settings, v string) error { s.dead = v; return checkQueue(v) },
	"prefetch": func(s *settings, v string) error { return address.Number(&s.prefetch, v, 1, mostPrefetch) },
	"heartbeat": func(s *settings, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < shortestBeat || d > longestBeat {
			return fmt.Errorf("want a time from %v to %v, such as 2s, not %.40q", shortestBeat, longestBeat, v)
		}
		s.beat = d
		return nil
	},
	"takeover": func(s *settings, v string) error { return address.Name(&s.takeover, v) },
})

// parse reads scheme://user:password@host:port,host:port?parameter=value. Its errors do
// not repeat the URL, since a password may be anywhere in it.
func parse(url string) (*settings, error) {
	s := &settings{Common: address.Common{Log: address.Silent}, prefetch: defaultPrefetch, beat: defaultBeat, markers: newMarkers()}
	url, query, _ := strings.Cut(url, "?")
	name, rest, ok := strings.Cut(url, "://")
	kind, known := schemes[name]
	if !ok || !known {
		return s, errors.New("not an address of ActiveMQ: write stomp://HOST:PORT or amqp10://HOST:PORT, for TLS stomp+ssl://HOST:PORT or amqp10s://HOST:PORT")
	}
	s.scheme, s.Secure = name, kind.secure
	path, err := s.Authority(rest, kind.port)
	if err != nil {
		return s, err
	}
	if path != "" {
		return s, errors.New("the URL ends behind its hosts: leave the path out, and name queues with queues=orders.{0..63}")
	}
	_, err = parameters.Read(query, s)
	return s, err
}

// check refuses settings that cannot work.
func (s *settings) check() error {
	switch {
	case len(s.queues) == 0:
		return errors.New("the URL names no queue: add queues=orders.{0..63}, or queues=a,b,c")
	case s.Secure && !schemes[s.scheme].secure:
		return fmt.Errorf("the URL has settings of TLS, and %s:// is without: write %s://", s.scheme, securely(s.scheme))
	case slices.Contains(s.queues, s.deadQueue()):
		return fmt.Errorf("queue %s cannot be a partition and keep the dead letters: write dead=NAME", s.deadQueue())
	}
	if err := s.CheckUser(s.scheme); err != nil {
		return err
	}
	return s.Check()
}

// securely is the scheme of the same protocol over TLS.
func securely(name string) string {
	if strings.HasPrefix(name, "stomp") {
		return "stomp+ssl"
	}
	return "amqp10s"
}

// deadQueue is the queue of dead letters: DLQ. and what the names of the queues begin with.
func (s *settings) deadQueue() string {
	if s.dead != "" {
		return s.dead
	}
	stem := s.queues[0]
	for _, q := range s.queues {
		for !strings.HasPrefix(q, stem) {
			stem = stem[:len(stem)-1]
		}
	}
	if stem = strings.TrimRight(stem, ".-_/:"); stem == "" {
		stem = "rota"
	}
	return "DLQ." + stem
}

// readQueues reads a list of names and numbered patterns: orders.{0..63},audit.
func readQueues(list string) (out []string, err error) {
	seen := map[string]bool{}
	for item := range strings.SplitSeq(list, ",") {
		names, err := expand(item)
		if err != nil {
			return nil, err
		}
		if len(out)+len(names) > mostQueues {
			return nil, fmt.Errorf("more than %d queues", mostQueues)
		}
		for _, name := range names {
			if err := checkQueue(name); err != nil {
				return nil, err
			}
			if seen[name] {
				return nil, fmt.Errorf("queue %s is there twice: write each once", name)
			}
			seen[name] = true
		}
		out = append(out, names...)
	}
	return out, nil
}

// expand returns the names of one item: itself, or one for each number of {FIRST..LAST}.
func expand(item string) ([]string, error) {
	before, rest, braces := strings.Cut(item, "{")
	if !braces {
		return []string{item}, nil
	}
	inner, after, closed := strings.Cut(rest, "}")
	from, to, dots := strings.Cut(inner, "..")
	first, err1 := strconv.ParseUint(from, 10, 32)
	last, err2 := strconv.ParseUint(to, 10, 32)
	if !closed || !dots || err1 != nil || err2 != nil || last < first || last-first >= mostQueues {
		return nil, fmt.Errorf("%.80q: write numbers as {FIRST..LAST}, such as orders.{0..63}, at most %d", item, mostQueues)
	}
	var out []string
	for n := first; n <= last; n++ {
		out = append(out, before+strconv.FormatUint(n, 10)+after)
	}
	return out, nil
}

// checkQueue refuses names that ActiveMQ would not take for one queue.
func checkQueue(name string) error {
	switch {
	case name == "":
		return errors.New("want the name of a queue")
	case len(name) > longestQueue:
		return fmt.Errorf("queue %.40q…: names have at most %d bytes", name, longestQueue)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }), strings.ContainsAny(name, `*>?,{}[]()"'\%&#`):
		return fmt.Errorf("queue %.80q: use letters, digits and . _ - : / and no wildcard", name)
	case strings.HasPrefix(name, "ActiveMQ.") || strings.HasPrefix(name, notePrefix):
		return fmt.Errorf("queue %.80q: names that begin with ActiveMQ. or %s are not for messages", name, notePrefix)
	}
	return nil
}

// String returns the address without secrets.
func (s *settings) String() string {
	if s.scheme == "" {
		return "activemq:"
	}
	return s.scheme + "://" + strings.Join(s.Servers, ",")
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
