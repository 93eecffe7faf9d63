package rotatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rota-dev/rota"
)

// MemSource is a Source in memory. Its queues keep each message until it is settled;
// the next owner gets the unsettled ones, in order.
type MemSource struct {
	mu     sync.Mutex
	names  []string
	queues map[string]*queue
	dead   []rota.Message
	batch  int
}

type queue struct {
	msgs    []rota.Message // unsettled, oldest first
	next    uint64
	arrived chan struct{} // closed at the next arrival
	owner   rota.Token    // token of the newest owner: the broker's own fence
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
			s.queues[n] = &queue{arrived: make(chan struct{})}
		}
	}
}

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
	return append([]rota.Message(nil), s.dead...)
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

// Consume delivers messages until own.Stop closes or ctx ends.
func (s *MemSource) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	s.mu.Lock()
	q := s.queues[own.Partition()]
	if q != nil {
		q.owner = max(q.owner, own.Token())
	}
	s.mu.Unlock()
	if q == nil {
		return fmt.Errorf("rotatest: no partition %q", own.Partition())
	}
	own.Started()
	for {
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		msgs, arrived := s.fetch(q)
		if len(msgs) == 0 {
			select {
			case <-arrived:
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
		dead := errors.Is(err, rota.ErrDead)
		if serr := own.Settle(func() error { return s.settle(q, own.Token(), msgs, n, dead) }); serr != nil {
			return serr
		}
		if errors.Is(err, rota.ErrStop) {
			return nil
		}
	}
}

func (s *MemSource) fetch(q *queue) ([]rota.Message, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]rota.Message(nil), q.msgs[:min(len(q.msgs), s.batch)]...), q.arrived
}

// settle removes the first n of msgs and, if dead is set, moves the next one to the
// dead letters. A former owner is refused. A message that another owner has settled
// meanwhile, which only a broken store permits, is skipped.
func (s *MemSource) settle(q *queue, by rota.Token, msgs []rota.Message, n int, dead bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by < q.owner {
		return rota.ErrLost
	}
	for i, m := range msgs {
		at := slices.IndexFunc(q.msgs, func(x rota.Message) bool { return x.Position == m.Position })
		if at < 0 || i > n || i == n && !dead {
			continue
		}
		if i == n {
			s.dead = append(s.dead, q.msgs[at])
		}
		if at == 0 { // the usual case, also with a long backlog
			q.msgs[0] = rota.Message{}
			q.msgs = q.msgs[1:]
			continue
		}
		q.msgs = slices.Delete(q.msgs, at, at+1)
	}
	return nil
}
