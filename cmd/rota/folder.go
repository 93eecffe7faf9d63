package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/spf13/cobra"
)

// defaultDir is the folder that rota up and rota serve keep their data in.
const defaultDir = "rota-data"

// upFile tells, within that folder, what rota up runs there.
const upFile = "rota.up"

// An upNote is what others must know to join in.
type upNote struct {
	Group  string `json:"group"`
	Source string `json:"source"` // parameters of an embed: URL
}

// source is the URL of the stream that it tells of.
func (n upNote) source(dir string) string {
	if n.Source == "" {
		return ""
	}
	return "embed:" + dir + "?" + n.Source
}

func writeUpNote(dir string, n upNote) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := writeFolder(dir, upFile)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

func readUpNote(dir string) (n upNote) {
	if b, err := readFolder(dir, upFile); err == nil {
		json.Unmarshal(b, &n) // without it --group and --source have to be given
	}
	return n
}

// sharedFolder is --shared-folder.
var sharedFolder atomic.Bool

// folderOptions say whether a folder may be one that others can write to.
func folderOptions() (opts []rotanats.Option) {
	if sharedFolder.Load() {
		opts = append(opts, rotanats.SharedFolder())
	}
	return opts
}

// readFolder reads a file of the folder, unless another user can have put it there.
func readFolder(dir, name string) ([]byte, error) {
	b, err := rotanats.ReadFolder(dir, name, folderOptions()...)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, natsWords(err)
	}
	return b, err
}

// writeFolder opens a file of the folder for writing, unless another user can have put
// it there, or a link.
func writeFolder(dir, name string) (*os.File, error) {
	f, err := rotanats.WriteFolder(dir, name, folderOptions()...)
	if err != nil {
		return nil, natsWords(err)
	}
	return f, nil
}

// served tells whether somebody serves the folder, or what to do about it.
func served(dir string) error {
	if _, err := readFolder(dir, "rota.address"); errors.Is(err, fs.ErrNotExist) {
		return cli.Coded(fmt.Errorf("no rota up or rota serve has run in %s: start one, name its folder with --dir, or say --store", dir), cli.ExitUnreachable)
	}
	err := rotanats.Served(dir, folderOptions()...)
	switch {
	case errors.Is(err, rotanats.ErrNotServed):
		return cli.Coded(fmt.Errorf("no rota up or rota serve runs in %s now: start one, or say --store", dir), cli.ExitUnreachable)
	case err != nil:
		return cli.Coded(fmt.Errorf("the server of %s: %w", dir, natsWords(err)), cli.ExitUnreachable)
	}
	return nil
}

// A target is the group that a command is about.
type target struct{ group, store, dir string }

func (t *target) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&t.group, "group", "", "the group (default: that of the rota up of this folder)")
	fl.StringVar(&t.store, "store", "", "where it meets: "+examples(stores)+" (default: the rota up or rota serve of this folder)")
	fl.StringVar(&t.dir, "dir", defaultDir, "the folder of that rota up or rota serve")
}

// fill fills in what the rota up or rota serve of this folder knows, unless the store
// is named. source is that of the rota up; "" if the folder has none.
func (t *target) fill() (source string, err error) {
	if t.store != "" {
		return "", nil
	}
	if err := served(t.dir); err != nil {
		return "", err
	}
	t.store = "folder:" + t.dir
	n := readUpNote(t.dir)
	t.group = cmp.Or(t.group, n.Group)
	return n.source(t.dir), nil
}

// folderSource is the source of this folder's rota up; "" if it has none.
func folderSource(dir string) (string, error) {
	if err := served(dir); err != nil {
		return "", err
	}
	return readUpNote(dir).source(dir), nil
}

// open connects to the group's store, as far as that can be told without asking.
// Commands that look, or give orders, make no bucket: a group begins with its first
// member.
func (t *target) open() (rota.Store, error) {
	if _, err := t.fill(); err != nil {
		return nil, err
	}
	if t.group == "" {
		return nil, cli.Usagef("--group is missing: say which group")
	}
	if dir, ok := strings.CutPrefix(t.store, "embed:"); ok {
		dir, _, _ = strings.Cut(dir, "?")
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no group called %q: there is no folder %s yet; a group begins with its first member", t.group, dir)
		}
	}
	return openStore(t.store, rotanats.AsItIs())
}
