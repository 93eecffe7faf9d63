package rotazk_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

const hidden = "hunter2SECRET" // in passwords

// silent checks that the secret is not in what is printed.
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

// TestTLS has one server that speaks TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	pair := ca.Pair("server", time.Hour)
	cert, key := ca.Issue("client", time.Hour)
	s := rotatest.StartZooKeeperTLS(t, pair, ca.File)
	good := s.URL() + "?ca=" + ca.File + "&cert=" + cert + "&key=" + key

	t.Run("mTLS", func(t *testing.T) {
		first := open(t, good)
		for n := 0; reads(t, first) != nil && n < 5; n++ { // the server is slow until it has loaded its code
		}
		if err := works(t, open(t, good)); err != nil {
			t.Error(err)
		}
		if err := works(t, open(t, strings.Replace(good, "zks://", "zk://", 1))); err != nil {
			t.Errorf("ca implies TLS: %v", err)
		}
	})
	t.Run("the option TLS", func(t *testing.T) {
		loaded, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		text, err := os.ReadFile(ca.File)
		if err != nil || !roots.AppendCertsFromPEM(text) {
			t.Fatal(err)
		}
		if err := works(t, open(t, s.URL(), rotazk.TLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{loaded}}))); err != nil {
			t.Error(err)
		}
	})
	t.Run("certificates are read anew", func(t *testing.T) {
		dir := t.TempDir()
		copyOf := func(file string) string {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(dir, filepath.Base(file))
			if err := os.WriteFile(to, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return to
		}
		own := s.URL() + "?ca=" + copyOf(ca.File) + "&cert=" + copyOf(cert) + "&key=" + copyOf(key)
		text, err := os.ReadFile(certs.New(t).File)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "ca.pem"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		store := open(t, own)
		if err := reads(t, store); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("with another authority: %v", err)
		}
		copyOf(ca.File)
		if err := reads(t, store); err != nil {
			t.Errorf("with the right one again: %v", err)
		}
	})
	table(t, []mistake{
		{"another authority", s.URL() + "?ca=" + certs.New(t).File + "&cert=" + cert + "&key=" + key, "certificate signed by unknown authority", false},
		{"no trusted authority", s.URL() + "?cert=" + cert + "&key=" + key, "certificate signed by unknown authority", false},
		{"no certificate of our own", s.URL() + "?ca=" + ca.File, "remote error: tls: ", false},
		{"no such CA file", s.URL() + "?ca=" + filepath.Join(t.TempDir(), "none"), "the file of trusted certificates: open", true},
		{"no certificate in the CA file", s.URL() + "?ca=" + key, "no certificate in", true},
		{"a key of another certificate", s.URL() + "?cert=" + cert + "&key=" + ca.File, "certificate client.pem with key ca.pem", true},
		{"an expired certificate", "zks://" + ca.Expired() + "?ca=" + ca.File, "certificate has expired", false},
		{"no TLS at a port for TLS", "zk://" + s.Addr(), "or wants TLS (zks://)", false},
	})
}

// exposedSecret checks that a store logs a secret that others may read, once.
func exposedSecret(t *testing.T, addr string) {
	file := filepath.Join(t.TempDir(), "password")
	for mode, times := range map[os.FileMode]int{0o600: 0, 0o644: 1} {
		if err := os.WriteFile(file, []byte(hidden), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		s := open(t, "zk://ada@"+addr+"?password-file="+file, rotazk.Log(slog.New(slog.NewTextHandler(&said, nil))))
		if err := works(t, s); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(said.String(), "other users may read this secret"); n != times || times > 0 && !strings.Contains(said.String(), "0644") {
			t.Errorf("mode %04o: logged %d times:\n%s", mode, n, said.String())
		}
		silent(t, "the log and the store", said.String(), s)
	}
}
