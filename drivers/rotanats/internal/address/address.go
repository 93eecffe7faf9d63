// Package address parses the URLs of rotanats, which are its one configuration language,
// into settings of clients and servers.
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

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
)

// Settings are the settings of a URL and of options.
type Settings struct {
	Servers    []string // host:port, without a scheme
	Folder     string   // instead of Servers: the server of this folder
	ClientOnly bool     // folder: never run the server in this process
	Shared     bool     // others may write to the folder
	Open       bool     // of a URL to listen on: clients need no secret
	Secure     bool     // tls://
	Given      []string // names of the URL's parameters
	Name       string   // of the connection, for the server's operator
	API        string   // prefix of JetStream's API; "" for $JS.API
	Inbox      string   // prefix of the subjects for answers; "" for _INBOX
	Log        *slog.Logger

	// Host runs the server of the folder in this process; nil if no server is linked.
	Host func(*Settings) (Host, error)

	User     string
	Password Secret
	Token    Secret
	// Files that hold the password or the token. A client reads them for every
	// connection, a server once.
	PasswordFile string
	TokenFile    string
	Creds        string // file
	NKey         string // file
	CA           string // file
	Cert         string // file
	Key          string // file
	TLS          *tls.Config

	Bucket   string
	Replicas int // 0: three in a cluster, one elsewhere
	Synced   bool
	AsItIs   bool // the bucket is neither created nor changed

	Stream     string
	Subject    string
	Partitions int
	Most       int
	Durable    string // "" for the name of the group
	Takeover   string // the group whose consumers may be taken over
	Dead       string
	Prefetch   int
	Create     bool
}

// A Host is a server that this process runs for a folder.
type Host interface {
	Done() <-chan struct{} // closed when the server has stopped
	Err() error            // why it stopped by itself
	Fresh() bool           // the folder was empty when it started
	Close() error
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
	"bucket":        func(s *Settings, v string) error { s.Bucket = v; return nil },
	"replicas":      func(s *Settings, v string) error { return number(&s.Replicas, v, 1, 5) },
	"sync":          func(s *Settings, v string) error { s.Synced = true; return oneOf(v, "always") },
	"name":          func(s *Settings, v string) error { s.Name = v; return nil },
	"api":           func(s *Settings, v string) error { s.API = v; return nil },
	"inbox":         func(s *Settings, v string) error { s.Inbox = v; return nil },
	"token":         func(s *Settings, v string) error { s.Token = Secret(v); return nil },
	"password-file": func(s *Settings, v string) error { s.PasswordFile = v; return nil },
	"token-file":    func(s *Settings, v string) error { s.TokenFile = v; return nil },
	"creds":         func(s *Settings, v string) error { s.Creds = v; return nil },
	"nkey":          func(s *Settings, v string) error { s.NKey = v; return nil },
	"ca":            func(s *Settings, v string) error { s.Secure, s.CA = true, v; return nil },
	"cert":          func(s *Settings, v string) error { s.Secure, s.Cert = true, v; return nil },
	"key":           func(s *Settings, v string) error { s.Secure, s.Key = true, v; return nil },
	"open":          func(s *Settings, v string) error { s.Open = true; return oneOf(v, "true") },
	"shared":        func(s *Settings, v string) error { s.Shared = true; return oneOf(v, "true") },
	"stream":        func(s *Settings, v string) error { s.Stream = v; return nil },
	"subject":       func(s *Settings, v string) error { s.Subject = v; return nil },
	"partitions":    func(s *Settings, v string) error { return number(&s.Partitions, v, 1, maxPartitions) },
	"most":          func(s *Settings, v string) error { return number(&s.Most, v, 1, maxDiscovered) },
	"durable":       func(s *Settings, v string) error { s.Durable = v; return given(v) },
	"takeover":      func(s *Settings, v string) error { s.Takeover = v; return given(v) },
	"dead":          func(s *Settings, v string) error { s.Dead = v; return nil },
	"prefetch":      func(s *Settings, v string) error { return number(&s.Prefetch, v, 1, maxPrefetch) },
	"create":        func(s *Settings, v string) error { s.Create = true; return oneOf(v, "true") },
}

const (
	maxPartitions = 100_000
	maxPrefetch   = 10_000
	maxDiscovered = 32_768 // the limit of a group
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

func given(v string) error {
	if v == "" {
		return errors.New("want a name, or leave the parameter out")
	}
	return nil
}

func oneOf(v, want string) error {
	if v != want {
		return fmt.Errorf("want %q", want)
	}
	return nil
}

// silent is the logger of settings that were given none.
var silent = slog.New(slog.DiscardHandler)

// Logged tells whether an option has set the logger.
func (s *Settings) Logged() bool { return s.Log != silent }

// Read parses a URL. Its errors do not repeat the URL, since a password may be anywhere
// in it, even where it does not belong.
func Read(address string) (*Settings, error) {
	s := &Settings{Bucket: "rota", Prefetch: 256, Log: silent}
	if err := s.parse(address); err != nil {
		return s, err
	}
	if s.PasswordFile != "" && s.User == "" { // nats://USER@HOST?password-file=FILE
		s.User, s.Token = string(s.Token), ""
	}
	return s, nil
}

// parse parses scheme://user:password@host:port,host:port?parameter=value, which may
// have a scheme before each host, embed:folder or folder:folder.
func (s *Settings) parse(address string) error {
	address, query, _ := strings.Cut(address, "?")
	scheme, rest, ok := strings.Cut(address, ":")
	switch {
	case ok && (scheme == "embed" || scheme == "folder"):
		s.Folder, s.ClientOnly = rest, scheme == "folder"
		if rest == "" {
			return fmt.Errorf("rotanats: the URL %s: names no folder: write %[1]s:DIR", scheme)
		}
	case ok && (scheme == "nats" || scheme == "tls") && strings.HasPrefix(rest, "//"):
		s.Secure = scheme == "tls"
		if err := s.hosts(rest[2:]); err != nil {
			return err
		}
	default:
		return errors.New("rotanats: not an address of NATS: write nats://HOST:PORT, tls://HOST:PORT, embed:DIR or folder:DIR")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("rotanats: the URL's parameters after ? cannot be read: write name=value&name=value, with % and + escaped")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set := parameters[name]
		if set == nil {
			if !Plain(name) { // it may be the rest of a password that contains a question mark
				name = "?"
			}
			return fmt.Errorf("rotanats: the URL has an unknown parameter %s; known are %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		s.Given = append(s.Given, name)
		v := values[name][len(values[name])-1]
		if err := set(s, v); err != nil {
			return fmt.Errorf("rotanats: the URL's parameter %s=%.40s: %w", name, v, err)
		}
	}
	return nil
}

func (s *Settings) hosts(list string) error {
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
		s.Servers = append(s.Servers, net.JoinHostPort(name, strconv.FormatUint(n, 10)))
	}
	return nil
}

// signIn parses user:password, or a token alone, as in NATS URLs.
func (s *Settings) signIn(info string) error {
	user, password, both := strings.Cut(info, ":")
	u, err := url.PathUnescape(user)
	p, err2 := url.PathUnescape(password)
	if err != nil || err2 != nil {
		return errors.New("rotanats: the user or password in the URL is not escaped correctly: write a % as %25, and every other escape as % and two hexadecimal digits")
	}
	if both {
		s.User, s.Password = u, Secret(p)
	} else {
		s.Token = Secret(u)
	}
	return nil
}

// Check refuses settings that cannot work.
func (s *Settings) Check() error {
	switch {
	case !Plain(s.Bucket):
		return fmt.Errorf("rotanats: bucket %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.Bucket)
	case s.Durable != "" && !Plain(s.Durable):
		return fmt.Errorf("rotanats: durable %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.Durable)
	case s.Takeover != "" && !Plain(s.Takeover):
		return fmt.Errorf("rotanats: takeover %.40q: write the name of the group whose place this one takes: A-Z, a-z, 0-9, _ and -", s.Takeover)
	case s.Inbox != "" && (!GoodSubject(s.Inbox) || strings.ContainsAny(s.Inbox, "*>")):
		return fmt.Errorf("rotanats: inbox %.80q: write a subject without wildcards, such as _INBOX.orders", s.Inbox)
	case s.API != "" && (!GoodSubject(s.API) || strings.ContainsAny(s.API, "*>")):
		return fmt.Errorf("rotanats: api %.80q: write a subject without wildcards, such as $JS.HUB.API", s.API)
	case (s.Cert == "") != (s.Key == ""):
		return errors.New("rotanats: cert and key: give both or none")
	case s.User != "" && s.Token != "":
		return errors.New("rotanats: a user and a token: give one of them")
	case s.NKey != "" && (s.User != "" || s.Token != "" || s.Creds != "" || s.PasswordFile != "" || s.TokenFile != ""):
		return errors.New("rotanats: nkey and another way to sign in: give one of them")
	}
	return s.checkFiles()
}

// checkFiles refuses files with secrets beside another secret, and where the server needs
// none.
func (s *Settings) checkFiles() error {
	switch {
	case s.PasswordFile == "" && s.TokenFile == "":
		return nil
	case s.Folder != "":
		return errors.New("rotanats: a folder's server needs no password on this host: leave password-file and token-file out")
	case s.PasswordFile != "" && s.TokenFile != "":
		return errors.New("rotanats: password-file and token-file: give one of them")
	case s.PasswordFile != "" && s.User == "":
		return errors.New("rotanats: password-file needs a user: nats://USER@HOST?password-file=FILE")
	case s.PasswordFile != "" && s.Password != "":
		return errors.New("rotanats: a password and a password-file: give one of them")
	case s.TokenFile != "" && (s.Token != "" || s.User != ""):
		return errors.New("rotanats: token-file and another way to sign in: give one of them")
	}
	return nil
}

// GoodSubject tells whether s is a valid NATS subject, or a pattern of subjects.
func GoodSubject(s string) bool {
	if len(s) > 200 || strings.ContainsAny(s, " \t\r\n\x00") {
		return false
	}
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || len(token) > 1 && strings.ContainsAny(token, "*>") {
			return false
		}
	}
	return true
}

// Matches tells whether a pattern of subjects matches a subject.
func Matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, w := range want {
		switch {
		case i == len(have):
			return false
		case w == ">":
			return true
		case w != "*" && w != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

// Plain tells whether a name can be used in subjects as it is.
func Plain(name string) bool {
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// String returns the address without secrets.
func (s *Settings) String() string {
	switch {
	case s.ClientOnly:
		return "folder:" + s.Folder
	case s.Folder != "":
		return "embed:" + s.Folder
	}
	scheme := "nats://"
	if s.Secure {
		scheme = "tls://"
	}
	return scheme + strings.Join(s.Servers, ",")
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *Settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// Dialing returns the settings as options of the NATS client. failing is called with the
// result of each read of the certificate files for a later connection.
func (s *Settings) Dialing(failing func(error)) ([]nats.Option, error) {
	if s.Folder != "" { // a process that can open its socket needs no secret
		return []nats.Option{nats.SetCustomDialer(s.AsFolder()), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers()}, nil
	}
	var opts []nats.Option
	switch {
	case s.PasswordFile != "":
		if _, err := readSecret(s.PasswordFile); err != nil {
			return nil, fmt.Errorf("the password file: %w", err)
		}
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			p, _ := readSecret(s.PasswordFile) // if the file is gone, the server refuses the empty password
			return s.User, string(p)
		}))
	case s.TokenFile != "":
		if _, err := readSecret(s.TokenFile); err != nil {
			return nil, fmt.Errorf("the token file: %w", err)
		}
		opts = append(opts, nats.TokenHandler(func() string {
			t, _ := readSecret(s.TokenFile)
			return string(t)
		}))
	case s.User != "" || s.Password != "":
		opts = append(opts, nats.UserInfo(s.User, string(s.Password)))
	}
	if s.Token != "" {
		opts = append(opts, nats.Token(string(s.Token)))
	}
	if s.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(s.Inbox))
	}
	if s.Creds != "" {
		if _, err := os.Stat(s.Creds); err != nil {
			return nil, fmt.Errorf("the credentials file: %w", err)
		}
		opts = append(opts, nats.UserCredentials(s.Creds))
	}
	if s.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(s.NKey)
		if err != nil {
			return nil, fmt.Errorf("the key file: %w", err)
		}
		opts = append(opts, key)
	}
	if s.Secure {
		secure, err := s.dialingTLS(failing)
		if err != nil {
			return nil, err
		}
		opts = append(opts, secure...)
	}
	return opts, nil
}

// readSecret reads a file that holds a password or a token and nothing else.
func readSecret(file string) (Secret, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return Secret(text), nil
}

// ReadSecrets reads the files with a password or a token, for a server, which keeps their
// content until it stops.
func (s *Settings) ReadSecrets() (err error) {
	if s.PasswordFile != "" {
		if s.Password, err = readSecret(s.PasswordFile); err != nil {
			return fmt.Errorf("the password file: %w", err)
		}
	}
	if s.TokenFile != "" {
		if s.Token, err = readSecret(s.TokenFile); err != nil {
			return fmt.Errorf("the token file: %w", err)
		}
	}
	return nil
}

// URLs returns the URLs of the servers for the NATS client, which needs one for a folder
// too but does not use it.
func (s *Settings) URLs() (list []string) {
	if s.Folder != "" {
		return []string{"nats://" + folder.SocketFile}
	}
	for _, host := range s.Servers {
		list = append(list, "nats://"+host)
	}
	return list
}

// AsFolder returns the folder that the settings name.
func (s *Settings) AsFolder() folder.Folder { return folder.Folder{Dir: s.Folder, Shared: s.Shared} }
