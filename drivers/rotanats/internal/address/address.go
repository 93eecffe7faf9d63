// Package address parses the URLs of rotanats, which are its one configuration language,
// into settings of clients and servers.
package address

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
	"github.com/rota-dev/rota/internal/address"
)

// Settings are the settings of a URL and of options.
type Settings struct {
	address.Common
	Folder     string   // instead of Servers: the server of this folder
	ClientOnly bool     // folder: never run the server in this process
	Shared     bool     // others may write to the folder
	Open       bool     // of a URL to listen on: clients need no secret
	WebSocket  bool     // ws:// or wss://
	Given      []string // names of the URL's parameters
	Name       string   // of the connection, for the server's operator
	API        string   // prefix of JetStream's API; "" for $JS.API
	Domain     string   // of JetStream, instead of API
	Inbox      string   // prefix of the subjects for answers; "" for _INBOX

	// Host runs the server of the folder in this process; nil if no server is linked.
	Host func(*Settings) (Host, error)

	Token     Secret
	TokenFile string // a client reads it for every connection, a server once
	Creds     string // file
	NKey      string // file
	NKeySeed  Secret // instead of that file

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
	After      string // a consumer of no group: partitions begin after what it has acknowledged
	Dead       string
	Prefetch   int
	Create     bool
}

// ServerName is the name of embedded servers.
const ServerName = "rota"

// A Host is a server that this process runs for a folder.
type Host interface {
	Done() <-chan struct{} // closed when the server has stopped
	Err() error            // why it stopped by itself
	Fresh() bool           // the folder was empty when it started
	Close() error
}

// A Secret prints as xxxxx.
type Secret = address.Secret

// parameters are the parameters of a URL's query.
var parameters = address.Shared(func(s *Settings) *address.Common { return &s.Common }, address.Parameters[Settings]{
	"bucket":     func(s *Settings, v string) error { s.Bucket = v; return nil },
	"replicas":   func(s *Settings, v string) error { return address.Number(&s.Replicas, v, 1, 5) },
	"sync":       func(s *Settings, v string) error { return address.Only(&s.Synced, v, "always") },
	"name":       func(s *Settings, v string) error { s.Name = v; return nil },
	"api":        func(s *Settings, v string) error { s.API = v; return nil },
	"domain":     func(s *Settings, v string) error { return address.Name(&s.Domain, v) },
	"inbox":      func(s *Settings, v string) error { s.Inbox = v; return nil },
	"token":      func(s *Settings, v string) error { s.Token = Secret(v); return nil },
	"token-file": func(s *Settings, v string) error { return address.File(&s.TokenFile, v) },
	"creds":      func(s *Settings, v string) error { return address.File(&s.Creds, v) },
	"nkey":       func(s *Settings, v string) error { return keyFile(&s.NKey, v) },
	"nkey-seed":  func(s *Settings, v string) error { return keySeed(&s.NKeySeed, v) },
	"open":       func(s *Settings, v string) error { return address.Only(&s.Open, v, "true") },
	"shared":     func(s *Settings, v string) error { return address.Only(&s.Shared, v, "true") },
	"stream":     func(s *Settings, v string) error { s.Stream = v; return nil },
	"subject":    func(s *Settings, v string) error { s.Subject = v; return nil },
	"partitions": func(s *Settings, v string) error { return address.Number(&s.Partitions, v, 1, maxPartitions) },
	"most":       func(s *Settings, v string) error { return address.Number(&s.Most, v, 1, maxDiscovered) },
	"durable":    func(s *Settings, v string) error { return address.Name(&s.Durable, v) },
	"takeover":   func(s *Settings, v string) error { return address.Name(&s.Takeover, v) },
	"after":      func(s *Settings, v string) error { return address.Name(&s.After, v) },
	"dead":       func(s *Settings, v string) error { s.Dead = v; return nil },
	"prefetch":   func(s *Settings, v string) error { return address.Number(&s.Prefetch, v, 1, maxPrefetch) },
	"create":     func(s *Settings, v string) error { return address.Only(&s.Create, v, "true") },
})

const (
	maxPartitions = 100_000
	maxPrefetch   = 10_000
	maxDiscovered = 32_768 // the limit of a group
)

// Logged tells whether an option has set the logger.
func (s *Settings) Logged() bool { return s.Log != address.Silent }

// Read parses a URL. Its errors do not repeat the URL, since a password may be anywhere
// in it, even where it does not belong.
func Read(url string) (*Settings, error) {
	s := &Settings{Common: address.Common{Log: address.Silent}, Bucket: "rota", Prefetch: 256}
	if err := s.parse(url); err != nil {
		return s, named(err)
	}
	if s.PasswordFile != "" && s.User == "" { // nats://USER@HOST?password-file=FILE
		s.User, s.Token = string(s.Token), ""
	}
	return s, nil
}

// schemes are the schemes of servers, with their default ports.
var schemes = map[string]string{"nats": "4222", "tls": "4222", "ws": "80", "wss": "443"}

func named(err error) error { return address.Named("rotanats", err) }

// parse parses scheme://user:password@host:port,host:port?parameter=value, which may
// have a scheme before each host, embed:folder or folder:folder.
func (s *Settings) parse(url string) (err error) {
	url, query, _ := strings.Cut(url, "?")
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case ok && (scheme == "embed" || scheme == "folder"):
		s.Folder, s.ClientOnly = rest, scheme == "folder"
		if rest == "" {
			return fmt.Errorf("the URL %s: names no folder: write %[1]s:DIR", scheme)
		}
	case ok && schemes[scheme] != "" && strings.HasPrefix(rest, "//"):
		s.Secure = scheme == "tls" || scheme == "wss"
		s.WebSocket = strings.HasPrefix(scheme, "ws")
		if err := s.hosts(rest[2:], schemes[scheme]); err != nil {
			return err
		}
	default:
		return errors.New("not an address of NATS: write nats://HOST:PORT, tls://HOST:PORT, ws://HOST:PORT, wss://HOST:PORT, embed:DIR or folder:DIR")
	}
	s.Given, err = parameters.Read(query, s)
	return err
}

func (s *Settings) hosts(list, defaultPort string) error {
	for i, host := range strings.Split(list, ",") {
		if scheme, rest, ok := strings.Cut(host, "://"); i > 0 && ok && schemes[scheme] != "" {
			if strings.HasPrefix(scheme, "ws") != s.WebSocket {
				return errors.New("the URL has servers with and without a web socket: give those of one kind")
			}
			host = rest
		}
		host = strings.TrimSuffix(host, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			if err := s.signIn(host[:at]); err != nil {
				return err
			}
			host = host[at+1:]
		}
		if err := s.AddServer(host, defaultPort); err != nil {
			return err
		}
	}
	return nil
}

// signIn parses user:password, or a token alone, as in NATS URLs.
func (s *Settings) signIn(info string) error {
	user, password, both, err := address.SignIn(info)
	if both {
		s.User, s.Password = user, password
	} else {
		s.Token = Secret(user)
	}
	return err
}

// Check refuses settings that cannot work.
func (s *Settings) Check() error {
	return named(cmp.Or(s.checkNames(), s.Common.Check(), s.checkSignIn()))
}

func (s *Settings) checkNames() error {
	switch {
	case !Plain(s.Bucket):
		return fmt.Errorf("bucket %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.Bucket)
	case s.Durable != "" && !Plain(s.Durable):
		return fmt.Errorf("durable %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", s.Durable)
	case s.Takeover != "" && !Plain(s.Takeover):
		return fmt.Errorf("takeover %.40q: write the name of the group whose place this one takes: A-Z, a-z, 0-9, _ and -", s.Takeover)
	case strings.ContainsAny(s.After, " .*>/\\\t\r\n"):
		return fmt.Errorf("after %.40q: write the name of a consumer of the stream", s.After)
	case s.Inbox != "" && (!GoodSubject(s.Inbox) || strings.ContainsAny(s.Inbox, "*>")):
		return fmt.Errorf("inbox %.80q: write a subject without wildcards, such as _INBOX.orders", s.Inbox)
	case s.Domain != "" && (!Plain(s.Domain) || s.API != ""):
		return fmt.Errorf("domain %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them, and leave api out", s.Domain)
	case s.API != "" && (!GoodSubject(s.API) || strings.ContainsAny(s.API, "*>")):
		return fmt.Errorf("api %.80q: write a subject without wildcards, such as $JS.HUB.API", s.API)
	}
	return nil
}

// checkSignIn refuses two ways to sign in, and files with secrets where the server needs
// none.
func (s *Settings) checkSignIn() error {
	switch {
	case s.User != "" && s.Token != "":
		return errors.New("a user and a token: give one of them")
	case s.NKey != "" && s.NKeySeed != "":
		return errors.New("nkey and nkey-seed: give one of them")
	case (s.NKey != "" || s.NKeySeed != "") && (s.User != "" || s.Token != "" || s.Creds != "" || s.PasswordFile != "" || s.TokenFile != ""):
		return errors.New("nkey and another way to sign in: give one of them")
	case s.PasswordFile == "" && s.TokenFile == "":
		return nil
	case s.Folder != "":
		return errors.New("a folder's server needs no password on this host: leave password-file and token-file out")
	case s.PasswordFile != "" && s.TokenFile != "":
		return errors.New("password-file and token-file: give one of them")
	case s.PasswordFile != "" && s.User == "":
		return errors.New("password-file needs a user: nats://USER@HOST?password-file=FILE")
	case s.TokenFile != "" && (s.Token != "" || s.User != ""):
		return errors.New("token-file and another way to sign in: give one of them")
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
func Plain(name string) bool { return address.Plain(name) }

// String returns the address without secrets.
func (s *Settings) String() string {
	switch {
	case s.ClientOnly:
		return "folder:" + s.Folder
	case s.Folder != "":
		return "embed:" + s.Folder
	}
	return s.scheme() + strings.Join(s.Servers, ",")
}

func (s *Settings) scheme() string {
	switch {
	case s.WebSocket && s.Secure:
		return "wss://"
	case s.WebSocket:
		return "ws://"
	case s.Secure:
		return "tls://"
	}
	return "nats://"
}

// Prefix is the prefix of the subjects of JetStream's API.
func (s *Settings) Prefix() string {
	switch {
	case s.Domain != "":
		return "$JS." + s.Domain + ".API"
	case s.API != "":
		return s.API
	}
	return "$JS.API"
}

// Format keeps secrets out of every verb, %+v and %#v too.
func (s *Settings) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// Route is what the subject of a record begins with when it is published. Leaf nodes pass no
// subjects of buckets on to another domain, except below its API; they are stored without it.
func (s *Settings) Route() string {
	if s.Domain == "" {
		return ""
	}
	return s.Prefix() + "."
}

// Dialing returns the settings as options of the NATS client. failing is called with the
// result of each read of the certificate files for a later connection.
func (s *Settings) Dialing(failing func(error)) ([]nats.Option, error) {
	if s.Folder != "" { // a process that can open its socket needs no secret
		return []nats.Option{nats.SetCustomDialer(s.AsFolder()), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers()}, nil
	}
	var opts []nats.Option
	switch {
	case s.PasswordFile != "":
		if _, err := s.ReadPassword(); err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			p, _ := s.ReadPassword() // if the file is gone, the server refuses the empty password
			return s.User, string(p)
		}))
	case s.TokenFile != "":
		if _, err := s.readToken(); err != nil {
			return nil, err
		}
		opts = append(opts, nats.TokenHandler(func() string {
			t, _ := s.readToken()
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
	key, err := s.dialingKey()
	if err != nil {
		return nil, err
	}
	opts = append(opts, key...)
	if s.Secure {
		secure, err := s.dialingTLS(failing)
		if err != nil {
			return nil, err
		}
		opts = append(opts, secure...)
	}
	return opts, nil
}

// ReadSecrets reads the files with a password or a token, for a server, which keeps their
// content until it stops.
func (s *Settings) ReadSecrets() (err error) {
	if s.Password, err = s.ReadPassword(); err == nil && s.TokenFile != "" {
		s.Token, err = s.readToken()
	}
	return err
}

func (s *Settings) readToken() (Secret, error) { return address.ReadSecret("token", s.TokenFile) }

// WarnExposed logs a warning for each file with a secret that other users may read.
func (s *Settings) WarnExposed() { s.Common.WarnExposed(s.TokenFile, s.Creds, s.NKey) }

// URLs returns the URLs of the servers for the NATS client, which needs one for a folder
// too but does not use it.
func (s *Settings) URLs() (list []string) {
	if s.Folder != "" {
		return []string{"nats://" + folder.SocketFile}
	}
	scheme := s.scheme()
	if !s.WebSocket {
		scheme = "nats://" // whether it is secured is an option of the client
	}
	for _, host := range s.Servers {
		list = append(list, scheme+host)
	}
	return list
}

// AsFolder returns the folder that the settings name.
func (s *Settings) AsFolder() folder.Folder { return folder.Folder{Dir: s.Folder, Shared: s.Shared} }
