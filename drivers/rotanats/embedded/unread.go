package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// nats-server leaves out a stream whose description it cannot read, and removes the files
// of one whose messages it cannot read. Clients would find no bucket, create another, and
// take the group for a new one. So a folder with such a stream is not served, and files
// that cannot be read are looked for before nats-server sees them.

// whatToDo is the advice for a stream whose files are in dir.
func whatToDo(dir string) string {
	return fmt.Sprintf("put its files, %s, back from a backup; or move them away, to go on without what they hold: groups then begin anew", dir)
}

// streamDirs returns the folders of the streams that hold data.
func streamDirs(dir string) (list []string) {
	all, _ := filepath.Glob(filepath.Join(quoteGlob(dir), "jetstream", "*", "streams", "*")) // the pattern is correct
	for _, d := range all {
		if len(streamFiles(d)) > 0 {
			list = append(list, d)
		}
	}
	return list
}

// streamFiles returns the files of a stream that nats-server has to read. A folder
// without any is the rest of a stream that was just being created or deleted.
func streamFiles(dir string) (list []string) {
	for _, pattern := range []string{"meta.inf", "msgs/*.blk"} {
		files, _ := filepath.Glob(filepath.Join(quoteGlob(dir), pattern))
		list = append(list, files...)
	}
	return list
}

// quoteGlob makes a path a pattern that matches nothing else.
func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// checkFiles returns an error that names the files of streams which cannot be read. It
// reads the last byte of each, as far as a start should wait for.
func checkFiles(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		for _, name := range streamFiles(dir) {
			if err := readEnd(name); err != nil {
				errs = append(errs, fmt.Errorf("a file of the stream %s cannot be read (%w): %s", filepath.Base(dir), err, whatToDo(dir)))
			}
		}
	}
	return errors.Join(errs...)
}

func readEnd(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err != nil || size == 0 {
		return err
	} else if _, err := file.ReadAt(make([]byte, 1), size-1); err != nil {
		return err
	}
	return nil
}

// checkStreams returns an error that names the streams among dirs which nats-server does
// not serve. At the first start it logs those of which a part is lost.
func (s *Server) checkStreams(ns *server.Server, dirs []string, said *natsLog, first bool) error {
	var errs []error
	served := streams(ns)
	s.found = served
	for _, dir := range dirs {
		name := filepath.Base(dir)
		i := slices.IndexFunc(served, func(d server.StreamDetail) bool { return d.Name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("the stream %s cannot be read (%s): %s", name, said.about(name), whatToDo(dir)))
			continue
		}
		if !first {
			continue // after a full disk the end of a file is a write that was not acknowledged
		}
		bucket, state, lost := strings.HasPrefix(name, "KV_"), served[i].State, 0
		if said.about(name) != "" || bucket && state.NumDeleted < mostDeleted {
			lost = lostBytes(ns, name)
		}
		switch {
		case lost > 0:
			s.log.Error("a file of a stream is damaged, and what could not be read is lost: put its files back from a backup. After a power cut it can be a write that was never acknowledged",
				"stream", name, "files", dir, "bytes", lost)
		case bucket && state.Msgs == 0 && state.LastSeq > 0:
			s.log.Error("a bucket holds nothing, though records were written to it: unless you have deleted its groups, its files are damaged; put them back from a backup",
				"stream", name, "files", dir, "written", state.LastSeq)
		}
	}
	return errors.Join(errs...)
}

// streams returns the streams of nats-server.
func streams(ns *server.Server) []server.StreamDetail {
	d, err := ns.JszAccount(&server.JSzOptions{Account: ns.GlobalAccount().GetName(), Streams: true})
	if err != nil {
		return nil // nobody has used JetStream yet
	}
	return d.Streams
}

// mostDeleted is how many deleted messages a bucket may have to be asked for what it has
// lost without a reason: the answer lists them.
const mostDeleted = 10_000

// infoTime is the timeout of a request to nats-server in this process.
const infoTime = 10 * time.Second

// lostBytes returns how many bytes of a stream nats-server could not read; 0 also if it
// does not say.
func lostBytes(ns *server.Server, stream string) int {
	nc, err := nats.Connect("", nats.InProcessServer(ns), nats.NoReconnect(), nats.Timeout(infoTime))
	if err != nil {
		return 0
	}
	defer nc.Close()
	answer, err := nc.Request("$JS.API.STREAM.INFO."+stream, []byte(`{"deleted_details":true}`), infoTime)
	if err != nil {
		return 0
	}
	var info struct {
		State struct {
			Lost struct {
				Bytes int `json:"bytes"`
			} `json:"lost"`
		} `json:"state"`
	}
	if json.Unmarshal(answer.Data, &info) != nil {
		return 0
	}
	return info.State.Lost.Bytes
}

// about returns what nats-server said of a stream when it started.
func (l *natsLog) about(stream string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range slices.Backward(l.heard) {
		if strings.Contains(text, stream) {
			return text
		}
	}
	return ""
}
