package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A Snapshot is a copy of what a server had on disk, kept in its Dir.
type Snapshot struct{ dir string }

// Snapshot copies the data of a stopped or frozen server. Of a frozen one it is
// what a kill at that moment would have left.
func (s *Server) Snapshot() (Snapshot, error) {
	if err := s.must("snapshot", stopped, frozen); err != nil {
		return Snapshot{}, err
	}
	s.copies++
	snap := Snapshot{s.path(fmt.Sprintf("snapshot-%d", s.copies))}
	if err := copyTree(snap.dir, s.data()); err != nil {
		return Snapshot{}, s.failed("snapshot", err)
	}
	return snap, nil
}

// Restore puts a snapshot in the place of the data of a stopped server. It can
// be restored again later.
func (s *Server) Restore(snap Snapshot) error {
	if err := s.must("restore", stopped); err != nil {
		return err
	}
	if _, err := os.Stat(snap.dir); err != nil {
		return s.failed("restore", err)
	}
	err := os.RemoveAll(s.data())
	if err == nil {
		err = copyTree(s.data(), snap.dir)
	}
	if err != nil {
		return s.failed("restore", err)
	}
	return nil
}

// copyTree copies directories, files and links. Sockets and the like mean
// nothing without the process that made them.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch info.Mode().Type() {
		case fs.ModeDir:
			return os.Mkdir(dest, info.Mode().Perm()|0o700)
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, dest)
		case 0:
			return copyFile(dest, path, info)
		}
		return nil
	})
}

// copyFile leaves holes where the original has zeros: most of these servers
// reserve many megabytes before they have anything to write.
func copyFile(to, from string, info fs.FileInfo) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	block := make([]byte, 64<<10)
	zeros := make([]byte, len(block))
	var at int64
	for {
		n, err := io.ReadFull(in, block)
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return out.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}
