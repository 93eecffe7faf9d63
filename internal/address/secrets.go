package address

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Files with passwords and certificates are replaced while members run, so drivers read
// them for every connection.

// A Secret prints as xxxxx.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "xxxxx"
}

// Format covers every verb, %x and %#v too.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// ReadSecret reads a file that contains a secret, such as a password, and nothing else.
func ReadSecret(what, file string) (Secret, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the %s file: %w", what, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("the %s file: %s is empty", what, file)
	}
	return Secret(text), nil
}

// ReadPassword returns the password of the URL or of its file.
func (c *Common) ReadPassword() (Secret, error) {
	if c.PasswordFile == "" {
		return c.Password, nil
	}
	return ReadSecret("password", c.PasswordFile)
}

// Readable reads every file once and returns an error if one cannot be used.
func (c *Common) Readable() error {
	if _, err := c.ReadPassword(); err != nil {
		return err
	}
	if !c.Secure {
		return nil
	}
	_, err := c.TLSConfig()
	return err
}

// TLSConfig returns the TLS configuration of a client.
func (c *Common) TLSConfig() (*tls.Config, error) {
	if c.TLS != nil {
		return c.TLS.Clone(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pool, err := c.Trusted()
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if c.Cert != "" {
		pair, err := c.Pair()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Pair reads the own certificate and its key.
func (c *Common) Pair() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return pair, fmt.Errorf("certificate %s with key %s: %w", filepath.Base(c.Cert), filepath.Base(c.Key), err)
	}
	return pair, nil
}

// Trusted reads the certificates of the authorities that are trusted.
func (c *Common) Trusted() (*x509.CertPool, error) {
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("the file of trusted certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the file of trusted certificates: no certificate in %s", c.CA)
	}
	return pool, nil
}

// Exposed tells whether other users may read a file, and returns its mode.
func Exposed(file string) (mode fs.FileMode, exposed bool) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" {
		return 0, false // an error shows when the file is read; Windows has no such modes
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o077 != 0
}

// WarnExposed logs a warning for each file with a secret that other users may read: the
// password, the key, and more.
func (c *Common) WarnExposed(more ...string) {
	for _, file := range append([]string{c.PasswordFile, c.Key}, more...) {
		if mode, exposed := Exposed(file); exposed {
			c.Log.Warn("other users may read this secret: chmod 600", "file", file, "mode", fmt.Sprintf("%04o", mode))
		}
	}
}
