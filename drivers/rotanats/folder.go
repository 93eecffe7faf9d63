package rotanats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
	"github.com/rota-dev/rota/internal/address"
)

// ErrNotServed means that no process serves the folder now.
var ErrNotServed = folder.ErrNotServed

// Served returns nil if a process serves the folder of an embed: or folder: URL now, an
// error that wraps ErrNotServed if none does, and another error if that is unknown.
func Served(url string) error {
	f, err := openFolder(url)
	if err != nil {
		return err
	}
	conn, err := f.Connect()
	if err != nil {
		return fmt.Errorf("rotanats: %w", err)
	}
	return conn.Close()
}

// ReadFolder reads a small file of the folder of an embed: or folder: URL, such as
// rota.address. It refuses a file that another user can have written.
func ReadFolder(url, name string) ([]byte, error) {
	f, err := openFolder(url)
	if err != nil {
		return nil, err
	}
	return f.Load(name)
}

// WriteFolder opens a file of the folder of an embed: or folder: URL for writing, and
// empties it. It refuses a file that another user can have put there, and follows no
// symbolic link.
func WriteFolder(url, name string) (*os.File, error) {
	f, err := openFolder(url)
	if err != nil {
		return nil, err
	}
	return f.Create(name)
}

func openFolder(url string) (folder.Folder, error) {
	s, err := read(url, nil)
	if err == nil && s.Folder == "" {
		err = errors.New("rotanats: the URL names no folder: write folder:DIR")
	}
	return s.AsFolder(), err
}

// Exposed tells whether other users may read a file, and returns its mode.
func Exposed(file string) (mode fs.FileMode, exposed bool) { return address.Exposed(file) }
