package rotanats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A folder that another user has made, or may write to, can hold anything: links to
// files of ours that a server would overwrite, the address of that user's server. So
// it is refused, unless SharedFolder says that those users are trusted.

// SharedFolder allows the folder of an embedded server to belong to another user, or
// to be writable by others, as volumes that several containers mount often are.
// Whoever may write to it can then replace the records, and the server's address.
func SharedFolder() Option { return func(s *settings) { s.shared = true } }

// ReadFolder reads a small file of a server's folder, such as rota.address, unless
// another user can have written it.
func ReadFolder(dir, name string, opts ...Option) ([]byte, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	return f.load(name)
}

func openFolder(dir string, opts []Option) (folder, error) {
	set, err := read("folder:"+dir, opts)
	return set.place(), err
}

// WriteFolder opens a file of a server's folder for writing, empty, unless another
// user can have put it there. It follows no symbolic link.
func WriteFolder(dir, name string, opts ...Option) (*os.File, error) {
	set, err := read("embed:"+dir, nil)
	if err != nil {
		return nil, err
	}
	for _, o := range opts {
		o(set)
	}
	file, err := set.place().open(name, os.O_WRONLY|os.O_CREATE|nonBlock)
	if err != nil {
		return nil, err
	}
	return file, file.Truncate(0) // not before it is known to be ours
}

// place is the folder that the settings name.
func (s *settings) place() folder { return folder{s.folder, s.shared} }

var errForeign = errors.New("is not safe to use")

// foreign explains a refusal.
func (f folder) foreign(path, why string) error {
	return fmt.Errorf("%s %w: it %s; choose a folder of your own, or make this one yours with chown and chmod 700; "+
		"if everybody who may write there is trusted, say --shared-folder, or shared=true in an embed: URL", path, errForeign, why)
}

// private refuses a folder that others can have put something into. Of a symbolic
// link to it the owner counts as well.
func (f folder) private() error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(f.dir)
		if err != nil {
			return f.explain(err)
		}
		if why := strange(info); why != "" && !f.shared {
			return f.foreign("the folder "+f.dir, why)
		}
	}
	return nil
}

// open opens a file of the folder. It follows no symbolic link, and refuses what is
// no file.
func (f folder) open(name string, flags int) (*os.File, error) {
	if err := f.private(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.path(name), flags|noFollow, 0o600)
	if isLink(err) {
		return nil, f.foreign(f.path(name), "is a symbolic link")
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
	case !f.shared:
		why = strange(info)
	}
	if why != "" {
		err = f.foreign(f.path(name), why)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// load reads a small file.
func (f folder) load(name string) ([]byte, error) {
	file, err := f.open(name, os.O_RDONLY|nonBlock)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 1<<20))
}

// data refuses a folder of records that leads elsewhere.
func (f folder) data() error {
	info, err := os.Lstat(f.path(dataDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return f.explain(err)
	case !info.IsDir():
		return f.foreign(f.path(dataDir), "is not a folder")
	}
	if why := strange(info); why != "" && !f.shared {
		return f.foreign(f.path(dataDir), why)
	}
	return nil
}
