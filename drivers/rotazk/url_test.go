package rotazk

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
		{"zk://a", "zk://a:2181/rota", 1},
		{"zk://a/", "zk://a:2181/rota", 1},
		{"zk://a:1,b:2,c/x/y-z", "zk://a:1,b:2,c:2181/x/y-z", 3},
		{"zk://a/x/", "zk://a:2181/x", 1},
		{"zks://[::1]:5", "zks://[::1]:5/rota", 1},
		{"zk://[::1]/x", "zk://[::1]:2181/x", 1},
		{"zk://a?ca=x.pem", "zks://a:2181/rota", 1},
		{"zk://a?cert=x&key=y", "zks://a:2181/rota", 1},
		{"zk://u:p@a,b/x", "zk://a:2181,b:2181/x", 2},
		{"zk://u:p/w@a/x", "zk://a:2181/x", 1},
		{"zk://u@a?password-file=f", "zk://a:2181/rota", 1},
		{"zk://u:p@a?acl=auth::cdrwa,world:anyone:r,ip:10.0.0.0/8:r,digest:u:x%2By=:rw", "zk://a:2181/rota", 1},
		{"", "not an address of ZooKeeper", 0},
		{"zookeeper://a", "write zk://HOST:PORT", 0},
		{"zk:a", "not an address of ZooKeeper", 0},
		{"zk://", "server 1 of the URL is not a HOST:PORT", 0},
		{"zk://a,b:x", "server 2 of the URL is not a HOST:PORT", 0},
		{"zk://a:70000", "server 1 of the URL", 0},
		{"zk://a:0", "server 1 of the URL", 0},
		{"zk://a/x//y", "the URL's path is no chroot", 0},
		{"zk://a/x.y", "the URL's path is no chroot", 0},
		{"zk://a/" + strings.Repeat("x/", 80), "at most 128 bytes", 0},
		{"zk://a/zookeeper/x", "/zookeeper belongs to the servers", 0},
		{"zk://a?chroot=x", "an unknown parameter chroot; known are acl, answer, ca, cert, key, password-file", 0},
		{"zk://a,b?answer=3s", "zk://a:2181,b:2181/rota", 2},
		{"zk://a?answer=3", "answer: want a duration from 100ms to 1m0s", 0},
		{"zk://a?answer=1ms", "answer: want a duration from 100ms to 1m0s", 0},
		{"zk://a?answer=1h", "answer: want a duration from 100ms to 1m0s", 0},
		{"zk://a?ca=", "ca: want the name of a file", 0},
		{"zk://a?x=%", "parameters after ? cannot be read", 0},
		{"zk://%zz@a", "not escaped correctly", 0},
		{"zk://a?cert=x", "cert and key: give both", 0},
		{"zk://u@a", "a user without a password", 0},
		{"zk://:p@a", "a password without a user", 0},
		{"zk://u%3Av:p@a", "the user has a colon", 0},
		{"zk://a?password-file=f", "password-file needs a user", 0},
		{"zk://u:p@a?password-file=f", "a password and a password-file", 0},
		{"zk://a?acl=auth::r", "acl has the scheme auth", 0},
		{"zk://u:p@a?acl=auth:u:r", "entry 1: the scheme auth means the user", 0},
		{"zk://a?acl=world:anyone:r,world:me:r", "entry 2: the scheme world knows one identity", 0},
		{"zk://a?acl=world:anyone:x", "entry 1: write its permissions as letters of cdrwa", 0},
		{"zk://a?acl=world:anyone:", "entry 1 permits nothing", 0},
		{"zk://a?acl=world", "entry 1: write SCHEME:ID:PERMS", 0},
		{"zk://a?acl=digest:u:r", "entry 1: write digest:USER:HASH:PERMS", 0},
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
	s, err := read("zk://us%40er:pass%3Aw%2Ford@a", nil)
	if digest, err2 := s.digest(); err != nil || err2 != nil || string(digest) != "us@er:pass:w/ord" {
		t.Errorf("%q, %v, %v", string(digest), err, err2)
	}
	file := filepath.Join(t.TempDir(), "password")
	s, err = read("zk://u@a?password-file="+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{"": "is empty", " secret\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		digest, err := s.digest()
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) || says == "" && string(digest) != "u:secret" {
			t.Errorf("a file with %q: %q, %v", text, string(digest), err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.digest(); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestRights(t *testing.T) {
	got, err := parseRights("auth::cdrwa,digest:u:x=:rw,ip:::1:r")
	want := []right{{"auth", "", allPerms}, {"digest", "u:x=", 3}, {"ip", "::1", 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

const concealed = "hunter2SECRET"

func FuzzAddress(f *testing.F) {
	for _, a := range []string{"zk://a", "zk://u:p@a:1,b:2/x", "zks://u@[::1]:5?ca=x&cert=y&key=z", "zk://a?acl=auth::r,world:anyone:cdrwa", "zk://a?&%", "zk://@:,@/?=&;"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		s, err := read(address, nil)
		if err == nil {
			again, err := read(s.String(), nil)
			if err != nil || !slices.Equal(again.Servers, s.Servers) || again.chroot != s.chroot {
				t.Errorf("%q is %v %s, and that is %v %s, %v", address, s.Servers, s.chroot, again.Servers, again.chroot, err)
			}
		}
		_, rest, _ := strings.Cut(address, "://")
		for _, secretive := range []string{"zk://u:" + concealed + "@" + rest, "zk://" + concealed + ":p@" + rest, "zk://a?acl=digest:u:" + concealed + ":r," + rest, rest + "//u:" + concealed + "@a"} {
			s, err := read(secretive, nil)
			if text := fmt.Sprintf("%v %+v %#v %s %q %x %v", s, s, s, s, s, s, err); strings.Contains(text, concealed) {
				t.Errorf("%q tells its secret: %s", secretive, text)
			}
		}
	})
}
