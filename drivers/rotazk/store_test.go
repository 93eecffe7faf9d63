package rotazk_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/rotatest"
)

// TestOneServer has one server for the suite, which hurts it, and for everything else
// after that.
func TestOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartZooKeeper(t)
	t.Run("store", func(t *testing.T) {
		rotatest.Store(t, func(*testing.T) rota.Store { return rotazk.Store(s.URL()) }, rotatest.WithServer(s),
			rotatest.WithWire(s.Addr(), func(_ testing.TB, addr string) rota.Store { return rotazk.Store("zk://" + addr) }))
	})
	for name, run := range map[string]func(*testing.T, string){
		"group": func(t *testing.T, addr string) {
			rotatest.Group(t, func(*testing.T) rota.Store { return rotazk.Store("zk://" + addr + "/deep/chroot") })
		},
		"class": func(t *testing.T, addr string) {
			s := open(t, "zk://"+addr)
			if err := reads(t, s); err != nil || class(s) != rota.ClassB {
				t.Errorf("the class of one server is %v, want B (%v)", class(s), err)
			}
		},
		"mistakes":          mistakes,
		"rights":            rights,
		"foreign nodes":     foreignNodes,
		"an exposed secret": exposedSecret,
		"a small server":    smallServer,
		"a former life":     formerLife,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.Addr())
		})
	}
}

// A mistake is what somebody wrote into a URL, and what is said about it.
type mistake struct {
	name, url, says string
	permanent       bool
}

// table makes a first call with each of the URLs.
func table(t *testing.T, list []mistake) {
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			err := works(t, open(t, m.url))
			checkMistake(t, m, err)
		})
	}
}

func checkMistake(t *testing.T, m mistake, err error) {
	t.Helper()
	switch {
	case err == nil || !strings.Contains(err.Error(), m.says) || strings.Contains(err.Error(), "\n"):
		t.Errorf("%v; want one line with %q", err, m.says)
	case errors.Is(err, rota.ErrPermanent) != m.permanent:
		t.Errorf("permanent is %v of %v", !m.permanent, err)
	}
	silent(t, m.name, err)
}

func mistakes(t *testing.T, addr string) {
	admin := open(t, "zk://ada:"+hidden+"@"+addr+"/locked")
	if _, err := admin.Put(t.Context(), "g/anything", nil, 0); err != nil {
		t.Fatal(err)
	}
	table(t, []mistake{
		{"a URL that is none", "zoo://" + addr, "not an address of ZooKeeper", true},
		{"nobody listens", "zk://127.0.0.1:1", "connection refused", false},
		{"an unknown host", "zk://no-such-host.invalid", "no-such-host.invalid", false},
		{"a wrong password", "zk://ada:x" + hidden + "@" + addr + "/locked", "the user ada with this password may not get /locked/g/anything: check user and password, or give that right (zk: not authenticated)", true},
		{"another user", "zk://bob:" + hidden + "@" + addr + "/locked", "the user bob with this password may not get", true},
		{"no user", "zk://" + addr + "/locked", "nobody, since the URL names no user, may not get", true},
		{"no password file", "zk://ada@" + addr + "?password-file=" + filepath.Join(t.TempDir(), "none"), "the password file: open", true},
		{"TLS at a port without", "zks://" + addr, addr, false},
	})
	for _, m := range []mistake{
		{"a denied verb", "zk://bob:" + hidden + "@" + addr + "/locked", "the user bob with this password may not create /locked/g/new", true},
		{"an unknown scheme", "zk://" + addr + "/odd?acl=nosuch:x:r", "check the URL's acl (zk: invalid ACL specified)", true},
	} {
		_, err := open(t, m.url).Put(t.Context(), "g/new", nil, 0)
		checkMistake(t, m, err)
	}
	_, err := open(t, "zk://"+addr).Put(t.Context(), "g/large", make([]byte, 1<<20), 0)
	checkMistake(t, mistake{name: "a large value", says: "the value of g/large has 1048576 bytes: ZooKeeper keeps 1040384 at most"}, err)
	if _, err := open(t, "zk://"+addr).Put(t.Context(), "large/largest", make([]byte, 1040384), 0); err != nil {
		t.Errorf("the largest value: %v", err)
	}
	if _, err := rota.New(rota.Config{Group: "g", Store: rotazk.Store("zk://h?x=y"), Source: rotatest.NewMemSource(1, "q"),
		Handle: func(context.Context, rota.Message) error { return nil }}); err == nil || !strings.Contains(err.Error(), "Config.Store: rotazk: the URL has an unknown parameter x") {
		t.Errorf("New returned %v", err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	s := open(t, "zk://127.0.0.1:1")
	reads(t, s)
	if _, err := s.Get(ctx, "k"); err == nil || !strings.Contains(err.Error(), "the last error was: 127.0.0.1:1: dial tcp") {
		t.Errorf("%v does not say what failed before", err)
	}
}

// reads makes a call, and leaves the store open.
func reads(t testing.TB, s rota.Store) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := s.Get(ctx, "g/anything")
	if errors.Is(err, rota.ErrNotFound) {
		err = nil
	}
	return err
}

// foreignNodes checks what becomes of nodes that rota did not write.
func foreignNodes(t *testing.T, addr string) {
	z := admin(t, addr, "")
	s := open(t, "zk://"+addr+"/foreign")
	rev, err := s.Put(t.Context(), "g/good", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"/foreign/g/bad", "/foreign/g/no.key", "/foreign/g/bad/child", "/foreign/g/good/child"} {
		if _, err := z.Create(node, []byte("hello"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	if shown := list(t, s, "g/"); len(shown) != 1 || shown["g/good"] != "v" {
		t.Errorf("a watch begins with %v", shown)
	}
	if _, err := s.Get(t.Context(), "g/bad"); err == nil || errors.Is(err, rota.ErrNotFound) || !strings.Contains(err.Error(), "not written by rota: remove it") {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.Put(t.Context(), "g/bad", nil, 0); !errors.Is(err, rota.ErrConflict) {
		t.Errorf("Put: %v", err)
	}
	if err := s.Delete(t.Context(), "g/good", rev); err == nil || !strings.Contains(err.Error(), "/foreign/g/good: it has children that rota did not make: remove them") {
		t.Errorf("Delete: %v", err)
	}
}

// formerLife deletes and creates a cell until its version is that of a former life: the
// former revision must not be good for anything.
func formerLife(t *testing.T, addr string) {
	s := open(t, "zk://"+addr+"/lives")
	var former rota.Rev
	for round := range 5 {
		rev, err := s.Put(t.Context(), "g/k", nil, 0)
		if err == nil {
			rev, err = s.Put(t.Context(), "g/k", nil, rev)
		}
		if err != nil {
			t.Fatal(err)
		}
		if former != 0 {
			if uint32(former) != uint32(rev) || former == rev {
				t.Fatalf("round %d: revision %x after %x: want the version of another life", round, rev, former)
			}
			if _, err := s.Put(t.Context(), "g/k", []byte("x"), former); !errors.Is(err, rota.ErrConflict) {
				t.Errorf("Put over a revision of a former life: %v", err)
			}
			if err := s.Delete(t.Context(), "g/k", former); !errors.Is(err, rota.ErrConflict) {
				t.Errorf("Delete at a revision of a former life: %v", err)
			}
		}
		if err := s.Delete(t.Context(), "g/k", rev); err != nil {
			t.Fatal(err)
		}
		former = rev
	}
}

// smallServer checks the error of a value that makes the server end the connection, as
// one with a smaller jute.maxbuffer does. A proxy stands for it.
func smallServer(t *testing.T, addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go carry(near, addr)
		}
	}()
	s := open(t, "zk://"+l.Addr().String()+"/small")
	if _, err := s.Put(t.Context(), "g/k", nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "g/large", bytes.Repeat([]byte("x"), 600<<10), 0); err == nil || !strings.Contains(err.Error(), "a server whose jute.maxbuffer is less than the 614400 bytes") {
		t.Errorf("Put: %v", err)
	}
	if err := reads(t, s); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// carry copies between two connections until 256 KiB came from the client.
func carry(near net.Conn, addr string) {
	defer near.Close()
	far, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		defer near.Close()
		copyAll(near, far, 1<<40)
	}()
	copyAll(far, near, 256<<10)
}

func copyAll(to, from net.Conn, most int) {
	buf := make([]byte, 32<<10)
	for total := 0; total < most; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		total += n
	}
}

// admin is a plain client, signed in if there is a digest user:password.
func admin(t testing.TB, addr, digest string) *zk.Conn {
	t.Helper()
	z, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	if digest != "" {
		if err := z.AddAuth("digest", []byte(digest)); err != nil {
			t.Fatal(err)
		}
	}
	return z
}
