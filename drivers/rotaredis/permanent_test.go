package rotaredis_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

// TestMistakes makes one mistake after another. Each is one clear line without a secret,
// and permanent if waiting does not help.
func TestMistakes(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	serverCert, serverKey := ca.Issue("server", time.Hour)
	clientCert, clientKey := ca.Issue("client", time.Hour)
	other := certs.New(t)
	otherCert, otherKey := other.Issue("client", time.Hour)

	open := rotatest.StartRedis(t)
	guarded := rotatest.StartRedisWith(t, rotatest.RedisSetup{Password: hidden})
	secure := rotatest.StartRedisWith(t, rotatest.RedisSetup{CA: ca.File, Cert: serverCert, Key: serverKey})
	fleet, _, replica := startSentinel(t, rotatest.RedisSetup{})
	node := startCluster(t, rotatest.RedisSetup{}, 0)
	admin(t, open)("SET", "rota:{orders}", "somebody else's")
	admin(t, open)("CONFIG", "SET", "appendfsync", "everysec")
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	mine := "?ca=" + ca.File + "&cert=" + clientCert + "&key=" + clientKey
	for what, c := range map[string]struct {
		url       string
		says      string
		permanent bool
	}{
		"no password":              {"redis://" + guarded.Addr(), "the server wants a password", true},
		"a wrong password":         {"redis://:x" + hidden + "@" + guarded.Addr(), "the server refuses this user or password", true},
		"a wrong user":             {"redis://ada:" + hidden + "@" + guarded.Addr(), "the server refuses this user or password", true},
		"a wrong password file":    {"redis://" + guarded.Addr() + "?password-file=" + file("x"+hidden), "the server refuses this user or password", true},
		"no password file":         {"redis://" + guarded.Addr() + "?password-file=none", "the password file: open none", true},
		"an empty password file":   {"redis://" + guarded.Addr() + "?password-file=" + file(" \n"), "is empty", true},
		"a bad URL":                {"redis://" + hidden + "@", "server 1 of the URL", true},
		"nobody listens":           {"redis://127.0.0.1:1", "connection refused", false},
		"an unknown host":          {"redis://no-such-host.invalid", "no-such-host.invalid", false},
		"another's key":            {open.URL(), "something in it that is not rota's: choose another prefix", true},
		"it does not sync":         {open.URL() + "?sync=always&prefix=x", "sync=always vouches for a server that has appendfsync everysec", true},
		"no CA":                    {"rediss://" + secure.Addr() + "?cert=" + clientCert + "&key=" + clientKey, "certificate signed by unknown authority", false},
		"another CA":               {"rediss://" + secure.Addr() + "?ca=" + other.File + "&cert=" + clientCert + "&key=" + clientKey, "certificate signed by unknown authority", false},
		"no certificate":           {"rediss://" + secure.Addr() + "?ca=" + ca.File, "certificate", false},
		"another's certificate":    {"rediss://" + secure.Addr() + "?ca=" + ca.File + "&cert=" + otherCert + "&key=" + otherKey, "certificate", false},
		"an expired certificate":   {"rediss://" + ca.Expired() + mine, "certificate has expired", false},
		"no CA file":               {"rediss://" + secure.Addr() + "?ca=none", "the file of trusted certificates: open none", true},
		"a CA file without one":    {"rediss://" + secure.Addr() + "?ca=" + clientKey, "no certificate in", true},
		"a key of another":         {"rediss://" + secure.Addr() + "?ca=" + ca.File + "&cert=" + clientCert + "&key=" + otherKey, "certificate client.pem with key", true},
		"without TLS":              {"redis://" + secure.Addr(), "does it want TLS?", false},
		"TLS where there is none":  {"rediss://" + open.Addr(), "does the server speak TLS?", false},
		"an unknown master":        {strings.Replace(fleet.URL(), rotatest.RedisMaster, "other", 1), "knows no master other", true},
		"a server as a Sentinel":   {"redis+sentinel://" + open.Addr() + "/m", "it is no Sentinel: write redis://HOST", true},
		"a Sentinel as a server":   {"redis://" + fleet.names[0].Addr(), "it is a Sentinel: write redis+sentinel://", true},
		"a server as a Cluster":    {"redis+cluster://" + open.Addr(), "it is no node of a Cluster: write redis://HOST", true},
		"a Cluster as a server":    {"redis://" + node.Nodes[0].Addr(), "it is a node of a Cluster: write redis+cluster://", true},
		"a replica":                {replica.URL(), "is a read-only replica of 127.0.0.1:", true},
		"a database out of range":  {open.URL() + "/99", "DB index is out of range", false},
		"no Sentinel of several":   {"redis+sentinel://127.0.0.1:1,127.0.0.1:2/m", "127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; 127.0.0.1:2: dial", false},
		"no server of several":     {"redis://127.0.0.1:1,127.0.0.1:2", "connection refused; 127.0.0.1:2", false},
		"several without a master": {"redis://" + replica.Addr() + ",127.0.0.1:1", "the failover is not over; 127.0.0.1:1", false},
	} {
		t.Run(what, func(t *testing.T) {
			s := rotaredis.Store(c.url)
			err := works(t, s)
			silent(t, what, err, s)
			switch {
			case err == nil || !strings.Contains(err.Error(), c.says):
				t.Errorf("%v, want %q", err, c.says)
			case strings.Contains(err.Error(), "\n"):
				t.Errorf("more than a line: %v", err)
			case errors.Is(err, rota.ErrPermanent) != c.permanent:
				t.Errorf("permanent is %v of %v", !c.permanent, err)
			}
		})
	}
	if err := works(t, rotaredis.Store("rediss://"+secure.Addr()+mine)); err != nil {
		t.Errorf("with CA, certificate and key: %v", err)
	}
	if err := works(t, rotaredis.Store("redis://"+guarded.Addr()+"?password-file="+file(hidden+"\n"))); err != nil {
		t.Errorf("with a password file: %v", err)
	}
}

// TestAValueThatIsTooLargeIsRefused checks that no such value is sent.
func TestAValueThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	s := rotaredis.Store("redis://127.0.0.1:1")
	defer s.Close()
	if _, err := s.Put(t.Context(), "g/k", make([]byte, 1<<20+1), 0); err == nil || !strings.Contains(err.Error(), "the value of g/k has 1048577 bytes, more than 1048576") {
		t.Error(err)
	}
}

// TestAServerThatEvictsIsRefused makes a server evict records, and stops that: the same
// store then works.
func TestAServerThatEvictsIsRefused(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedis(t)
	do := admin(t, r)
	s := rotaredis.Store(r.URL())
	defer s.Close()
	do("CONFIG", "SET", "maxmemory", "100mb")
	do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	_, err := s.Get(t.Context(), "g/k")
	if !errors.Is(err, rota.ErrPermanent) || !strings.Contains(err.Error(), "set maxmemory-policy to noeviction") {
		t.Errorf("with allkeys-lru: %v", err)
	}
	do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	if _, err := s.Get(t.Context(), "g/k"); !errors.Is(err, rota.ErrNotFound) {
		t.Errorf("with volatile-lru: %v", err)
	}
}

// TestAFullServerRefusesWritesInWords fills a server that evicts nothing.
func TestAFullServerRefusesWritesInWords(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedis(t)
	do := admin(t, r)
	s := rotaredis.Store(r.URL())
	defer s.Close()
	rev, err := s.Put(t.Context(), "g/k", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	do("CONFIG", "SET", "maxmemory", "1")
	if _, err := s.Put(t.Context(), "g/k", []byte("v"), rev); err == nil || !strings.Contains(err.Error(), "no memory left for writes: raise maxmemory") {
		t.Errorf("a write: %v", err)
	}
	if e, err := s.Get(t.Context(), "g/k"); err != nil || e.Rev != rev {
		t.Errorf("after it: %v, %v", e, err)
	}
	do("CONFIG", "SET", "maxmemory", "0")
	if _, err := s.Put(t.Context(), "g/k", []byte("v"), rev); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestClass learns the class of servers by their identity, as a member does.
func TestClass(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedis(t)
	host, port, _ := strings.Cut(r.Addr(), ":")
	do := admin(t, r)
	class := func(url string) rota.Class {
		t.Helper()
		s := rotaredis.Store(url)
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := s.(rota.Identifier).Identity(ctx); err != nil {
			t.Error(err)
		}
		return s.(rota.Classifier).Class()
	}
	want := func(what, url string, want rota.Class) {
		t.Helper()
		if got := class(url); got != want {
			t.Errorf("%s is of class %v, want %v", what, got, want)
		}
	}
	want("a server that syncs", r.URL(), rota.ClassB)
	want("one of several", r.URL()+",localhost:"+port, rota.ClassC)
	do("ACL", "SETUSER", "mute", "on", ">"+hidden, "~*", "&*", "+@all", "-config")
	mute := "redis://mute:" + hidden + "@" + r.Addr()
	want("a server that does not tell", mute, rota.ClassC)
	want("a server that is vouched for", mute+"?sync=always", rota.ClassB)
	replica := rotatest.StartRedis(t)
	admin(t, replica)("REPLICAOF", host, port)
	eventually(t, "the replica is known", func(context.Context) error {
		if n := info(do, "connected_slaves"); n != "1" {
			return errors.New(n)
		}
		return nil
	})
	want("a server with a replica", r.URL(), rota.ClassC)
	admin(t, replica)("REPLICAOF", "NO", "ONE")
	want("a replica that was promoted", replica.URL(), rota.ClassC)
	do("CONFIG", "SET", "appendfsync", "everysec")
	want("a server that syncs every second", r.URL(), rota.ClassC)
	do("CONFIG", "SET", "appendonly", "no")
	want("a server in memory", r.URL(), rota.ClassC)
}
