package rotaetcd

import (
	"fmt"
	"os"
	"path/filepath"
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
		{"etcd://a", "etcd://a:2379/rota", 1},
		{"etcd://a/", "etcd://a:2379/rota", 1},
		{"etcd://a:1,b:2,c/shop", "etcd://a:1,b:2,c:2379/shop", 3},
		{"etcd://a/shop/rota.v1/", "etcd://a:2379/shop/rota.v1", 1},
		{"etcds://[::1]:5", "etcds://[::1]:5/rota", 1},
		{"etcd://[::1]", "etcd://[::1]:2379/rota", 1},
		{"etcd://a?ca=x.pem", "etcds://a:2379/rota", 1},
		{"etcd://a?cert=x&key=y&nodes=3", "etcds://a:2379/rota", 1},
		{"etcd://u:p@a,b", "etcd://a:2379,b:2379/rota", 2},
		{"etcd://u@a?password-file=f", "etcd://a:2379/rota", 1},
		{"", "not an address of etcd", 0},
		{"http://a", "write etcd://HOST:PORT", 0},
		{"etcd:a", "not an address of etcd", 0},
		{"etcd://", "server 1 of the URL is not a HOST:PORT", 0},
		{"etcd://a,b:x", "server 2 of the URL is not a HOST:PORT", 0},
		{"etcd://a:70000", "server 1 of the URL", 0},
		{"etcd://a,a:2379", "server 2 of the URL is there twice", 0},
		{"etcd://a//b", "the prefix after the URL's hosts", 0},
		{"etcd://a/sh op", "the prefix after the URL's hosts", 0},
		{"etcd://a?nods=3", "an unknown parameter nods; known are ca, cert, key, nodes, password-file", 0},
		{"etcd://a?nodes=x", `nodes: want a number from 1 to 9, not "x"`, 0},
		{"etcd://a?ca=", "ca: want the name of a file", 0},
		{"etcd://a?cert=x", "cert and key: give both or none", 0},
		{"etcd://u@a", "a user without a password", 0},
		{"etcd://:p@a", "a password without a user", 0},
		{"etcd://a?password-file=f", "password-file needs a user", 0},
		{"etcd://u:p@a?password-file=f", "a password and a password-file", 0},
		{"etcd://a?x=%", "parameters after ? cannot be read", 0},
		{"etcd://%zz:p@a", "not escaped correctly", 0},
	} {
		s, err := read(c.address, nil)
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
	s, err := read("etcd://us%3Aer:pass%40w%2Ford@a", nil)
	if err != nil || s.User != "us:er" || string(s.Password) != "pass@w/ord" {
		t.Errorf("user %q, %v", s.User, err)
	}
	file := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]string{"one\n": "one", " two ": "two", "": "", "\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := read("etcd://u@a?password-file="+file, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.ReadPassword()
		if string(got) != want || (err != nil) != (want == "") {
			t.Errorf("the file has %q, and the password is %q, %v", text, string(got), err)
		}
	}
}

const concealed = "hunter2SECRET"

func FuzzAddress(f *testing.F) {
	for _, a := range []string{"etcd://a", "etcd://u:p@a:1,b:2/x?nodes=3", "etcds://u:p@[::1]:5?ca=x&cert=y&key=z", "etcd://a/b/c?password-file=%", "etcd://@:,@/?=&;"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		s, err := read(address, nil)
		if err == nil {
			again, err := read(s.String(), nil)
			if err != nil || !slices.Equal(again.Servers, s.Servers) || again.prefix != s.prefix {
				t.Errorf("%q is %v, and that is %v, %v", address, s, again, err)
			}
		}
		_, rest, _ := strings.Cut(address, "://")
		for _, secretive := range []string{"etcd://u:" + concealed + "@" + rest, "etcd://u:1/" + concealed + "@" + rest, "etcd://u:1?" + concealed + "@" + rest, rest + "//u:" + concealed + "@a"} {
			s, err := read(secretive, nil)
			if text := fmt.Sprintf("%v %+v %#v %s %q %x %v", s, s, s, s, s, s, err); strings.Contains(text, concealed) {
				t.Errorf("%q tells its secret: %s", secretive, text)
			}
		}
	})
}
