package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// nats-server leaves out a stream that it cannot read, and serves the others. Clients
// would find no bucket, create another, and take the group for a new one. So a folder
// with such a stream is not served.

// readable returns an error that names the streams which nats-server has not read, and
// logs those of which a part is lost.
func (s *Server) readable(ns *server.Server, said *natsLog) error {
	var errs []error
	for _, stream := range unread(ns) {
		dir := s.streamDir(stream)
		if !holdsData(dir) {
			s.log.Warn("the rest of a stream that was just created or deleted: remove it if you do not miss the stream", "files", dir)
			continue
		}
		errs = append(errs, fmt.Errorf("the stream %s cannot be read (%s): put its files, %s, back from a backup; or move them away, to go on without what they hold: groups then begin anew",
			stream.Stream, said.about(stream.Stream), dir))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.warnOfLost(ns)
	return nil
}

func (s *Server) streamDir(e server.HealthzError) string {
	return filepath.Join(s.dir, "jetstream", e.Account, "streams", e.Stream)
}

// unread returns the streams that have files and are not served. A client may create or
// delete one at this moment, so a stream counts only if it is still there a while later.
func unread(ns *server.Server) (list []server.HealthzError) {
	for i := range 3 {
		if i > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		now := slices.DeleteFunc(ns.Healthz(&server.HealthzOptions{Details: true}).Errors, func(e server.HealthzError) bool {
			return e.Type != server.HealthzErrorStream || i > 0 && !slices.Contains(list, e)
		})
		if list = now; len(list) == 0 {
			break
		}
	}
	return list
}

// holdsData tells whether a stream's folder has anything in it to lose.
func holdsData(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "meta.inf")); err == nil {
		return true
	}
	blocks, err := filepath.Glob(filepath.Join(dir, "msgs", "*.blk"))
	return err != nil || len(blocks) > 0
}

// warnOfLost logs which streams have lost a part. After a power cut it may be the write
// that nobody had acknowledged yet.
func (s *Server) warnOfLost(ns *server.Server) {
	account := ns.GlobalAccount().GetName()
	detail, err := ns.JszAccount(&server.JSzOptions{Account: account, Streams: true})
	if err != nil {
		return // nobody has used JetStream here
	}
	for _, stream := range detail.Streams {
		if lost := stream.State.Lost; lost != nil {
			s.log.Error("a file of a stream is damaged, and a part of it is lost: put the files back from a backup unless the machine lost its power, when it can be what was just being written",
				"stream", stream.Name, "files", s.streamDir(server.HealthzError{Account: account, Stream: stream.Name}), "bytes", lost.Bytes, "messages", len(lost.Msgs))
		}
	}
}

// about returns what nats-server said about a stream while it started.
func (l *natsLog) about(stream string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range slices.Backward(l.heard) {
		if strings.Contains(text, stream) {
			return text
		}
	}
	return "nats-server does not say why"
}
