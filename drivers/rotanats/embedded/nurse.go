package embedded

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
)

const (
	nurseEvery = time.Second      // how often a server asks whether it can still write
	nurseRoom  = 1 << 20          // bytes that must be free before a restart
	firstRest  = 2 * time.Second  // pause between two restarts; it doubles
	lastRest   = time.Minute      // the longest pause
	wellTime   = 10 * time.Minute // after this time without an error the pause is short again
)

// A nurse restarts nats-server when it does not write any more. After one failed write,
// as on a full disk, nats-server refuses every further write of that stream, and does
// not answer the client, until it is started again.
//
// The nurse asks nats-server itself whether a write has failed. That costs no write and
// no message, and a disk that is slow is not mistaken for one that is full. Only after a
// failure it writes a file of its own, to learn when a restart would help.
type nurse struct {
	s     *Server
	f     folder.Folder
	since time.Time // when the failure was noticed; zero while there is none
	last  time.Time // when nats-server was restarted
	rest  time.Duration
	seen  []server.StreamDetail // the streams, when they were last looked at
}

func (s *Server) nurse(f folder.Folder) {
	n := nurse{s: s, f: f, seen: s.found}
	tick := time.NewTicker(nurseEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
			n.look()
			n.compare()
		}
	}
}

// look asks once, and does what is possible.
func (n *nurse) look() {
	now := time.Now()
	failure := n.s.failure()
	if failure == nil {
		if !n.since.IsZero() {
			n.s.log.Warn("the server accepts writes again", "folder", n.s.dir, "after", now.Sub(n.since).Round(time.Second))
			n.since = time.Time{}
		}
		return
	}
	if n.since.IsZero() {
		n.since = now
	}
	if err := n.f.Writable(nurseRoom, true); err != nil {
		n.s.log.Error("the server cannot write, and acknowledges nothing; it goes on by itself when it can", "err", n.f.Explain(err))
		return
	}
	if now.Sub(n.last) > wellTime {
		n.rest = 0
	}
	if now.Sub(n.last) < n.rest {
		return
	}
	n.last, n.rest = now, min(max(2*n.rest, firstRest), lastRest)
	n.s.log.Warn("restarting nats-server, which refuses writes after an error", "folder", n.s.dir, "err", failure)
	n.s.land()
	if err := n.s.launch(n.f, false); err != nil {
		n.s.log.Error("nats-server does not start again; retrying", "folder", n.s.dir, "err", err)
	}
}

// compare reports streams that have lost their last messages. nats-server cuts a file off
// where it cannot read it, if it finds that out while it serves, and says nothing.
//
// After a failed write it waits for the restart and begins anew, since the number of a
// message that was not acknowledged may be used again.
func (n *nurse) compare() {
	if !n.since.IsZero() {
		n.seen = n.s.found
		return
	}
	now := streams(n.s.ns.Load())
	for _, l := range shorter(n.seen, now) {
		n.s.log.Error("a stream has lost messages: a file of it is damaged; stop the server and put its files back from a backup",
			"stream", l.stream, "folder", n.s.dir, "from", l.from, "to", l.to)
	}
	n.seen = now
}

// A loss is the messages that a stream had and has not any more.
type loss struct {
	stream   string
	from, to uint64
}

// shorter returns the streams whose last number is lower than it was. One that was
// deleted and created again is another.
func shorter(was, now []server.StreamDetail) (list []loss) {
	for _, d := range now {
		i := slices.IndexFunc(was, func(w server.StreamDetail) bool { return w.Name == d.Name && w.Created.Equal(d.Created) })
		if i >= 0 && d.State.LastSeq < was[i].State.LastSeq {
			list = append(list, loss{d.Name, d.State.LastSeq + 1, was[i].State.LastSeq})
		}
	}
	return list
}

// failure returns why nats-server does not accept writes, nil if it does as far as it
// knows.
func (s *Server) failure() error {
	ns := s.ns.Load()
	if ns == nil {
		return errors.New("it does not run")
	}
	for _, e := range ns.Healthz(&server.HealthzOptions{Details: true}).Errors {
		switch {
		case e.Type == server.HealthzErrorJetStream:
			return errors.New("it has shut JetStream down")
		// Streams that are just being created or deleted are in this list, too.
		case e.Type == server.HealthzErrorStream && strings.Contains(e.Error, "write error"):
			return errors.New(e.Error)
		}
	}
	return nil
}
