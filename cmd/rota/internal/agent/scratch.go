package agent

import (
	"os"
	"sync"
)

// A scratch is a folder for the files that commands read. It is made with the first
// file, so that a member without commands leaves no trace.
type scratch struct {
	once sync.Once
	dir  string
	err  error
}

// open makes the folder, whose name begins with prefix, if it is not there yet. It is in
// memory if it can be, since handlers wait until a file is written; TMPDIR names another
// place.
func (s *scratch) open(prefix string) (dir string, err error) {
	s.once.Do(func() {
		s.err = os.ErrNotExist
		if os.Getenv("TMPDIR") == "" {
			s.dir, s.err = os.MkdirTemp("/dev/shm", prefix)
		}
		if s.err != nil {
			s.dir, s.err = os.MkdirTemp("", prefix)
		}
	})
	return s.dir, s.err
}

// share makes it the folder that another one has made.
func (s *scratch) share(made *scratch) {
	s.once.Do(func() { s.dir, s.err = made.dir, made.err })
}

// close removes the folder.
func (s *scratch) close() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// replaceFile writes a file at one instant: a reader finds all of the old text or all of
// the new.
func replaceFile(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
