package rotanats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// A mark is the last message of a partition that an owner has settled. The broker's
// ack floor says the same, but is gone with the consumer if somebody deletes that, and
// falls back when the server is killed. A mark is used only after the stream has shown that
// it still has that message: sequence numbers go back when a stream's files are restored,
// and new messages would be skipped.
type mark struct {
	stream   time.Time // when the stream was created
	sequence uint64
	time     int64 // of the message, in nanoseconds since 1970
}

// mark returns what the last owner has noted.
func (n *note) mark() mark { return mark{n.Stream, n.Settled, n.SettledTime} }

// later returns the mark with the higher sequence, if both are of one stream; otherwise
// the second, unless it is empty.
func (m mark) later(o mark) mark {
	if o.sequence == 0 || m.stream.Equal(o.stream) && m.sequence > o.sequence {
		return m
	}
	return o
}

// marks are what this process has settled in the ownerships that it has now.
type marks struct {
	mu  sync.Mutex
	all map[string]ownMark // by partition
}

type ownMark struct {
	mark
	token rota.Token
}

func (s *marks) put(own rota.Ownership, m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]ownMark{}
	}
	s.all[own.Partition()] = ownMark{m, own.Token()}
}

// get returns the mark of this ownership, and not that of an earlier one: others may have
// owned the partition meanwhile.
func (s *marks) get(own rota.Ownership) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.all[own.Partition()]; m.token == own.Token() {
		return m.mark
	}
	return mark{}
}

func (s *marks) remove(own rota.Ownership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, own.Partition())
}

// afterMark returns the sequence after the marked message, 0 if the mark is not to be
// used. from is where a new consumer would begin without it.
func (s *source) afterMark(ctx context.Context, own rota.Ownership, m mark, f *facts, from uint64) (uint64, error) {
	if m.sequence < from || !m.stream.Equal(f.created) {
		return 0, nil
	}
	back := func(what string) (uint64, error) {
		own.Tell("stream-went-back", fmt.Sprintf("messages were settled up to %d, but %s: consuming from message %d on", m.sequence, what, from))
		return 0, nil
	}
	if m.sequence > f.last {
		return back(fmt.Sprintf("stream %s ends at %d", s.set.Stream, f.last))
	}
	var got storedMessage
	err := s.ask(ctx, "STREAM.MSG.GET."+s.set.Stream, map[string]any{"seq": m.sequence}, &got)
	switch {
	case code(err) == codeNoMessage && m.sequence < f.first:
		return m.sequence + 1, nil // nothing before the first message is left to be skipped
	case refusedBy(err):
		s.set.Log.Debug("cannot tell whether a message is the one that was settled", "partition", own.Partition(), "token", own.Token(), "err", err)
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("rotanats: message %d of %s: %w", m.sequence, s.set.Stream, err)
	case got.Message.Subject != own.Partition() || got.Message.Time.UnixNano() != m.time:
		return back(fmt.Sprintf("message %d of stream %s is another one now", m.sequence, s.set.Stream))
	}
	return m.sequence + 1, nil
}
