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

// ReadPassword returns the password. A file is read at every call, since it may be
// replaced.
func (s *Settings) ReadPassword() (Secret, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	b, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("the password file: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("the password file: %s is empty", s.PasswordFile)
	}
	return Secret(text), nil
}

// TLSConfig returns the TLS configuration of a connection. The files are read at every
// call, since certificates are replaced before they expire.
func (s *Settings) TLSConfig() (*tls.Config, error) {
	if s.TLS != nil {
		return s.TLS.Clone(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("the file of trusted certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file of trusted certificates: no certificate in %s", s.CA)
		}
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", filepath.Base(s.Cert), filepath.Base(s.Key), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Readable reads every file once and returns an error if one cannot be used.
func (s *Settings) Readable() error {
	if _, err := s.ReadPassword(); err != nil {
		return err
	}
	if !s.Secure {
		return nil
	}
	_, err := s.TLSConfig()
	return err
}

// WarnExposed logs a warning for each file with a secret that other users may read.
func (s *Settings) WarnExposed() {
	for _, file := range []string{s.PasswordFile, s.Key} {
		if mode, exposed := exposed(file); exposed {
			s.Log.Warn("other users may read this secret: chmod 600", "file", file, "mode", fmt.Sprintf("%04o", mode))
		}
	}
}

// exposed tells whether other users may read a file, and returns its mode.
func exposed(file string) (mode fs.FileMode, exposed bool) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" {
		return 0, false // an error shows when the file is read; Windows has no such modes
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o077 != 0
}
