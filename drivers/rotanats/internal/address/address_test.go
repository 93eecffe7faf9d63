package address

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		address string
		want    string // String, or a part of the error
		servers int    // 0: an error
	}{
		{"nats://a", "nats://a:4222", 1},
		{"nats://a:1,b:2", "nats://a:1,b:2", 2},
		{"nats://a:1,nats://b:2/", "nats://a:1,b:2", 2},
		{"tls://[::1]:5", "tls://[::1]:5", 1},
		{"nats://[::1]", "nats://[::1]:4222", 1},
		{"nats://a?ca=x.pem", "tls://a:4222", 1},
		{"nats://a?bucket=b&replicas=3&sync=always", "nats://a:4222", 1},
		{"nats://a?stream=S&subject=o.*&partitions=64&durable=d&dead=x.y&prefetch=7&create=true", "nats://a:4222", 1},
		{"nats://a?inbox=_INBOX.orders&api=$JS.HUB.API", "nats://a:4222", 1},
		{"nats://a?inbox=_INBOX.>", `inbox "_INBOX.>": write a subject without wildcards`, 0},
		{"nats://a?inbox=a..b", `inbox "a..b"`, 0},
		{"nats://a?api=$JS.*.API", `api "$JS.*.API": write a subject without wildcards`, 0},
		{"ws://a,ws://b:8080/", "ws://a:80,b:8080", 2},
		{"wss://u:p@a", "wss://a:443", 1},
		{"ws://a:8080?ca=x.pem", "wss://a:8080", 1},
		{"nats://a,ws://b", "servers with and without a web socket", 0},
		{"wss://a,tls://b", "servers with and without a web socket", 0},
		{"nats://a?domain=hub", "nats://a:4222", 1},
		{"nats://a?domain=", "parameter domain: want a name, or leave the parameter out", 0},
		{"nats://a?domain=a.b", `domain "a.b": use A-Z`, 0},
		{"nats://a?domain=hub&api=$JS.HUB.API", `domain "hub": use A-Z, a-z, 0-9, _ and -, at most 64 of them, and leave api out`, 0},
		{"", "not an address of NATS", 0},
		{"http://a", "write nats://HOST:PORT", 0},
		{"nats:a", "not an address of NATS", 0},
		{"nats://", "server 1 of the URL is not a HOST:PORT", 0},
		{"nats://a,b:x", "server 2 of the URL is not a HOST:PORT", 0},
		{"nats://a:70000", "server 1 of the URL", 0},
		{"nats://a:0", "server 1 of the URL", 0},
		{"embed:", "names no folder", 0},
		{"folder:", "names no folder", 0},
		{"nats://t@a?nkey=f", "give one of them", 0},
		{"nats://a?buckte=x", "an unknown parameter buckte; known are after, api, bucket, ca, ", 0},
		{"nats://a?replicas=9", `replicas: want a number from 1 to 5, not "9"`, 0},
		{"nats://a?sync=sometimes", `sync: want "always", not "sometimes"`, 0},
		{"nats://a?bucket=a.b", `bucket "a.b"`, 0},
		{"nats://a?durable=a.b", `durable "a.b"`, 0},
		{"nats://a?durable=", "durable: want a name, or leave the parameter out", 0},
		{"nats://a?takeover=a.b", `takeover "a.b": write the name of the group`, 0},
		{"nats://a?takeover=", "takeover: want a name, or leave the parameter out", 0},
		{"nats://a?durable=d&takeover=old", "nats://a:4222", 1},
		{"nats://a?cert=x", "cert and key: give both", 0},
		{"nats://u:p@a?token=t", "a user and a token", 0},
		{"nats://a?x=%", "parameters after ? cannot be read", 0},
		{"nats://%zz@a", "not escaped correctly", 0},
	} {
		s, err := readAll(c.address)
		got := s.String()
		if err != nil {
			got = err.Error()
		}
		if (err != nil) != (c.servers == 0) || len(s.Servers) != c.servers && err == nil || !strings.Contains(got, c.want) {
			t.Errorf("%q: %d servers, %q; want %d, %q", c.address, len(s.Servers), got, c.servers, c.want)
		}
	}
}

func TestSignIn(t *testing.T) {
	s, err := readAll("nats://us%3Aer:pass%40word@a")
	if err != nil || s.User != "us:er" || string(s.Password) != "pass@word" {
		t.Errorf("user %q, %v", s.User, err)
	}
	if s, err = readAll("nats://t0ken@a"); err != nil || string(s.Token) != "t0ken" {
		t.Error(err)
	}
}

const hidden = "hunter2SECRET"

func FuzzAddress(f *testing.F) {
	for _, a := range []string{"nats://a", "nats://u:p@a:1,b:2?bucket=x", "tls://t@[::1]:5?ca=x&cert=y&key=z", "embed:dir?token=x", "folder:dir?nkey=x", "nats://a?sync=always&%", "nats://@:,@?=&;", "ws://a,ws://b:1?domain=d", "wss://a,tls://b"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		s, err := readAll(address)
		if err == nil && s.Folder == "" {
			again, err := readAll(s.String())
			if err != nil || !slices.Equal(again.Servers, s.Servers) {
				t.Errorf("%q is %v, and that is %v, %v", address, s.Servers, again.Servers, err)
			}
		}
		_, rest, _ := strings.Cut(address, "://")
		for _, secretive := range []string{"nats://u:" + hidden + "@" + rest, "nats://" + hidden + "@" + rest, "nats://a?token=" + hidden + "&" + rest, rest + "//u:" + hidden + "@a"} {
			s, err := readAll(secretive)
			if text := fmt.Sprintf("%v %+v %#v %s %q %x %v", s, s, s, s, s, s, err); strings.Contains(text, hidden) {
				t.Errorf("%q tells its secret: %s", secretive, text)
			}
		}
	})
}

// readAll reads and checks a URL.
func readAll(url string) (*Settings, error) {
	s, err := Read(url)
	if err == nil {
		err = s.Check()
	}
	return s, err
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a.*", "a.b", true}, {"a.*", "a", false}, {"a.*", "a.b.c", false}, {"*.b", "a.b", true},
		{"a", "a.b", false}, {">", "a", true}, {">", "a.b.c", true}, {"a.>", "a", false}, {"a.>", "a.b.c", true}, {"a.>", "b.b", false}, {"a.*.c", "a.b.c", true},
	} {
		if got := Matches(c.pattern, c.subject); got != c.want {
			t.Errorf("Matches(%q, %q) is %v", c.pattern, c.subject, got)
		}
	}
}
