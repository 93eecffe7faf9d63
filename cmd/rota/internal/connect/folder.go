package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// DefaultDir is the folder that rota up and rota serve keep their data in.
const DefaultDir = "rota-data"

// Dir is the value of --dir, DefaultDir unless it is set.
func Dir(v *string) pflag.Value {
	*v = DefaultDir
	return (*dirFlag)(v)
}

type dirFlag string

func (f *dirFlag) String() string { return string(*f) }
func (f *dirFlag) Type() string   { return "string" }

func (f *dirFlag) Set(s string) error {
	if strings.Contains(s, "?") {
		return errors.New("a folder with ? in its name cannot be used, since parameters of a URL begin there")
	}
	*f = dirFlag(s)
	return nil
}

// upFile tells, within that folder, what rota up runs there.
const upFile = "rota.up"

// An Note is what others must know to join in.
type Note struct {
	Group  string `json:"group"`
	Source string `json:"source"` // parameters of an embed: URL
}

// source is the URL of the stream that it tells of.
func (n Note) source(dir string) string {
	if n.Source == "" {
		return ""
	}
	return "embed:" + dir + "?" + n.Source
}

func WriteNote(dir string, n Note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := WriteFolder(dir, upFile)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// FolderPartitions is how many partitions the last rota up of this folder had; 0 if there
// was none.
func FolderPartitions(dir string) int {
	n, _ := strconv.Atoi(cli.Parameters("embed:" + dir + "?" + readUpNote(dir).Source).Get("partitions"))
	return n
}

func readUpNote(dir string) (n Note) {
	if b, err := readFolder(dir, upFile); err == nil {
		json.Unmarshal(b, &n) // without it --group and --source have to be given
	}
	return n
}

// SharedFolder is --shared-folder.
var SharedFolder atomic.Bool

// FolderURL adds to the URL of a folder that it may be one that others can write to,
// if --shared-folder says so.
func FolderURL(raw string) string {
	if scheme, _, _ := strings.Cut(raw, ":"); SharedFolder.Load() && (scheme == "embed" || scheme == "folder") {
		return WithParameter(raw, "shared=true")
	}
	return raw
}

// WithParameter adds a parameter to a URL.
func WithParameter(raw, parameter string) string {
	if strings.Contains(raw, "?") {
		return raw + "&" + parameter
	}
	return raw + "?" + parameter
}

// readFolder reads a file of the folder, unless another user can have put it there.
func readFolder(dir, name string) ([]byte, error) {
	b, err := rotanats.ReadFolder(FolderURL("folder:"+dir), name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Words(err)
	}
	return b, err
}

// WriteFolder opens a file of the folder for writing, unless another user can have put
// it there, or a link.
func WriteFolder(dir, name string) (*os.File, error) {
	f, err := rotanats.WriteFolder(FolderURL("folder:"+dir), name)
	if err != nil {
		return nil, Words(err)
	}
	return f, nil
}

// served tells whether somebody serves the folder, or what to do about it: instead is
// the flag that names a server.
func served(dir, instead string) error {
	if _, err := readFolder(dir, "rota.address"); errors.Is(err, fs.ErrNotExist) {
		return cli.Coded(fmt.Errorf("no rota up or rota serve has run in %s: start one, name its folder with --dir, or say %s", dir, instead), cli.ExitUnreachable)
	}
	err := rotanats.Served(FolderURL("folder:" + dir))
	switch {
	case errors.Is(err, rotanats.ErrNotServed):
		return cli.Coded(fmt.Errorf("no rota up or rota serve runs in %s now: start one, or say %s", dir, instead), cli.ExitUnreachable)
	case err != nil:
		return cli.Coded(fmt.Errorf("the server of %s: %w", dir, Words(err)), cli.ExitUnreachable)
	}
	return nil
}

// A Target is the group that a command is about.
type Target struct{ Group, Store, Dir string }

func (t *Target) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.Group, "group", "", "the group (default: that of the rota up of this folder)")
	t.StoreFlags(cmd)
}

// StoreFlags are those of a command about all groups of a store.
func (t *Target) StoreFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&t.Store, "store", "", "where it meets: "+StoreExamples()+" (default: the rota up or rota serve of this folder)")
	fl.Var(Dir(&t.Dir), "dir", "the folder of that rota up or rota serve")
}

// Fill fills in what the rota up or rota serve of this folder knows, unless the store
// is named. source is that of the rota up; "" if the folder has none.
func (t *Target) Fill() (source string, err error) {
	if t.Store != "" {
		return "", nil
	}
	if err := served(t.Dir, "--store"); err != nil {
		return "", err
	}
	t.Store = "folder:" + t.Dir
	n := readUpNote(t.Dir)
	t.Group = cmp.Or(t.Group, n.Group)
	return n.source(t.Dir), nil
}

// FolderSource is the source of this folder's rota up; "" if it has none.
func FolderSource(dir string) (string, error) {
	if err := served(dir, "--source"); err != nil {
		return "", err
	}
	return readUpNote(dir).source(dir), nil
}

// FolderNames are the partitions that the group of this folder's rota up has, those
// included that were added by order; none if the group cannot be read.
func FolderNames(ctx context.Context, dir string) (out []string) {
	store, err := LookAt("folder:" + dir)
	if err != nil {
		return nil
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(ctx, StoreTime)
	defer cancel()
	st, err := rota.Inspect(ctx, store, readUpNote(dir).Group)
	if err != nil {
		return nil
	}
	for _, p := range st.Partitions {
		if p.Reason != rota.ReasonRemoved {
			out = append(out, p.Name)
		}
	}
	return out
}

// Open connects to the group's store, as far as that can be told without asking.
// Commands that look, or give orders, make no bucket: a group begins with its first
// member.
func (t *Target) Open() (rota.Store, error) {
	if _, err := t.Fill(); err != nil {
		return nil, err
	}
	if t.Group == "" {
		return nil, cli.Usagef("--group is missing: say which group")
	}
	if dir, ok := noFolder(t.Store); ok {
		return nil, fmt.Errorf("there is no group called %q: there is no folder %s yet; a group begins with its first member", t.Group, dir)
	}
	return LookAt(t.Store)
}

// noFolder returns the folder that a store's URL names, if it is not there.
func noFolder(store string) (dir string, missing bool) {
	dir, embed := strings.CutPrefix(store, "embed:")
	dir, _, _ = strings.Cut(dir, "?")
	if !embed {
		return "", false
	}
	_, err := os.Stat(dir)
	return dir, errors.Is(err, fs.ErrNotExist)
}

// OpenAll is Open for a command about all groups of a store.
func (t *Target) OpenAll() (rota.Store, error) {
	if _, err := t.Fill(); err != nil {
		return nil, err
	}
	if dir, ok := noFolder(t.Store); ok {
		return nil, fmt.Errorf("there is no group: there is no folder %s yet; a group begins with its first member", dir)
	}
	return LookAt(t.Store)
}
