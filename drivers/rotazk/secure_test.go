package rotazk_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/drivers/rotazk"
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

// An authority issues certificates into a folder.
type authority struct {
	t    testing.TB
	dir  string
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, dir string) *authority {
	a := &authority{t: t, dir: dir, file: filepath.Join(dir, "ca.pem")}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour)}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	a.write(a.file, "CERTIFICATE", der, err)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(file, kind string, der []byte, err error) {
	if err == nil {
		err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// issue writes a certificate that is good until then, its key, and both in one file.
func (a *authority) issue(name string, until time.Time) (cert, key, pair string) {
	a.t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	k := a.newKey()
	cert, key, pair = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"), filepath.Join(a.dir, name+"-pair.pem")
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	a.write(cert, "CERTIFICATE", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(k)
	a.write(key, "PRIVATE KEY", der, err)
	one, err := os.ReadFile(key)
	two, err2 := os.ReadFile(cert)
	if err != nil || err2 != nil {
		a.t.Fatal(err, err2)
	}
	if err := os.WriteFile(pair, slices.Concat(one, two), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pair
}

// TestTLS has one server that speaks TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, t.TempDir())
	_, _, pair := ca.issue("server", ca.cert.NotAfter)
	cert, key, _ := ca.issue("client", ca.cert.NotAfter)
	s := rotatest.StartZooKeeperTLS(t, pair, ca.file)
	good := s.URL() + "?ca=" + ca.file + "&cert=" + cert + "&key=" + key

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
		text, err := os.ReadFile(ca.file)
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
		own := s.URL() + "?ca=" + copyOf(ca.file) + "&cert=" + copyOf(cert) + "&key=" + copyOf(key)
		newAuthority(t, dir) // replaces the trusted one
		store := open(t, own)
		if err := reads(t, store); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("with another authority: %v", err)
		}
		copyOf(ca.file)
		if err := reads(t, store); err != nil {
			t.Errorf("with the right one again: %v", err)
		}
	})
	table(t, []mistake{
		{"another authority", s.URL() + "?ca=" + newAuthority(t, t.TempDir()).file + "&cert=" + cert + "&key=" + key, "certificate signed by unknown authority", false},
		{"no trusted authority", s.URL() + "?cert=" + cert + "&key=" + key, "certificate signed by unknown authority", false},
		{"no certificate of our own", s.URL() + "?ca=" + ca.file, "remote error: tls: ", false},
		{"no such CA file", s.URL() + "?ca=" + filepath.Join(t.TempDir(), "none"), "the file of trusted certificates: open", true},
		{"no certificate in the CA file", s.URL() + "?ca=" + key, "no certificate in", true},
		{"a key of another certificate", s.URL() + "?cert=" + cert + "&key=" + ca.file, "certificate client.pem with key ca.pem", true},
		{"an expired certificate", expired(t, ca), "certificate has expired", false},
		{"no TLS at a port for TLS", "zk://" + s.Addr(), "or wants TLS (zks://)", false},
	})
}

// expired is the URL of a server whose certificate has expired.
func expired(t testing.TB, ca *authority) string {
	cert, key, _ := ca.issue("expired", time.Now().Add(-time.Hour))
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
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
			go func() {
				defer c.Close()
				c.(*tls.Conn).Handshake()
			}()
		}
	}()
	return "zks://" + l.Addr().String() + "?ca=" + ca.file
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
