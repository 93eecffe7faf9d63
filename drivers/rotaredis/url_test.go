package rotaredis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url  string
		want string // String, or a part of the error
		ok   bool
	}{
		{"redis://a", "redis://a:6379", true},
		{"redis://a:1,b:2/", "redis://a:1,b:2", true},
		{"redis://a/3", "redis://a:6379/3", true},
		{"redis://a?db=3", "redis://a:6379/3", true},
		{"rediss://[::1]:5", "rediss://[::1]:5", true},
		{"redis://[::1]", "redis://[::1]:6379", true},
		{"redis://a?ca=x.pem", "rediss://a:6379", true},
		{"redis://:p@a", "redis://a:6379", true},
		{"redis://u:p%40ss@a", "redis://a:6379", true},
		{"redis://u@a?password-file=f", "redis://a:6379", true},
		{"redis://a?prefix=x&sync=always&name=n", "redis://a:6379", true},
		{"redis+sentinel://s1,s2:1/my.master", "redis+sentinel://s1:26379,s2:1/my.master", true},
		{"redis+sentinel://s1/m?db=2&sentinel-user=u&sentinel-password-file=f", "redis+sentinel://s1:26379/m", true},
		{"rediss+sentinel://s1/m", "rediss+sentinel://s1:26379/m", true},
		{"redis+sentinel://s1/m?cert=c&key=k", "rediss+sentinel://s1:26379/m", true},
		{"redis+cluster://a,b:2", "redis+cluster://a:6379,b:2", true},
		{"rediss+cluster://a", "rediss+cluster://a:6379", true},
		{"", "not an address of Redis", false},
		{"redis:a", "write redis://HOST:PORT", false},
		{"nats://a", "not an address of Redis", false},
		{"redis://", "server 1 of the URL is not a HOST:PORT", false},
		{"redis://a,b:x", "server 2 of the URL is not a HOST:PORT", false},
		{"redis://a:70000", "server 1 of the URL", false},
		{"redis://a/orders", "the path of the URL is the number of a database", false},
		{"redis://a/-1", "the number of a database", false},
		{"redis+cluster://a/0", "the URL of a Cluster ends behind its hosts", false},
		{"redis+sentinel://a", "does not name the master", false},
		{"redis+sentinel://a/m/2", "does not name the master", false},
		{"redis://a?prefx=x", "an unknown parameter prefx; known are ca, cert, db, ", false},
		{"redis://a?prefix=a:b", `prefix "a:b": use A-Z`, false},
		{"redis://a?name=a%20b", `name "a b": use A-Z`, false},
		{"redis://a?sync=sometimes", `sync: want "always", not "sometimes"`, false},
		{"redis://a?db=x", `db: want a number from 0 to 1048575, not "x"`, false},
		{"redis://a?sentinel-user=u", "sentinel-user: it is for redis+sentinel://: leave it out", false},
		{"redis+sentinel://a/m?sync=always", "sync: a failover may lose acknowledged writes", false},
		{"redis+cluster://a?sync=always", "sync: a failover may lose acknowledged writes", false},
		{"redis+cluster://a?db=1", "db: a Cluster has one database only", false},
		{"redis://a,b?sync=always", "sync=always with several servers", false},
		{"redis+sentinel://a/m?sentinel-user=u", "sentinel-user needs sentinel-password-file", false},
		{"redis://a?cert=x", "cert and key: give both", false},
		{"redis://u@a", "a user without a password", false},
		{"redis://u:p@a?password-file=f", "a password and a password-file", false},
		{"redis://a?x=%", "parameters after ? cannot be read", false},
		{"redis://%zz@a", "not escaped correctly", false},
	} {
		s, err := read(c.url, nil)
		got := s.String()
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != c.ok || c.ok && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.url, got, c.want)
		}
	}
}

const concealed = "hunter2SECRET"

func FuzzURL(f *testing.F) {
	for _, a := range []string{"redis://a", "redis://u:p@a:1,b:2/3?prefix=x", "rediss://:t@[::1]:5?ca=x&cert=y&key=z", "redis+sentinel://a,b/m?db=1", "redis+cluster://a", "redis://a?sync=always&%", "redis://@:,@?=&;"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, url string) {
		s, err := read(url, nil)
		if err == nil {
			again, err := read(s.String(), nil)
			if err != nil || !slices.Equal(again.Servers, s.Servers) || again.kind != s.kind || again.Secure != s.Secure || again.master != s.master || again.db != s.db && s.kind == single {
				t.Errorf("%q is %v, and that is %v, %v", url, s, again, err)
			}
		}
		_, rest, _ := strings.Cut(url, "://")
		for _, secretive := range []string{"redis://u:" + concealed + "@" + rest, "redis+sentinel://:" + concealed + "@" + rest, rest + "//u:" + concealed + "@a"} {
			s, err := read(secretive, nil)
			store := Store(secretive)
			if text := fmt.Sprintf("%v %+v %#v %s %q %x %v %v %+v %#v", s, s, s, s, s, s, err, store, store, store); strings.Contains(text, concealed) {
				t.Errorf("%q tells its secret: %s", secretive, text)
			}
		}
	})
}

func TestCells(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"1.0 ", true}, {"1.16777215 a b", true}, {"1099511627775.1 x", true},
		{"", false}, {"1.0", false}, {"1 x", false}, {"0.1 x", false}, {"1.16777216 x", false}, {"1099511627776.1 x", false},
		{"-1.1 x", false}, {"01.1 x", false}, {"1.01 x", false}, {"+1.1 x", false}, {"a.b x", false}, {" 1.1 x", false},
	} {
		if rev, _, err := openCell(c.text); (err == nil) != c.ok {
			t.Errorf("%q: revision %d, %v", c.text, rev, err)
		}
	}
}

func FuzzCell(f *testing.F) {
	f.Add("1.0 ")
	f.Add("12.345 value with spaces")
	f.Add("007.1 x")
	f.Fuzz(func(t *testing.T, text string) {
		rev, value, err := openCell(text)
		if err == nil && (rev == 0 || revText(rev)+" "+string(value) != text) {
			t.Errorf("%q is %q at %d", text, value, rev)
		}
	})
}

func FuzzNews(f *testing.F) {
	f.Add("1 /member/x")
	f.Add("18446744073709551616 ")
	f.Fuzz(func(t *testing.T, text string) {
		if n, field, ok := openNews(text); ok && (n == 0 || !strings.HasSuffix(text, " "+field)) {
			t.Errorf("%q is %q at %d", text, field, n)
		}
	})
}

func TestFacts(t *testing.T) {
	const master = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:abc\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:1\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid2:000\r\nsecond_repl_offset:-1\r\n"
	for _, c := range []struct {
		name, from, to string
		fsync          string
		lax, vouched   bool
		id             string
		class          rota.Class
		refused        string
	}{
		{name: "it syncs always", fsync: "always", id: "abc", class: rota.ClassB},
		{name: "not during a rewrite", fsync: "always", lax: true, id: "abc", class: rota.ClassC},
		{name: "it syncs every second", fsync: "everysec", id: "abc", class: rota.ClassC},
		{name: "it does not tell", id: "abc", class: rota.ClassC},
		{name: "it does not tell, and the URL does", vouched: true, id: "abc", class: rota.ClassB},
		{name: "the URL is wrong", vouched: true, fsync: "everysec", id: "abc", class: rota.ClassC, refused: "appendfsync everysec"},
		{name: "no file", from: "aof_enabled:1", to: "aof_enabled:0", fsync: "", id: "abc", class: rota.ClassC},
		{name: "no file, and the URL vouches", from: "aof_enabled:1", to: "aof_enabled:0", vouched: true, id: "abc", class: rota.ClassC, refused: "writes no append-only file"},
		{name: "a replica", from: "connected_slaves:0", to: "connected_slaves:1", fsync: "always", id: "abc", class: rota.ClassC},
		{name: "promoted", from: "master_replid2:000\r\nsecond_repl_offset:-1", to: "master_replid2:def\r\nsecond_repl_offset:7", fsync: "always", id: "abc def:7", class: rota.ClassC},
		{name: "it evicts", from: "maxmemory:0", to: "maxmemory:100", fsync: "always", id: "abc", class: rota.ClassB, refused: "maxmemory-policy allkeys-lru"},
		{name: "it evicts what expires", from: "maxmemory:0\r\nmaxmemory_policy:allkeys-lru", to: "maxmemory:1\r\nmaxmemory_policy:volatile-lru", fsync: "always", id: "abc", class: rota.ClassB},
		{name: "a Sentinel", from: "redis_mode:standalone", to: "redis_mode:sentinel", fsync: "always", id: "abc", class: rota.ClassB, refused: "it is a Sentinel"},
		{name: "a node of a Cluster", from: "redis_mode:standalone", to: "redis_mode:cluster", fsync: "always", id: "abc", class: rota.ClassB, refused: "write redis+cluster://"},
	} {
		f, err := readInfo(strings.Replace(master, c.from, c.to, 1))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		f.fsync, f.lax = c.fsync, c.lax
		if f.identity() != c.id || f.class(c.vouched) != c.class {
			t.Errorf("%s: %q of class %v", c.name, f.identity(), f.class(c.vouched))
		}
		err = (&settings{synced: c.vouched}).suits(f)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
	}
}

func FuzzInfo(f *testing.F) {
	f.Add("redis_mode:standalone\r\nrun_id:abc\r\nrole:slave\r\nmaster_host:h\r\nmaster_port:1\r\n")
	f.Add("a:b:c\n:\n#x:y\nsecond_repl_offset:9")
	f.Fuzz(func(t *testing.T, text string) {
		if info, err := readInfo(text); err == nil && info.identity() == "" {
			t.Errorf("%q has no identity", text)
		}
	})
}

func TestSlots(t *testing.T) {
	l := &link{set: &settings{kind: cluster}}
	for group, want := range map[string]int{"b": 3300, "c": 7365, "123456789": 12739} { // as CLUSTER KEYSLOT says
		if got := l.slot(group); got != want {
			t.Errorf("the slot of %s is %d, want %d", group, got, want)
		}
	}
	at := func(from, to int64, node ...any) any { return []any{from, to, node, []any{"replica", int64(9)}} }
	ranges := []any{at(0, 99, "a", int64(1)), "odd", []any{int64(1)}, at(100, 199, "", int64(2)), at(200, 299, "b"), at(300, 399, "c", "x"), at(400, 499, nil, int64(4))}
	for slot, want := range map[int]string{0: "a:1", 99: "a:1", 100: "me:2", 250: "", 350: "", 400: "me:4", 500: ""} {
		if got := slotMaster(ranges, slot, "me"); got != want {
			t.Errorf("the master of slot %d is %q, want %q", slot, got, want)
		}
	}
	for text, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381": "127.0.0.1:6381", "ASK 1 [::1]:5": "[::1]:5", "MOVED 1 :7": "from:7", "MOVED 1 ::1:7": "[::1]:7", "MOVED 1": "", "MOVED 1 x": "", "MOVED 1 a:b": "",
	} {
		if got, ok := target(errors.New(text), "from:1"); got != want || ok != (want != "") {
			t.Errorf("%s leads to %q, want %q", text, got, want)
		}
	}
}
