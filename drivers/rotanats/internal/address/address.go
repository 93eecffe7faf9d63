package rotanats

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

	"github.com/nats-io/nats.go"
)

// settings is all that a URL and options can say.
type settings struct {
	servers []string // host:port, without a scheme
	folder  string   // instead of servers: whoever serves this folder
	guest   bool     // who is never us
	shared  bool     // others may write to the folder
	open    bool     // Serve asks for nothing
	secure  bool     // tls://
	name    string   // of the connection, for the server's operator
	api     string   // where JetStream is asked; "" for $JS.API
	inbox   string   // where answers are sent to; "" for _INBOX
	log     *slog.Logger

	user     string
	password secret
	token    secret
	// Files that hold the password or the token, read anew by every connection.
	passwordFile string
	tokenFile    string
	creds        string // file
	nkey         string // file
	ca           string // file
	cert         string // file
	key          string // file
	tls          *tls.Config

	bucket   string
	replicas int // 0: three in a cluster, one elsewhere
	synced   bool
	asItIs   bool // the bucket is neither made nor changed

	stream     string
	subject    string
	partitions int
	most       int
	durable    string
	dead       string
	prefetch   int
	create     bool
}

// An Option says more than a URL, or what does not belong into one.
type Option func(*settings)

// UserPassword signs in with both.
func UserPassword(user, password string) Option {
	return func(s *settings) { s.user, s.password = user, secret(password) }
}

// Token signs in with a token.
func Token(token string) Option { return func(s *settings) { s.token = secret(token) } }

// Credentials signs in with a credentials file, as nsc writes it.
func Credentials(file string) Option { return func(s *settings) { s.creds = file } }

// NKey signs in with a key that never leaves this host: file holds its seed, as rota.nkey
// in the folder of an embedded server does.
func NKey(file string) Option { return func(s *settings) { s.nkey = file } }

// RootCA trusts servers whose certificate this PEM file vouches for, and no
// others.
func RootCA(file string) Option { return func(s *settings) { s.secure, s.ca = true, file } }

// Certificate shows this certificate to the other side: a client's to its
// server (mTLS), the server's to its clients in Serve.
func Certificate(cert, key string) Option {
	return func(s *settings) { s.secure, s.cert, s.key = true, cert, key }
}

// TLS sets everything about TLS at once, instead of RootCA and Certificate.
func TLS(c *tls.Config) Option { return func(s *settings) { s.secure, s.tls = true, c } }

// Name is what the server's operator sees of the connection.
func Name(name string) Option { return func(s *settings) { s.name = name } }

// APIPrefix begins the subjects by which JetStream is asked. Default: $JS.API. An
// account that imports the API of another has it under a prefix of its own; that of
// a domain is $JS.DOMAIN.API.
func APIPrefix(prefix string) Option { return func(s *settings) { s.api = prefix } }

// InboxPrefix begins the subjects that answers are sent to. Default: _INBOX, where
// everybody who may subscribe to _INBOX.> can read the answers to everybody else.
func InboxPrefix(prefix string) Option { return func(s *settings) { s.inbox = prefix } }

// Log receives what the embedded server and the connection have to say.
func Log(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// Bucket is the KV bucket that holds the records. Default: rota. It is made if
// it does not exist.
func Bucket(name string) Option { return func(s *settings) { s.bucket = name } }

// AsItIs makes a Store use the bucket as it is: it is neither made nor changed, and
// while there is none every call answers with an error that wraps rota.ErrNotFound.
// It is for whoever reads, and for operators: they need no rights for more.
func AsItIs() Option { return func(s *settings) { s.asItIs = true } }

// Replicas is how many servers keep each record, if the bucket is yet to be
// made. Default: three in a cluster, one elsewhere.
func Replicas(n int) Option { return func(s *settings) { s.replicas = n } }

// SyncAlways vouches for servers that run with sync_interval: always, which no
// client can see. It makes the store one of class A if it has three replicas or
// more, of class B otherwise. Do not say so of servers where it is not true.
func SyncAlways() Option { return func(s *settings) { s.synced = true } }

// Stream is the stream that a Source consumes.
func Stream(name string) Option { return func(s *settings) { s.stream = name } }

// Subject is the pattern of a Source's partitions, one token of it a star:
// orders.* has the partitions orders.0, orders.1 and so on.
func Subject(pattern string) Option { return func(s *settings) { s.subject = pattern } }

// Partitions is how many a Source has, numbered from 0. Without it, the
// partitions are the subjects there are messages for.
func Partitions(n int) Option { return func(s *settings) { s.partitions = n } }

// Durable begins the names of the JetStream consumers that a Source makes.
// Groups that each want all messages need one each. Default: rota.
func Durable(name string) Option { return func(s *settings) { s.durable = name } }

// DeadLetter is the subject that messages go to which failed too often, with
// the partition appended. Default: dead.STREAM. Some stream has to store it: if
// none does, the Source makes one of its own.
func DeadLetter(subject string) Option { return func(s *settings) { s.dead = subject } }

// Prefetch is how many messages of a partition are fetched ahead at most; fewer
// where handling that many takes more than a moment. Default: 256.
func Prefetch(n int) Option { return func(s *settings) { s.prefetch = n } }

// Create makes a Source make its stream if it does not exist.
func Create() Option { return func(s *settings) { s.create = true } }

// secret prints as nothing.
type secret string

const redacted = "xxxxx"

func (s secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format covers every verb, %x and %#v too.
func (s secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// parameters are those of a URL's query.
var parameters = map[string]func(*settings, string) error{
	"bucket":        func(s *settings, v string) error { s.bucket = v; return nil },
	"replicas":      func(s *settings, v string) error { return number(&s.replicas, v, 1, 5) },
	"sync":          func(s *settings, v string) error { s.synced = true; return oneOf(v, "always") },
	"name":          func(s *settings, v string) error { s.name = v; return nil },
	"api":           func(s *settings, v string) error { s.api = v; return nil },
	"inbox":         func(s *settings, v string) error { s.inbox = v; return nil },
	"token":         func(s *settings, v string) error { s.token = secret(v); return nil },
	"password-file": func(s *settings, v string) error { s.passwordFile = v; return nil },
	"token-file":    func(s *settings, v string) error { s.tokenFile = v; return nil },
	"creds":         func(s *settings, v string) error { s.creds = v; return nil },
	"nkey":          func(s *settings, v string) error { s.nkey = v; return nil },
	"ca":            func(s *settings, v string) error { s.secure, s.ca = true, v; return nil },
	"cert":          func(s *settings, v string) error { s.secure, s.cert = true, v; return nil },
	"key":           func(s *settings, v string) error { s.secure, s.key = true, v; return nil },
	"shared":        func(s *settings, v string) error { s.shared = true; return oneOf(v, "true") },
	"stream":        func(s *settings, v string) error { s.stream = v; return nil },
	"subject":       func(s *settings, v string) error { s.subject = v; return nil },
	"partitions":    func(s *settings, v string) error { return number(&s.partitions, v, 1, maxPartitions) },
	"most":          func(s *settings, v string) error { return number(&s.most, v, 1, maxDiscovered) },
	"durable":       func(s *settings, v string) error { s.durable = v; return nil },
	"dead":          func(s *settings, v string) error { s.dead = v; return nil },
	"prefetch":      func(s *settings, v string) error { return number(&s.prefetch, v, 1, maxPrefetch) },
	"create":        func(s *settings, v string) error { s.create = true; return oneOf(v, "true") },
}

const (
	maxPartitions = 100_000
	maxPrefetch   = 10_000
	defaultPort   = "4222"
)

func number(to *int, v string, least, most int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return fmt.Errorf("want a number from %d to %d", least, most)
	}
	*to = n
	return nil
}

func oneOf(v, want string) error {
	if v != want {
		return fmt.Errorf("want %q", want)
	}
	return nil
}

// read makes settings of a URL and options. No error of it repeats the URL: there
// may be a password in it, also where it should not be.
func read(address string, opts []Option) (*settings, error) {
	s := &settings{bucket: "rota", durable: "rota", prefetch: 256, log: slog.New(slog.DiscardHandler)}
	if err := s.parse(address); err != nil {
		return s, err
	}
	if s.passwordFile != "" && s.user == "" { // nats://USER@HOST?password-file=FILE
		s.user, s.token = string(s.token), ""
	}
	for _, o := range opts {
		o(s)
	}
	return s, s.check()
}

// parse reads scheme://user:password@host:port,host:port?parameter=value, also
// with a scheme before each host, embed:folder or folder:folder.
func (s *settings) parse(address string) error {
	address, query, _ := strings.Cut(address, "?")
	scheme, rest, ok := strings.Cut(address, ":")
	switch {
	case ok && (scheme == "embed" || scheme == "folder"):
		s.folder, s.guest = rest, scheme == "folder"
		if rest == "" {
			return fmt.Errorf("rotanats: the URL %s: names no folder: write %[1]s:DIR", scheme)
		}
	case ok && (scheme == "nats" || scheme == "tls") && strings.HasPrefix(rest, "//"):
		s.secure = scheme == "tls"
		if err := s.hosts(rest[2:]); err != nil {
			return err
		}
	default:
		return errors.New("rotanats: not an address of NATS: write nats://HOST:PORT, tls://HOST:PORT or embed:DIR")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("rotanats: the URL's parameters after ? cannot be read: write name=value&name=value, with % and + escaped")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set := parameters[name]
		if set == nil {
			if !plain(name) { // it may be the end of a password with a question mark in it
				name = "?"
			}
			return fmt.Errorf("rotanats: the URL has a parameter %s; known are %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		v := values[name][len(values[name])-1]
		if err := set(s, v); err != nil {
			return fmt.Errorf("rotanats: the URL's parameter %s=%.40s: %w", name, v, err)
		}
	}
	return nil
}

func (s *settings) hosts(list string) error {
	for i, host := range strings.Split(list, ",") {
		if i > 0 {
			for _, scheme := range []string{"nats://", "tls://"} {
				host = strings.TrimPrefix(host, scheme)
			}
		}
		host = strings.TrimSuffix(host, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			if err := s.signIn(host[:at]); err != nil {
				return err
			}
			host = host[at+1:]
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil { // without a port
			name, port = strings.Trim(host, "[]"), defaultPort
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || name == "" || strings.ContainsAny(name, " /?#\\@%\"<>[]\x00\t\r\n") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return fmt.Errorf("rotanats: server %d of the URL is not a HOST:PORT", i+1)
		}
		s.servers = append(s.servers, net.JoinHostPort(name, strconv.FormatUint(n, 10)))
	}
	return nil
}

// signIn reads user:password, or a token alone, as NATS URLs have it.
func (s *settings) signIn(info string) error {
	user, password, both := strings.Cut(info, ":")
	u, err := url.PathUnescape(user)
	p, err2 := url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("rotanats: user or password in the URL are not escaped well: a % stands before two hexadecimal digits")
	}
	if both {
		s.user, s.password = u, secret(p)
	} else {
		s.token = secret(u)
	}
	return nil
}

// check refuses what cannot work.
func (s *settings) check() error {
	switch {
	case !plain(s.bucket):
		return fmt.Errorf("rotanats: bucket %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.bucket)
	case !plain(s.durable):
		return fmt.Errorf("rotanats: durable %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.durable)
	case s.inbox != "" && (!goodSubject(s.inbox) || strings.ContainsAny(s.inbox, "*>")):
		return fmt.Errorf("rotanats: inbox %.80q: write a subject without wildcards, such as _INBOX.orders", s.inbox)
	case s.api != "" && (!goodSubject(s.api) || strings.ContainsAny(s.api, "*>")):
		return fmt.Errorf("rotanats: api %.80q: write a subject without wildcards, such as $JS.HUB.API", s.api)
	case s.replicas < 0 || s.replicas > 5:
		return fmt.Errorf("rotanats: replicas %d: NATS keeps from 1 to 5", s.replicas)
	case (s.cert == "") != (s.key == ""):
		return errors.New("rotanats: cert and key: give both or none")
	case s.user != "" && s.token != "":
		return errors.New("rotanats: a user and a token: give one of them")
	case s.nkey != "" && (s.user != "" || s.token != "" || s.creds != "" || s.passwordFile != "" || s.tokenFile != ""):
		return errors.New("rotanats: nkey and another way to sign in: give one of them")
	}
	return s.checkFiles()
}

// checkFiles refuses files with secrets where there is another secret, or where
// nobody asks for one.
func (s *settings) checkFiles() error {
	switch {
	case s.passwordFile == "" && s.tokenFile == "":
		return nil
	case s.folder != "":
		return errors.New("rotanats: a folder's server asks for no password on this host: leave password-file and token-file out")
	case s.passwordFile != "" && s.tokenFile != "":
		return errors.New("rotanats: password-file and token-file: give one of them")
	case s.passwordFile != "" && s.user == "":
		return errors.New("rotanats: password-file needs a user: nats://USER@HOST?password-file=FILE")
	case s.passwordFile != "" && s.password != "":
		return errors.New("rotanats: a password and a password-file: give one of them")
	case s.tokenFile != "" && (s.token != "" || s.user != ""):
		return errors.New("rotanats: token-file and another way to sign in: give one of them")
	}
	return nil
}

func plain(name string) bool {
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// String is the address without what is secret.
func (s *settings) String() string {
	switch {
	case s.guest:
		return "folder:" + s.folder
	case s.folder != "":
		return "embed:" + s.folder
	}
	scheme := "nats://"
	if s.secure {
		scheme = "tls://"
	}
	return scheme + strings.Join(s.servers, ",")
}

// Format keeps %+v and %#v from printing what they find.
func (s *settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// dialing turns the settings into what the client wants to know.
func (s *settings) dialing(failing func(error)) ([]nats.Option, error) {
	if s.folder != "" { // who can open its socket needs nothing else
		return []nats.Option{nats.SetCustomDialer(s.place()), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers()}, nil
	}
	var opts []nats.Option
	switch {
	case s.passwordFile != "":
		if _, err := readSecret(s.passwordFile); err != nil {
			return nil, fmt.Errorf("the password file: %w", err)
		}
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			p, _ := readSecret(s.passwordFile) // a file that is gone meanwhile lets nobody in
			return s.user, string(p)
		}))
	case s.tokenFile != "":
		if _, err := readSecret(s.tokenFile); err != nil {
			return nil, fmt.Errorf("the token file: %w", err)
		}
		opts = append(opts, nats.TokenHandler(func() string {
			t, _ := readSecret(s.tokenFile)
			return string(t)
		}))
	case s.user != "" || s.password != "":
		opts = append(opts, nats.UserInfo(s.user, string(s.password)))
	}
	if s.token != "" {
		opts = append(opts, nats.Token(string(s.token)))
	}
	if s.inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(s.inbox))
	}
	if s.creds != "" {
		if _, err := os.Stat(s.creds); err != nil {
			return nil, fmt.Errorf("the credentials file: %w", err)
		}
		opts = append(opts, nats.UserCredentials(s.creds))
	}
	if s.nkey != "" {
		key, err := nats.NkeyOptionFromSeed(s.nkey)
		if err != nil {
			return nil, fmt.Errorf("the key file: %w", err)
		}
		opts = append(opts, key)
	}
	if s.secure {
		secure, err := s.dialingTLS(failing)
		if err != nil {
			return nil, err
		}
		opts = append(opts, secure...)
	}
	return opts, nil
}

// readSecret reads a file that holds a password or a token and nothing else.
func readSecret(file string) (secret, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return secret(text), nil
}

// urls are those of the servers, for the client. That of a folder's is never looked at.
func (s *settings) urls() (list []string) {
	if s.folder != "" {
		return []string{"nats://" + socketFile}
	}
	for _, host := range s.servers {
		list = append(list, "nats://"+host)
	}
	return list
}

// Connect connects to servers by the same URLs and options as Store and Source
// do, for whatever else there is to do: to publish, say. Of embed:DIR it is the
// server that somebody runs: Connect starts none. No error of it tells a secret.
func Connect(address string, more []nats.Option, opts ...Option) (*nats.Conn, error) {
	s, err := read(address, opts)
	if err != nil {
		return nil, err
	}
	dialing, err := s.dialing(func(error) {})
	if err != nil {
		return nil, fmt.Errorf("rotanats: connect to %v: %w", s, err)
	}
	return nats.Connect(strings.Join(s.urls(), ","), append(dialing, more...)...)
}
