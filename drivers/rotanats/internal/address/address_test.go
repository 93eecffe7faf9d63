package rotanats

import (
	"fmt"
	"io/fs"
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
		{"nats://a?buckte=x", "a parameter buckte; known are api, bucket, ca, ", 0},
		{"nats://a?replicas=9", "replicas=9: want a number from 1 to 5", 0},
		{"nats://a?sync=sometimes", `sync=sometimes: want "always"`, 0},
		{"nats://a?bucket=a.b", `bucket "a.b"`, 0},
		{"nats://a?cert=x", "cert and key: give both", 0},
		{"nats://u:p@a?token=t", "a user and a token", 0},
		{"nats://a?x=%", "parameters after ? cannot be read", 0},
		{"nats://%zz@a", "not escaped well", 0},
	} {
		s, err := read(c.address, nil)
		got := s.String()
		if err != nil {
			got = err.Error()
		}
		if (err != nil) != (c.servers == 0) || len(s.servers) != c.servers && err == nil || !strings.Contains(got, c.want) {
			t.Errorf("%q: %d servers, %q; want %d, %q", c.address, len(s.servers), got, c.servers, c.want)
		}
	}
}

func TestSourcesAreChecked(t *testing.T) {
	for query, want := range map[string]string{
		"":                                  "needs a stream",
		"stream=a.b&subject=o.*":            `stream "a.b"`,
		"stream=S":                          `subject ""`,
		"stream=S&subject=o":                "one star",
		"stream=S&subject=*.*":              "one star",
		"stream=S&subject=o.>":              "one star",
		"stream=S&subject=o*":               "one star",
		"stream=S&subject=o.*&dead=x.*":     "without wildcards",
		"stream=S&subject=o.*&partitions=0": "a number from 1",
	} {
		if err := Source("nats://a?" + query).(*source).bad; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
	if err := Source("nats://a?stream=S&subject=o.*").(*source).bad; err != nil {
		t.Error(err)
	}
}

func TestSignIn(t *testing.T) {
	s, err := read("nats://us%3Aer:pass%40word@a", nil)
	if err != nil || s.user != "us:er" || string(s.password) != "pass@word" {
		t.Errorf("user %q, %v", s.user, err)
	}
	if s, err = read("nats://t0ken@a", nil); err != nil || string(s.token) != "t0ken" {
		t.Error(err)
	}
	if s, err = read("nats://a", []Option{UserPassword("u", "p")}); err != nil || s.user != "u" || string(s.password) != "p" {
		t.Error(err)
	}
}

func TestKeysBecomeSubjects(t *testing.T) {
	s := newStore(newLink("nats://a", nil), "b")
	for key, ok := range map[string]bool{
		"a": true, "a/b-c/_D": true, strings.Repeat("k", 128): true,
		"": false, "/a": false, "a/": false, "a//b": false, "a.b": false, "a*": false, ">": false, "a b": false, "ä": false, strings.Repeat("k", 129): false,
	} {
		if err := checkKey(key); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
		if got := s.key(s.subject(key)); ok && got != key {
			t.Errorf("%q comes back as %q", key, got)
		}
	}
}

func TestNoPermissionIsSaid(t *testing.T) {
	err := folder{dir: "/data"}.explain(&fs.PathError{Op: "mkdir", Path: "/data", Err: fs.ErrPermission})
	if !strings.Contains(err.Error(), "no permission for the folder /data") {
		t.Error(err)
	}
}

const hidden = "hunter2SECRET"

func FuzzAddress(f *testing.F) {
	for _, a := range []string{"nats://a", "nats://u:p@a:1,b:2?bucket=x", "tls://t@[::1]:5?ca=x&cert=y&key=z", "embed:dir?token=x", "folder:dir?nkey=x", "nats://a?sync=always&%", "nats://@:,@?=&;"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		s, err := read(address, nil)
		if err == nil && s.folder == "" {
			again, err := read(s.String(), nil)
			if err != nil || !slices.Equal(again.servers, s.servers) {
				t.Errorf("%q is %v, and that is %v, %v", address, s.servers, again.servers, err)
			}
		}
		_, rest, _ := strings.Cut(address, "://")
		for _, secretive := range []string{"nats://u:" + hidden + "@" + rest, "nats://" + hidden + "@" + rest, "nats://a?token=" + hidden + "&" + rest, rest + "//u:" + hidden + "@a"} {
			s, err := read(secretive, nil)
			if text := fmt.Sprintf("%v %+v %#v %s %q %x %v", s, s, s, s, s, s, err); strings.Contains(text, hidden) {
				t.Errorf("%q tells its secret: %s", secretive, text)
			}
		}
	})
}

func FuzzPlace(f *testing.F) {
	f.Add("S", "C", uint64(1), uint64(2), uint64(3), int64(4), "$JS.ACK.S.C.1.2.3.4.5")
	f.Add("S", "C", uint64(0), uint64(1)<<63, uint64(3), int64(-4), "$JS.ACK.d.h.S.C.1.2.3.4.5.6")
	f.Fuzz(func(t *testing.T, stream, consumer string, tries, seq, delivery uint64, at int64, raw string) {
		readPlace(raw) // whatever it is
		if strings.Contains(stream+consumer, ".") {
			return
		}
		want := place{tries, seq, delivery, at}
		for _, reply := range []string{
			fmt.Sprintf("$JS.ACK.%s.%s.%d.%d.%d.%d.7", stream, consumer, tries, seq, delivery, at),
			fmt.Sprintf("$JS.ACK._.hash.%s.%s.%d.%d.%d.%d.7.x", stream, consumer, tries, seq, delivery, at),
			fmt.Sprintf("$JS.ACK.domain.hash.%s.%s.%d.%d.%d.%d.7", stream, consumer, tries, seq, delivery, at),
		} {
			if got, err := readPlace(reply); err != nil || got != want {
				t.Errorf("%s is %v, %v; want %v", reply, got, err, want)
			}
		}
	})
}
