package address

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// Exposed tells whether other users may read a file, and returns its mode.
func Exposed(file string) (mode fs.FileMode, exposed bool) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" {
		return 0, false // an error shows when the file is read; Windows has no such modes
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o077 != 0
}

// WarnExposed logs a warning for each file with a secret that other users may read.
func (s *Settings) WarnExposed() {
	for _, file := range []string{s.PasswordFile, s.TokenFile, s.Creds, s.Key} {
		if mode, exposed := Exposed(file); exposed && file != "" {
			s.Log.Warn("other users may read this secret: chmod 600", "file", file, "mode", fmt.Sprintf("%04o", mode))
		}
	}
}
