package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A folder that another user has created, or may write to, can contain anything, such as
// links to files of ours that a server would overwrite, or the address of that user's
// server. So it is refused, unless Shared says that those users are trusted.

// ErrForeign means that another user can have put a file or folder there.
var ErrForeign = errors.New("is not safe to use")

// foreign returns the error for a path that is not safe.
func (f Folder) foreign(path, why string) error {
	return fmt.Errorf("%s %w: it %s; choose a folder of your own, or make this one yours with chown and chmod 700; "+
		"if everybody who may write there is trusted, give --shared-folder, or shared=true in an embed: URL", path, ErrForeign, why)
}

// private refuses a folder into which other users can have put files. If the path is a
// symbolic link, the owner of the link counts as well.
func (f Folder) private() error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(f.Dir)
		if err != nil {
			return f.Explain(err)
		}
		if why := untrusted(info); why != "" && !f.Shared {
			return f.foreign("the folder "+f.Dir, why)
		}
	}
	return nil
}

// Open opens a file of the folder. It follows no symbolic link, and refuses anything but a
// regular file.
func (f Folder) Open(name string, flags int) (*os.File, error) {
	if err := f.private(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.Path(name), flags|noFollow, 0o600)
	if isLink(err) {
		return nil, f.foreign(f.Path(name), "is a symbolic link")
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	why := ""
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		why = "is not a file"
	case !f.Shared:
		why = untrusted(info)
	}
	if why != "" {
		err = f.foreign(f.Path(name), why)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Load reads the first MiB of a file.
func (f Folder) Load(name string) ([]byte, error) {
	file, err := f.Open(name, os.O_RDONLY|NonBlock)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 1<<20))
}

// Data refuses a data folder that is a symbolic link or that another user can have
// written to.
func (f Folder) Data() error {
	info, err := os.Lstat(f.Path(dataDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return f.Explain(err)
	case !info.IsDir():
		return f.foreign(f.Path(dataDir), "is not a folder")
	}
	if why := untrusted(info); why != "" && !f.Shared {
		return f.foreign(f.Path(dataDir), why)
	}
	return nil
}

// Create opens a file of the folder for writing, and empties it.
func (f Folder) Create(name string) (*os.File, error) {
	file, err := f.Open(name, os.O_WRONLY|os.O_CREATE|NonBlock)
	if err != nil {
		return nil, err
	}
	return file, file.Truncate(0) // not by O_TRUNC, before the file is known to be ours
}
