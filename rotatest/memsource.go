package rotatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/rota-dev/rota"
)

// MemSource is a Source in memory. Its queues keep each message until it is settled;
// the next owner gets the unsettled ones, in order. It has one group of readers: a member
// of a second group is refused.
type MemSource struct {
	mu     sync.Mutex
	group  string // "" until Bind
	names  []string
	queues map[string]*queue
	dead   []rota.Letter
	buried int // letters so far
	batch  int

	refuseSettling, refuseDead, refuseConsuming bool
}

var (
	errRefused = errors.New("rotatest: refused")
	errForeign = errors.New("rotatest: a foreign client consumes it")
)

type queue struct {
	msgs    []rota.Message // unsettled, oldest first
	next    uint64
	arrived chan struct{} // closed at the next arrival
	gone    chan struct{} // closed when the partition is removed
	owner   rota.Token    // token of the newest owner: the broker's own fence
	running int           // calls of Consume
	foreign bool          // a client that is not rota's consumes it
}

// NewMemSource makes a source with the given partitions. Consume fetches up to
// batch messages at a time; 0 means 16.
func NewMemSource(batch int, names ...string) *MemSource {
	s := &MemSource{queues: map[string]*queue{}, batch: batch}
	if batch <= 0 {
		s.batch = 16
	}
	s.Add(names...)
	return s
}

// Bind refuses a second group.
func (s *MemSource) Bind(group string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group != "" && s.group != group {
		return fmt.Errorf("rotatest: group %s reads this MemSource, whose queues have one group of readers: give group %s a MemSource of its own", s.group, group)
	}
	s.group = group
	return nil
}

// Names makes n partition names: q0, q1, …
func Names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("q%d", i)
	}
	return out
}

// Add makes more partitions appear.
func (s *MemSource) Add(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		if s.queues[n] == nil {
			s.names = append(s.names, n)
			s.queues[n] = &queue{arrived: make(chan struct{}), gone: make(chan struct{})}
		}
	}
}

// Remove makes partitions disappear, with their messages, as if somebody had deleted the
// queues: Consume fails, and Partitions does not list them any more. Add brings them back,
// empty.
func (s *MemSource) Remove(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		if q := s.queues[n]; q != nil {
			s.names = slices.DeleteFunc(s.names, func(x string) bool { return x == n })
			delete(s.queues, n)
			close(q.gone)
		}
	}
}

// ListsAll says that Partitions lists everything there is.
func (s *MemSource) ListsAll() bool { return true }

// Publish appends messages to a partition.
func (s *MemSource) Publish(partition string, values ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[partition]
	for _, v := range values {
		q.next++
		q.msgs = append(q.msgs, rota.Message{ID: fmt.Sprintf("%s-%d", partition, q.next), Value: v, Position: q.next})
	}
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// Dead are the messages that were dead-lettered.
func (s *MemSource) Dead() []rota.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []rota.Message
	for _, l := range s.dead {
		out = append(out, l.Message)
	}
	return out
}

// Backlog is how many messages of a partition are not settled.
func (s *MemSource) Backlog(partition string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues[partition].msgs)
}

// Partitions lists the partitions in the order they were made.
func (s *MemSource) Partitions(context.Context) ([]rota.Partition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []rota.Partition
	for _, n := range s.names {
		out = append(out, rota.Partition{Name: n})
	}
	return out, nil
}

// Read counts what was published to the partitions, and what is not settled.
func (s *MemSource) Read(_ context.Context, partitions []string) ([]rota.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []rota.Reading
	for _, n := range partitions {
		if q := s.queues[n]; q != nil {
			out = append(out, rota.Reading{Partition: n, Arrived: q.next, Backlog: int64(len(q.msgs))})
		}
	}
	return out, nil
}

// Consume delivers messages until own.Stop closes or ctx ends.
func (s *MemSource) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	q, err := s.attach(own)
	if err != nil {
		return err
	}
	defer s.detach(q)
	own.Started()
	for {
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if err := s.there(own.Partition(), q); err != nil {
			return err
		}
		msgs, arrived := s.fetch(q)
		if len(msgs) == 0 {
			select {
			case <-arrived:
			case <-q.gone:
				return fmt.Errorf("rotatest: partition %q was removed", own.Partition())
			case <-own.Stop():
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		n, err := deliver(ctx, msgs...)
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		if serr := own.Settle(func() error { return s.settle(q, own.Token(), msgs[:n], nil) }); serr != nil {
			return serr
		}
		if errors.Is(err, rota.ErrDead) {
			if serr := own.DeadLetter(msgs[n], err, func(l rota.Letter) error { return s.settle(q, own.Token(), msgs[n:n+1], &l) }); serr != nil {
				return serr
			}
		}
		if errors.Is(err, rota.ErrStop) {
			return nil
		}
	}
}

// attach makes the caller the owner of a queue, unless that is refused.
func (s *MemSource) attach(own rota.Ownership) (*queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[own.Partition()]
	switch {
	case q == nil:
		return nil, fmt.Errorf("rotatest: no partition %q", own.Partition())
	case s.refuseConsuming:
		return nil, errRefused
	case q.foreign:
		return nil, errForeign
	}
	q.owner = max(q.owner, own.Token())
	q.running++
	return q, nil
}

func (s *MemSource) detach(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.running--
}

// there returns an error if a queue was deleted.
func (s *MemSource) there(name string, q *queue) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[name] != q {
		return fmt.Errorf("rotatest: partition %q was deleted", name)
	}
	return nil
}

func (s *MemSource) fetch(q *queue) ([]rota.Message, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-q.gone:
		return nil, q.arrived
	default:
	}
	return append([]rota.Message(nil), q.msgs[:min(len(q.msgs), s.batch)]...), q.arrived
}

// settle removes messages and, if one of them is dead, stores its letter. A former owner
// is refused. A message that another owner has settled meanwhile, which only a broken
// store permits, is skipped.
func (s *MemSource) settle(q *queue, by rota.Token, done []rota.Message, dead *rota.Letter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by < q.owner {
		return rota.ErrLost
	}
	if dead == nil && s.refuseSettling || dead != nil && s.refuseDead {
		return errRefused
	}
	for _, m := range done {
		at := slices.IndexFunc(q.msgs, func(x rota.Message) bool { return x.Position == m.Position })
		switch {
		case at < 0:
			continue
		case at == 0: // the usual case, also with a long backlog
			q.msgs[0] = rota.Message{}
			q.msgs = q.msgs[1:]
		default:
			q.msgs = slices.Delete(q.msgs, at, at+1)
		}
		if dead != nil {
			s.bury(*dead)
		}
	}
	return nil
}

// bury stores a letter. The caller holds the lock.
func (s *MemSource) bury(l rota.Letter) {
	s.buried++
	l.ID = strconv.Itoa(s.buried)
	s.dead = append(s.dead, l)
}

// Letters yields the dead letters of a partition, or all if the name is empty.
func (s *MemSource) Letters(_ context.Context, partition string) iter.Seq2[rota.Letter, error] {
	return func(yield func(rota.Letter, error) bool) {
		s.mu.Lock()
		all := slices.Clone(s.dead)
		s.mu.Unlock()
		for _, l := range all {
			if (partition == "" || l.Message.Partition == partition) && !yield(l, nil) {
				return
			}
		}
	}
}

// DropLetter removes a dead letter.
func (s *MemSource) DropLetter(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(id)
}

func (s *MemSource) drop(id string) error {
	at := slices.IndexFunc(s.dead, func(l rota.Letter) bool { return l.ID == id })
	if at < 0 {
		return fmt.Errorf("rotatest: letter %s: %w", id, rota.ErrNotFound)
	}
	s.dead = slices.Delete(s.dead, at, at+1)
	return nil
}

// RenewLetter stores a letter instead of a former one.
func (s *MemSource) RenewLetter(_ context.Context, l rota.Letter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bury(l)
	return s.drop(l.Former)
}
