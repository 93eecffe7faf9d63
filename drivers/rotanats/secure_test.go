package rotanats_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/internal/certs"
)

const hidden = "hunter2SECRET"

// works returns an error if a store cannot be written and read.
func works(t testing.TB, s rota.Store) error {
	t.Helper()
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	rev, err := s.Put(ctx, "k", []byte("v"), 0)
	if errors.Is(err, rota.ErrConflict) {
		_, err = s.Get(ctx, "k")
		return err
	}
	if err == nil && rev == 0 {
		return errors.New("revision 0")
	}
	return err
}

// silent fails the test if a secret is in anything that can be printed.
func silent(t testing.TB, what string, things ...any) {
	t.Helper()
	for _, x := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if text := fmt.Sprintf(verb, x); strings.Contains(text, hidden) || strings.Contains(text, fmt.Sprintf("%x", hidden)) {
				t.Errorf("%s: %s tells the secret: %s", what, verb, text)
			}
		}
	}
}

// serve runs an open server that clients reach by TCP.
func serve(t testing.TB) *embedded.Server {
	t.Helper()
	return serveBy(t, "nats://HOST?open=true")
}

// serveBy runs a server that clients reach by TCP, as the URL says.
func serveBy(t testing.TB, url string) *embedded.Server {
	t.Helper()
	return serveTCP(t, filepath.Join(t.TempDir(), "data"), url)
}

// serveTCP serves a folder at a free port of 127.0.0.1, too, which replaces HOST in the
// URL. The port is outside the kernel's range for outgoing connections: otherwise a client
// that dials a server which is gone could get that very port, and connect to itself.
func serveTCP(t testing.TB, dir, url string) *embedded.Server {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; { // the port may be taken meanwhile
		host := fmt.Sprintf("127.0.0.1:%d", 14222+mrand.IntN(32000-14222))
		s, err := embedded.Serve("embed:"+dir, strings.Replace(url, "HOST", host, 1))
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if !strings.Contains(err.Error(), "the port is taken") || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// with adds parameters to a URL, which may already have some.
func with(url, query string) string {
	if strings.Contains(url, "?") {
		return url + "&" + query
	}
	return url + "?" + query
}

func TestSigningIn(t *testing.T) {
	t.Parallel()
	byUser := serveBy(t, "nats://ada:"+hidden+"@HOST")
	byToken := serveBy(t, "nats://HOST?token="+hidden)
	silent(t, "server", byUser, byToken)
	for _, c := range []struct {
		name string
		s    rota.Store
		ok   bool
	}{
		{"user by URL", rotanats.Store("nats://ada:" + hidden + "@" + byUser.Addr()), true},
		{"token by URL", rotanats.Store("nats://" + hidden + "@" + byToken.Addr()), true},
		{"token by parameter", rotanats.Store(byToken.URL() + "?token=" + hidden), true},
		{"nobody", rotanats.Store(byUser.URL()), false},
		{"wrong password", rotanats.Store("nats://ada:x" + hidden + "@" + byUser.Addr()), false},
		{"wrong token", rotanats.Store(byToken.URL() + "?token=x" + hidden), false},
		{"password as token", rotanats.Store(byUser.URL() + "?token=" + hidden), false},
	} {
		silent(t, c.name, c.s, rota.Config{Store: c.s})
		err := works(t, c.s)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		silent(t, c.name, err)
		if err != nil && !strings.Contains(err.Error(), "Authorization Violation") {
			t.Errorf("%s: %v, want it to name the violation", c.name, err)
		}
	}
}

// TestSecretsAreNotTold looks for secrets in the errors of unreachable and of wrong
// addresses.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"nats://u:" + hidden + "@127.0.0.1:1", "nats://" + hidden + "@127.0.0.1:1", "tls://u:" + hidden + "@127.0.0.1:1?ca=none.pem",
		"nats://127.0.0.1:1?token=" + hidden, "nats://u:" + hidden + "@", "nats://u:" + hidden + "%zz@a", "nats://u:" + hidden + "?x@a",
		"http://u:" + hidden + "@a", "nats://u:" + hidden + "@a:b:c", hidden,
	} {
		s := rotanats.Store(address)
		src := rotanats.Source(with(address, "stream=S&subject=s.*"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err1 := s.Get(ctx, "k")
		_, err2 := src.Partitions(ctx)
		cancel()
		if err1 == nil || err2 == nil {
			t.Errorf("an address that leads nowhere works")
		}
		silent(t, "an address", s, src, err1, err2, rotanats.Check(address), rota.Config{Store: s, Source: src})
	}
	dir := t.TempDir()
	silent(t, "embedded", embedded.Store("embed:"+dir+"?token="+hidden))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	serverCert, serverKey := ca.Issue("server", time.Hour)
	clientCert, clientKey := ca.Issue("client", time.Hour)
	other := certs.New(t)
	otherCert, otherKey := other.Issue("client", time.Hour)
	oneWay := serveBy(t, "nats://HOST?cert="+serverCert+"&key="+serverKey+"&token="+hidden)
	bothWays := serveBy(t, "nats://HOST?cert="+serverCert+"&key="+serverKey+"&ca="+ca.File+"&token="+hidden)
	for _, c := range []struct {
		name    string
		address string
		ok      bool
	}{
		{"CA", "tls://" + oneWay.Addr() + "?ca=" + ca.File, true},
		{"CA with both certificates", "tls://" + bothWays.Addr() + "?ca=" + ca.File + "&cert=" + clientCert + "&key=" + clientKey, true},
		{"without a CA", "tls://" + oneWay.Addr(), false},
		{"another CA", "tls://" + oneWay.Addr() + "?ca=" + other.File, false},
		{"without a client's certificate", "tls://" + bothWays.Addr() + "?ca=" + ca.File, false},
		{"another's certificate", "tls://" + bothWays.Addr() + "?ca=" + ca.File + "&cert=" + otherCert + "&key=" + otherKey, false},
		{"no such file", "tls://" + oneWay.Addr() + "?ca=" + ca.File + ".no", false},
		{"not a certificate", "tls://" + oneWay.Addr() + "?ca=" + serverKey, false},
	} {
		err := works(t, rotanats.Store(with(c.address, "token="+hidden)))
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		silent(t, c.name, err)
	}
}

// TestCredentialsFile signs in to a server that trusts an operator.
func TestCredentialsFile(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	operator, err := nkeys.CreateOperator()
	must(err)
	account, err := nkeys.CreateAccount()
	must(err)
	user, err := nkeys.CreateUser()
	must(err)
	public := func(k nkeys.KeyPair) string {
		p, err := k.PublicKey()
		must(err)
		return p
	}
	system, err := nkeys.CreateAccount()
	must(err)
	sysText, err := jwt.NewAccountClaims(public(system)).Encode(operator)
	must(err)
	op := jwt.NewOperatorClaims(public(operator))
	op.SystemAccount = public(system)
	acc := jwt.NewAccountClaims(public(account))
	acc.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	accText, err := acc.Encode(operator)
	must(err)
	userText, err := jwt.NewUserClaims(public(user)).Encode(account)
	must(err)
	seed, err := user.Seed()
	must(err)
	creds, err := jwt.FormatUserConfig(userText, seed)
	must(err)
	file := filepath.Join(t.TempDir(), "user.creds")
	must(os.WriteFile(file, creds, 0o600))

	resolver := &server.MemAccResolver{}
	must(resolver.Store(public(account), accText))
	must(resolver.Store(public(system), sysText))
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		TrustedOperators: []*jwt.OperatorClaims{op}, AccountResolver: resolver, SystemAccount: public(system)})
	must(err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	must(works(t, rotanats.Store(ns.ClientURL()+"?creds="+file)))
	if err := works(t, rotanats.Store(ns.ClientURL())); err == nil {
		t.Error("without credentials it works, too")
	}
	if err := works(t, rotanats.Store(ns.ClientURL()+"?creds="+file+".no")); err == nil || !strings.Contains(err.Error(), "credentials file") {
		t.Errorf("with a file that is not there: %v", err)
	}
}

// TestServeIsNotOpenByMistake checks that an incomplete secret, such as a user without a
// password, is refused and does not count as no secret.
func TestServeIsNotOpenByMistake(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	for name, c := range map[string]struct {
		url  string
		opts []rotanats.Option
		says string
	}{
		"a password without a user":  {"nats://:" + hidden + "@HOST", nil, "give both"},
		"a user without a password":  {"nats://ada:@HOST", nil, "give both"},
		"half of it beside a token":  {"nats://:" + hidden + "@HOST?token=" + hidden, nil, "give both"},
		"a client's credentials":     {"nats://HOST?creds=user.creds", nil, "they are for clients"},
		"a CA without a certificate": {"nats://HOST?token=" + hidden + "&ca=" + ca.File, nil, "nobody could connect"},
		"tls without a certificate":  {"tls://HOST?token=" + hidden, nil, "nobody could connect"},
		"TLS without a certificate":  {"nats://HOST?token=" + hidden, []rotanats.Option{rotanats.TLS(&tls.Config{MinVersion: tls.VersionTLS12})}, "nobody could connect"},
		"a password file, no user":   {"nats://HOST?password-file=" + ca.File, nil, "password-file needs a user"},
		"no such token file":         {"nats://HOST?token-file=" + ca.File + ".no", nil, "the token file"},
		"two addresses":              {"nats://HOST,127.0.0.1:14224?token=" + hidden, nil, "one address"},
		"a folder":                   {"embed:data", nil, "one address"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		s, err := embedded.Serve("embed:"+dir, strings.Replace(c.url, "HOST", "127.0.0.1:14223", 1), c.opts...)
		if err == nil {
			open := works(t, rotanats.Store(s.URL()))
			s.Close()
			t.Errorf("%s: it serves, and to somebody who does not sign in it answers %v", name, open)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		silent(t, name, err)
	}
}

// TestFolderAsksForNothing checks that clients of the socket need no secret, whatever TCP
// clients need.
func TestFolderAsksForNothing(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	for name, url := range map[string]string{
		"a token":        "nats://HOST?token=" + hidden,
		"a password":     "nats://ada:" + hidden + "@HOST",
		"a certificate":  "nats://HOST?cert=" + cert + "&key=" + key,
		"certificates":   "nats://HOST?cert=" + cert + "&key=" + key + "&ca=" + ca.File,
		"the folder key": "nats://HOST",
	} {
		dir := filepath.Join(t.TempDir(), "data")
		s := serveTCP(t, dir, url)
		for _, url := range []string{"folder:" + dir, "embed:" + dir} {
			if err := works(t, embedded.Store(url)); err != nil {
				t.Errorf("%s: %s: %v", name, url, err)
			}
		}
		if err := works(t, rotanats.Store(s.URL())); err == nil {
			t.Errorf("%s: by TCP it asks for nothing", name)
		}
		s.Close()
	}
}

// TestUnencryptedServerIsTold checks the warning of a server beyond loopback without TLS,
// whose secrets can be read on the network.
func TestUnencryptedServerIsTold(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	for name, c := range map[string]struct {
		query  string
		warned bool
	}{
		"in clear":           {"", true},
		"with a certificate": {"&cert=" + cert + "&key=" + key, false},
	} {
		var said strings.Builder
		var s *embedded.Server
		for deadline := time.Now().Add(30 * time.Second); s == nil; { // the port may be taken meanwhile
			l, err := net.Listen("tcp", "0.0.0.0:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := l.Addr().String()
			l.Close()
			said.Reset()
			_, port, _ := net.SplitHostPort(addr)
			log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
			s, err = embedded.Serve("embed:"+filepath.Join(t.TempDir(), "data"), "nats://0.0.0.0:"+port+"?token="+hidden+c.query, rotanats.Log(log))
			if err != nil && time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		s.Close()
		if warned := strings.Contains(said.String(), "travel unencrypted"); warned != c.warned {
			t.Errorf("%s: it says %q", name, said.String())
		}
		silent(t, name, said.String())
	}
}
