package rotaactive

import (
	"context"
	"errors"
	"fmt"

	"github.com/rota-dev/rota"
)

// A queue has one group of readers: two would take messages from each other. The broker
// does not know of groups, so the first group to read a queue leaves a note with its name
// in a queue beside it. If several groups come at the same moment, the oldest note counts.

// notePrefix begins the names of queues that have notes.
const notePrefix = "rota.group."

// claim leaves a note that this group reads a queue, or finds out that it does already.
func (s *source) claim(ctx context.Context, queue string) error {
	s.mu.Lock()
	group, noted := s.group, s.noted[queue]
	s.mu.Unlock()
	if noted || group == "" {
		return nil
	}
	c, err := s.connected(ctx, s.side)
	if err != nil {
		return err
	}
	ours := false
	if !s.unknown.Load() {
		if ours, err = s.isOurs(ctx, c, queue, group); err != nil {
			return err
		}
		s.unknown.Store(!ours)
	}
	if !ours {
		if ours, err = s.claimFor(ctx, c, queue, group); err != nil {
			return err
		}
		s.unknown.Store(!ours)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted[queue] = true
	return nil
}

// isOurs tells whether the oldest note is of this group, which is so whenever another member has
// read the queue before. To leave a note takes the broker ten times as long, in which the
// partition would be idle.
func (s *source) isOurs(ctx context.Context, c client, queue, group string) (bool, error) {
	n, err := c.oldest(ctx, notePrefix+queue)
	if err != nil {
		return false, fmt.Errorf("look for the note of a group: %w", err)
	}
	return n != nil && string(n.Value) == group, nil
}

// claimFor leaves a note, unless the group has one: then it was ours.
func (s *source) claimFor(ctx context.Context, c client, queue, group string) (ours bool, err error) {
	name := s.set.markers.add()
	defer s.set.markers.remove(name)
	own := outgoing{queue: notePrefix + queue, Message: rota.Message{Value: []byte(group), Headers: []rota.Header{name}}}
	before, err := c.precede(ctx, own)
	if err != nil {
		return false, fmt.Errorf("leave a note of the group: %w", err)
	}
	reader := ""
	var old []*delivery // notes that count no more
	for _, n := range before {
		switch by := string(n.Value); {
		case reader == "" && by == s.set.takeover && by != group:
			old = append(old, n)
		case reader == "":
			reader = by
		case by == group && s.set.markers.stale(n): // otherwise its writer removes it
			old = append(old, n)
		}
	}
	if reader != "" {
		old = append(old, &delivery{Message: own.Message})
	}
	for _, n := range old {
		if err := c.remove(ctx, own.queue, n.selector()); err != nil && !errors.Is(err, rota.ErrNotFound) {
			return false, fmt.Errorf("remove a note of the group: %w", err)
		}
	}
	if reader != "" && reader != group {
		return false, occupied(queue, reader, group)
	}
	return reader != "", nil
}

func occupied(queue, reader, group string) error {
	return fmt.Errorf("group %s reads queue %s, and a queue has one group of readers: give group %s queues of its own, or, when group %[1]s has ended for good, add takeover=%[1]s to its URL",
		oneLine(reader), queue, group)
}
