package line

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Tail reads a file of event lines that is still being written.
type Tail struct {
	name string
	f    *os.File
	rest []byte // of a line that is not whole yet
	buf  []byte
}

// Follow reads the file from its beginning; it need not exist yet.
func Follow(name string) *Tail { return &Tail{name: name, buf: make([]byte, 1<<16)} }

// Read gives each line that has become whole since the last time to take. A line
// without its end stays until the end comes; of a killed process it never does.
func (t *Tail) Read(take func(Line)) error {
	if t.f == nil {
		f, err := os.Open(t.name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		t.f = f
	}
	for {
		n, err := t.f.Read(t.buf)
		t.rest = append(t.rest, t.buf[:n]...)
		if bad := t.cut(take); bad != nil {
			return bad
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (t *Tail) cut(take func(Line)) error {
	at := 0
	for {
		n := bytes.IndexByte(t.rest[at:], '\n')
		if n < 0 {
			break
		}
		if text := bytes.TrimSpace(t.rest[at : at+n]); len(text) > 0 {
			l, err := Parse(text)
			if err != nil {
				return &fs.PathError{Op: "follow", Path: t.name, Err: err}
			}
			take(l)
		}
		at += n + 1
	}
	t.rest = append(t.rest[:0], t.rest[at:]...)
	return nil
}

// Close closes the file.
func (t *Tail) Close() error {
	if t.f == nil {
		return nil
	}
	return t.f.Close()
}
