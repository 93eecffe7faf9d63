// Package certs issues certificates for tests, as files.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// An Authority is the certificate authority of a test.
type Authority struct {
	Dir  string // of all files
	File string // its own certificate

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	dir := t.TempDir()
	a := &Authority{t: t, Dir: dir, File: filepath.Join(dir, "ca.pem")}
	a.Renew()
	return a
}

// Renew replaces the authority by another one in the same file. Certificates that it has
// issued stay as they are.
func (a *Authority) Renew() {
	a.t.Helper()
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(2 * time.Hour)}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	a.write(a.File, "CERTIFICATE", der, err)
}

// Issue makes NAME.pem and NAME.key, a certificate of 127.0.0.1 for servers and clients
// alike. It expires after valid, which may be in the past.
func (a *Authority) Issue(name string, valid time.Duration) (cert, key string) {
	a.t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	k := a.newKey()
	cert, key = filepath.Join(a.Dir, name+".pem"), filepath.Join(a.Dir, name+".key")
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	a.write(cert, "CERTIFICATE", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(k)
	a.write(key, "PRIVATE KEY", der, err)
	return cert, key
}

// Pair issues a certificate and returns one file with it and its key.
func (a *Authority) Pair(name string, valid time.Duration) string {
	a.t.Helper()
	cert, key := a.Issue(name, valid)
	one, err := os.ReadFile(key)
	two, err2 := os.ReadFile(cert)
	if err != nil || err2 != nil {
		a.t.Fatal(err, err2)
	}
	pair := filepath.Join(a.Dir, name+"-pair.pem")
	if err := os.WriteFile(pair, slices.Concat(one, two), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// Parameters are those of a URL for a client with the certificate NAME.
func (a *Authority) Parameters(name string) string {
	return "ca=" + a.File + "&cert=" + filepath.Join(a.Dir, name+".pem") + "&key=" + filepath.Join(a.Dir, name+".key")
}

// Expired accepts connections with a certificate that has expired, until the test ends.
func (a *Authority) Expired() (addr string) {
	a.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.Issue("expired", -time.Minute))
	if err != nil {
		a.t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(io.Discard, c)
			}()
		}
	}()
	return l.Addr().String()
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *Authority) write(file, kind string, der []byte, err error) {
	a.t.Helper()
	if err == nil {
		err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}
