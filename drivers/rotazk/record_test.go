package rotazk

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/rota-dev/rota"
)

func TestKeysBecomeNodes(t *testing.T) {
	for key, ok := range map[string]bool{
		"a": true, "a/b-c/_D": true, strings.Repeat("k", 128): true,
		"": false, "/a": false, "a/": false, "a//b": false, "a.b": false, "a:b": false, "=": false, "a b": false, "ä": false, strings.Repeat("k", 129): false,
	} {
		if err := checkKey(key); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
		if got, is := keyOf(paths(key)); ok && (got != key || !is) {
			t.Errorf("%q comes back as %q", key, got)
		}
	}
	s := &store{newLink("zk://h/x", nil)}
	seen := map[string]string{}
	for _, key := range []string{"a", "a/b", "a/b/c", "a/bc", "a-b", "ab", "ab/c"} {
		_, node := s.node(key)
		if seen[node] != "" || strings.Count(node, "/") != 3 {
			t.Errorf("%s is %s, as is %q", key, node, seen[node])
		}
		seen[node] = key
	}
}

func TestRevisionsHaveTwoParts(t *testing.T) {
	for _, version := range []int32{0, 1, 1<<31 - 1} {
		l := newLife()
		if gotLife, got := split(revision(l, version)); l == 0 || gotLife != l || got != version {
			t.Errorf("version %d of %d comes back as %d of %d", version, l, got, gotLife)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte{format, 0, 0, 0, 1, 'x'}, int32(0))
	f.Add([]byte{format, 0, 0, 0, 0}, int32(1))
	f.Add([]byte{}, int32(-1))
	f.Fuzz(func(t *testing.T, b []byte, version int32) {
		e, err := entry("k", b, &zk.Stat{Version: version})
		if err == nil && (e.Rev == 0 || e.Key != "k" || !bytes.Equal(e.Value, b[headerSize:])) {
			t.Errorf("%x is %v", b, e)
		}
		l := newLife()
		back, err := entry("k", encode(l, b), &zk.Stat{Version: version})
		if err != nil || !bytes.Equal(back.Value, b) || back.Rev != revision(l, version) || back.Rev == rota.Rev(0) {
			t.Errorf("%x comes back as %v, %v", b, back, err)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("g", "member:x")
	f.Add("g", alone)
	f.Add("g", "a/b")
	f.Add("g/h", "a")
	f.Fuzz(func(t *testing.T, parent, name string) {
		key, ok := keyOf(parent, name)
		if !ok {
			return
		}
		if p, n := paths(key); p != parent || n != name {
			t.Errorf("%s, %s is the key %s, and that is %s, %s", parent, name, key, p, n)
		}
	})
}

func FuzzVoters(f *testing.F) {
	f.Add("server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:observer;0.0.0.0:3\nversion=0")
	f.Add("server.1=a:1:2\n=\nserver.")
	f.Fuzz(func(t *testing.T, config string) {
		if n := voters(config); n < 0 || n > strings.Count(config, "server.") {
			t.Errorf("%d voters in %q", n, config)
		}
	})
}

func TestVoters(t *testing.T) {
	for config, want := range map[string]int{
		"": 0, "version=0": 0,
		"server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:observer;0.0.0.0:3\nserver.3=c:1:2\nversion=100000000": 2,
	} {
		if got := voters(config); got != want {
			t.Errorf("%q has %d voters, want %d", config, got, want)
		}
	}
}
