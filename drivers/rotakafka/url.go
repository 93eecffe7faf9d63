package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/address"
)

// settings are the settings of a URL and of options.
type settings struct {
	address.Common
	topics   []string       // by name
	pattern  *regexp.Regexp // of names, nil for none
	sasl     string
	takeover string // the Kafka group whose offsets count where ours has none
	plain    bool   // commits outside of transactions: the lease alone fences
	every    time.Duration
	window   int
	start    string // where a partition begins without an offset
	reset    string // where it goes on if its offset is out of range
	all      bool   // deliver messages of open and aborted transactions too
	fetch    int    // bytes of one partition in one fetch, at most
	dead     string // topic of dead letters; "" is that of each topic
	name     string // of the client, for the broker's operator
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Values of start= and reset=.
const (
	first = "first"
	last  = "last"
	halt  = "stop"
)

// The mechanisms of sasl=.
const (
	saslPlain = "plain"
	scram256  = "scram-sha-256"
	scram512  = "scram-sha-512"
)

// parameters are the parameters of a URL's query.
var parameters = address.Shared(func(s *settings) *address.Common { return &s.Common }, address.Parameters[settings]{
	"topic":    func(s *settings, v string) error { return s.addTopics(v) },
	"pattern":  func(s *settings, v string) error { return s.setPattern(v) },
	"sasl":     func(s *settings, v string) error { return oneOf(&s.sasl, v, saslPlain, scram256, scram512) },
	"takeover": func(s *settings, v string) error { return address.Name(&s.takeover, v) },
	"fence":    func(s *settings, v string) error { return choose(&s.plain, v, "transaction", "none") },
	"every":    func(s *settings, v string) error { return duration(&s.every, v, 10*time.Millisecond, time.Minute) },
	"window":   func(s *settings, v string) error { return address.Number(&s.window, v, 1, 1_000_000) },
	"start":    func(s *settings, v string) error { return oneOf(&s.start, v, first, last) },
	"reset":    func(s *settings, v string) error { return oneOf(&s.reset, v, first, last, halt) },
	"read":     func(s *settings, v string) error { return choose(&s.all, v, "committed", "all") },
	"fetch":    func(s *settings, v string) error { return address.Number(&s.fetch, v, leastFetch, 64<<20) },
	"dead":     func(s *settings, v string) error { return topicName(&s.dead, v) },
	"name":     func(s *settings, v string) error { return address.Name(&s.name, v) },
})

const leastFetch = 16 << 10

// parse reads kafka://user:password@host:port,host:port?parameter=value. Its errors do not
// repeat the URL, since a password may be anywhere in it.
func parse(url string) (*settings, error) {
	s := &settings{Common: address.Common{Log: address.Silent}, every: time.Second, window: 10_000, start: first, reset: first, fetch: 1 << 20, name: "rota"}
	url, query, _ := strings.Cut(url, "?")
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || scheme != "kafka" && scheme != "kafka+ssl" {
		return s, errors.New("not an address of Kafka: write kafka://HOST:PORT?topic=NAME, or kafka+ssl://HOST:PORT?topic=NAME for TLS")
	}
	s.Secure = scheme == "kafka+ssl"
	path, err := s.Authority(rest, "9092")
	if err != nil {
		return s, err
	}
	if path != "" {
		return s, errors.New("the URL has a path behind its hosts: leave it out, and write topic=NAME")
	}
	_, err = parameters.Read(query, s)
	return s, err
}

// addTopics reads names with commas between them.
func (s *settings) addTopics(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		var topic string
		if err := topicName(&topic, name); err != nil {
			return err
		}
		if slices.Contains(s.topics, topic) {
			return fmt.Errorf("%s is there twice: write each once", topic)
		}
		s.topics = append(s.topics, topic)
	}
	return nil
}

func (s *settings) setPattern(v string) error {
	p, err := regexp.Compile(`\A(?:` + v + `)\z`)
	if err != nil || v == "" {
		return fmt.Errorf(`want a regular expression that matches whole names of topics, such as orders\..*, not %.80q`, v)
	}
	s.pattern = p
	return nil
}

// topicName is a parameter that is the name of a topic.
func topicName(to *string, v string) error {
	bad := func(r rune) bool { return !address.PlainRune(r) && r != '.' }
	if v == "" || len(v) > 249 || v == "." || v == ".." || strings.ContainsFunc(v, bad) {
		return fmt.Errorf("%.80q cannot be the name of a topic: names have letters, digits, ., _ and -, at most 249 of them", v)
	}
	*to = v
	return nil
}

func oneOf(to *string, v string, values ...string) error {
	if !slices.Contains(values, v) {
		return fmt.Errorf("want %s, not %.40q", strings.Join(values, " or "), v)
	}
	*to = v
	return nil
}

// choose is a parameter with two values, of which the second sets to.
func choose(to *bool, v, usual, other string) error {
	var chosen string
	err := oneOf(&chosen, v, usual, other)
	*to = chosen == other
	return err
}

func duration(to *time.Duration, v string, least, most time.Duration) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < least || d > most {
		return fmt.Errorf("want a time from %v to %v, such as 500ms, not %.40q", least, most, v)
	}
	*to = d
	return nil
}

// check refuses settings that cannot work, or have no effect.
func (s *settings) check() error {
	switch {
	case len(s.topics) == 0 && s.pattern == nil:
		return errors.New("a source needs topics: topic=NAME, topic=NAME,NAME or pattern=REGULAR-EXPRESSION")
	case !address.Plain(s.name):
		return fmt.Errorf("name %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.name)
	case s.User != "" && s.sasl == "":
		return fmt.Errorf("a user needs a mechanism to sign in with: add sasl=%s, sasl=%s or sasl=%s, whichever the broker has", scram512, scram256, saslPlain)
	case s.sasl != "" && s.User == "":
		return fmt.Errorf("sasl=%s needs a user: write kafka://USER:PASSWORD@HOST, or kafka://USER@HOST?password-file=FILE", s.sasl)
	case slices.Contains(s.topics, s.dead):
		return fmt.Errorf("topic %s is in topic= and in dead=: its dead letters would be consumed again", s.dead)
	}
	if err := s.Check(); err != nil {
		return err
	}
	return s.CheckUser("kafka")
}

// deadTopic is the topic of the dead letters of a topic.
func (s *settings) deadTopic(topic string) string {
	if s.dead != "" {
		return s.dead
	}
	return topic + deadSuffix
}

const deadSuffix = ".dead"

// lists tells whether a topic is one of ours.
func (s *settings) lists(topic string) bool {
	if slices.Contains(s.topics, topic) {
		return true
	}
	own := topic == s.dead || strings.HasSuffix(topic, deadSuffix)
	return s.pattern != nil && !own && s.pattern.MatchString(topic)
}

// String returns the address without secrets.
func (s *settings) String() string {
	scheme := "kafka"
	if s.Secure {
		scheme = "kafka+ssl"
	}
	return scheme + "://" + strings.Join(s.Servers, ",")
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
