package address

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// TLSConfig returns the TLS configuration of one connection. Certificate files are read
// each time, since they are replaced before they expire.
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

// WarnExposed logs a warning for each file with a secret that other users may read.
func (s *Settings) WarnExposed() {
	for _, file := range []string{s.PasswordFile, s.Key} {
		info, err := os.Stat(file)
		if file == "" || err != nil || runtime.GOOS == "windows" {
			continue // an error shows when the file is read; Windows has no such modes
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			s.Log.Warn("other users may read this secret: chmod 600", "file", file, "mode", fmt.Sprintf("%04o", mode))
		}
	}
}
