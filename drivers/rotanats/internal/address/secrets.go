package rotanats

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// leastSecret is how many bytes a password or a token has at least that other hosts
// can try. It is no measure of a good one: this keeps out what is guessed at once.
const leastSecret = 8

// guessable refuses a server that other hosts can reach and whose secret they would
// soon guess.
func (s *settings) guessable(address string) error {
	if address == "" || loopback(address) {
		return nil
	}
	for what, secret := range map[string]secret{"password": s.password, "token": s.token} {
		if n := len(secret); n > 0 && n < leastSecret {
			return fmt.Errorf("%s can be reached from other hosts, and its %s has %d bytes: whoever tries has guessed it soon; use %d or more, better 32 random ones, as from openssl rand -hex 16",
				address, what, n, leastSecret)
		}
	}
	return nil
}

// Exposed tells whether other users may read a file that holds a secret, and its mode.
func Exposed(file string) (mode fs.FileMode, exposed bool) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" {
		return 0, false // whoever reads it says what is wrong; modes mean nothing there
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o077 != 0
}

// warnExposed warns of files with secrets that other users may read.
func (s *settings) warnExposed() {
	for _, file := range []string{s.passwordFile, s.tokenFile, s.creds, s.key} {
		if mode, exposed := Exposed(file); exposed && file != "" {
			s.log.Warn("other users may read this secret: chmod 600", "file", file, "mode", fmt.Sprintf("%04o", mode))
		}
	}
}
