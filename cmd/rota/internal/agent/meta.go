package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/rota-dev/rota"
)

// metaText is metadata as commands and servers get it: an object of JSON in one line of
// ASCII.
func metaText(m rota.Meta) string {
	if len(m) == 0 {
		return "{}"
	}
	return asciiJSON(m)
}

// asciiJSON is a value as JSON in one line of ASCII, since a header of a request can
// carry nothing else.
func asciiJSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null" // maps and lists of strings can always be encoded
	}
	var out []byte
	for _, r := range string(bytes.TrimSpace(b.Bytes())) {
		switch {
		case r < utf8.RuneSelf && r != 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return string(out)
}

// metaFiles are the files in which commands that run for long, those of --own, find the
// metadata of their partitions as it is now. The folder is made with the first file.
type metaFiles struct{ scratch }

const codeMetaFile rota.Condition = "no-metadata-file"

// follow writes the metadata of a partition to a file, which it replaces at each change
// until forget is called. A command can do without the file: if it cannot be written,
// there is none, and a condition says so.
func (f *metaFiles) follow(own rota.Ownership) (file string, forget func()) {
	dir, err := f.open("rota-meta-")
	h := fnv.New64a()
	h.Write([]byte(own.Partition()))
	file = filepath.Join(dir, fmt.Sprintf("%016x-%d.json", h.Sum64(), own.Token()))
	meta, changed := own.Meta()
	if err == nil {
		err = replaceFile(file, metaText(meta))
	}
	if err != nil {
		own.Tell(codeMetaFile, fmt.Sprintf("its command runs without a file of its metadata: %v", err))
		return "", func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				os.Remove(file)
				return
			case <-changed:
			}
			meta, changed = own.Meta()
			if err := replaceFile(file, metaText(meta)); err != nil {
				own.Tell(codeMetaFile, fmt.Sprintf("the file of its metadata is old: %v", err))
			}
		}
	}()
	return file, func() {
		close(stop)
		<-ended
	}
}
