package rotaetcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

// secured is a server with TLS, that asks for certificates, and for a user.
type secured struct {
	*rotatest.RealServer
	ca *certs.Authority
}

func startSecured(t *testing.T) *secured {
	t.Helper()
	ca := certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	ca.Issue("root", time.Hour)
	ca.Issue("orders-member", time.Hour)
	ca.Issue("nobody", time.Hour)
	ca.Issue("expired", -time.Minute)
	s := &secured{rotatest.StartEtcd(t, "--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca.File, "--client-cert-auth"), ca}
	c, err := rotaetcd.TLSOf(s.url("", "root"))
	if err != nil {
		t.Fatal(err)
	}
	newAdmin(t, s.Addr(), credentials.NewTLS(c)).run(commandsOf(t))
	return s
}

// url is the address for a user, with a password or without, and a certificate.
func (s *secured) url(user, cert string) string {
	return "etcds://" + user + s.Addr() + "?" + s.ca.Parameters(cert)
}

// works returns an error if a key cannot be written and read.
func works(t testing.TB, s rota.Store) error {
	t.Helper()
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := s.Put(ctx, "orders/k", []byte("v"), 0)
	if err == nil || errors.Is(err, rota.ErrConflict) {
		_, err = s.Get(ctx, "orders/k")
	}
	return err
}

// TestSignIn tries the ways to sign in that the page names.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(hidden+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"a password":                     s.url("orders-member:"+hidden+"@", "nobody"),
		"a password in a file":           s.url("orders-member@", "nobody") + "&password-file=" + file,
		"the common name of certificate": s.url("", "orders-member"),
	} {
		if err := works(t, rotaetcd.Store(url)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnExpiredTokenIsRenewed uses a server whose tokens last for a second.
func TestAnExpiredTokenIsRenewed(t *testing.T) {
	t.Parallel()
	s := rotatest.StartEtcd(t, "--auth-token-ttl", "1")
	newAdmin(t, s.Addr(), insecure.NewCredentials()).run(commandsOf(t))
	c := rotaetcd.Store("etcd://orders-member:" + hidden + "@" + s.Addr())
	defer c.Close()
	rev, err := c.Put(t.Context(), "orders/k", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	old := rotaetcd.TokenOf(c)
	for deadline := time.Now().Add(time.Minute); rotaetcd.TokenOf(c) == old; {
		time.Sleep(3 * time.Second) // a token lives as long as it is used
		if rev, err = c.Put(t.Context(), "orders/k", nil, rev); err != nil {
			t.Fatalf("a write after the token has expired: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the token does not expire")
		}
	}
}

// TestMistakesAreOneClearLine makes every mistake that a server or its absence shows.
func TestMistakesAreOneClearLine(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	open := rotatest.StartEtcd(t, "--max-request-bytes", "100000")
	other := certs.New(t)
	none := filepath.Join(t.TempDir(), "none")
	web := newWeb(t)
	full, learner := newFake(t), newFake(t)
	full.answer(after(0, nil, status.Error(codes.ResourceExhausted, "etcdserver: mvcc: database space exceeded")))
	learner.answer(func(context.Context) (*pb.TxnResponse, error) {
		return nil, status.Error(codes.FailedPrecondition, "etcdserver: rpc not supported for learner")
	})
	password := "orders-member:" + hidden + "@"
	for what, c := range map[string]struct {
		url       string
		permanent bool
		says      string
	}{
		"a wrong password":       {s.url("orders-member:x"+hidden+"@", "nobody"), true, "etcd refuses the user orders-member or the password: correct the URL"},
		"an unknown user":        {s.url("ada:"+hidden+"@", "nobody"), true, "etcd refuses the user ada or the password"},
		"no right to write":      {s.url("observer:"+hidden+"@", "nobody"), true, "observer has no right to do this: grant it"},
		"a certificate's user":   {s.url("", "nobody"), true, "the user of the client certificate has no right to do this"},
		"another CA":             {"etcds://" + password + s.Addr() + "?ca=" + other.File, false, "certificate signed by unknown authority"},
		"no client certificate":  {"etcds://" + password + s.Addr() + "?ca=" + s.ca.File, false, "client certificate: give one of its CA"},
		"an expired certificate": {s.url(password, "expired"), false, "client certificate: give one of its CA that has not expired"},
		"no TLS":                 {"etcd://" + password + s.Addr(), false, "if it wants TLS, write etcds://"},
		"TLS where there is no":  {"etcds://" + open.Addr(), false, "if it has no TLS, write etcd://"},
		"nobody listens":         {"etcd://127.0.0.1:1", false, "connection refused"},
		"an unknown host":        {"etcd://no-such-host.invalid", false, "no such host"},
		"a web server":           {"etcd://" + web, false, "127.0.0.1"},
		"a value over the limit": {"etcd://" + open.Addr(), false, "the value is larger than etcd allows: raise --max-request-bytes"},
		"a full disk":            {urlOf(full), false, "etcd has used up its space"},
		"a learner":              {urlOf(learner), false, "rpc not supported for learner"},
		"no password file":       {s.url("orders-member@", "nobody") + "&password-file=" + none, true, "the password file: open " + none},
		"no CA file":             {"etcds://" + s.Addr() + "?ca=" + none, true, "the file of trusted certificates: open " + none},
		"no certificate file":    {"etcds://" + s.Addr() + "?cert=" + none + "&key=" + none, true, "certificate none with key none"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			store := rotaetcd.Store(c.url)
			defer store.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := store.Put(ctx, "orders/k", make([]byte, 200_000), 1)
			if err == nil || errors.Is(err, rota.ErrConflict) {
				t.Fatalf("it works: %v", err)
			}
			t.Log(err)
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "rotaetcd: etcd") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("it says %q, want %q", err, c.says)
			}
			if errors.Is(err, rota.ErrPermanent) != c.permanent {
				t.Errorf("permanent is %v of %v", !c.permanent, err)
			}
			silent(t, err, store)
		})
	}
}

// newWeb listens and answers like a web server.
func newWeb(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			c.Close()
		}
	}()
	return l.Addr().String()
}

// TestNewRefusesWhatCannotWork checks that mistakes in a URL are found before anything is
// dialled.
func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"etcd//h":         "Config.Store: rotaetcd: not an address of etcd",
		"etcd://h?nods=3": "Config.Store: rotaetcd: the URL has an unknown parameter nods",
		"etcd://u@h":      "Config.Store: rotaetcd: a user without a password",
	} {
		_, err := rota.New(rota.Config{Group: "g", Store: rotaetcd.Store(url), Source: rotatest.NewMemSource(1, "q"), Handle: func(context.Context, rota.Message) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New returned %v, want %q", err, says)
		}
		if err := works(t, rotaetcd.Store(url)); !errors.Is(err, rota.ErrPermanent) {
			t.Errorf("a call of %s: %v", url, err)
		}
	}
}

// silent fails the test if a secret is in anything that can be printed.
func silent(t testing.TB, things ...any) {
	t.Helper()
	for _, x := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if text := fmt.Sprintf(verb, x); strings.Contains(text, hidden) || strings.Contains(text, fmt.Sprintf("%x", hidden)) {
				t.Errorf("%s tells the secret: %s", verb, text)
			}
		}
	}
}

// TestCertificatesAreReadAnew replaces a client's certificate by a file that is none while
// the server starts again: calls name the cause, and succeed once the file is mended.
func TestCertificatesAreReadAnew(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	c := rotaetcd.Store(s.url("", "orders-member"))
	defer c.Close()
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Get(ctx, "orders/k")
		return err
	}
	if err := get(); !errors.Is(err, rota.ErrNotFound) {
		t.Fatal(err)
	}
	file := filepath.Join(s.ca.Dir, "orders-member.pem")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(file, []byte("none"), 0o600), s.Kill(), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "calls name the cause", func() bool {
		err := get()
		return err != nil && strings.Contains(err.Error(), "certificate orders-member.pem with key orders-member.key")
	})
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "calls succeed", func() bool { return errors.Is(get(), rota.ErrNotFound) })
}
