package rotanats

import (
	"context"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// setbacks pace the attempts to consume partitions that failed. rota has a back-off of
// its own, which begins anew with each grant: a partition that was given up after a few
// failures, and granted again, would be tried every second for as long as the server
// refuses it.
type setbacks struct {
	mu  sync.Mutex
	all map[string]setback // by partition
}

type setback struct {
	times int       // in a row
	next  time.Time // no attempt before
}

// The pause after the first setback, which doubles, and the longest: how long a
// partition may still stand still after the cause has ended.
const (
	firstSetback   = 100 * time.Millisecond
	longestSetback = 5 * time.Second
)

// add records that Consume has failed.
func (s *setbacks) add(partition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]setback{}
	}
	n := s.all[partition].times
	s.all[partition] = setback{n + 1, time.Now().Add(min(firstSetback<<min(n, 10), longestSetback))}
}

// clear records that the partition was consumed.
func (s *setbacks) clear(partition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, partition)
}

// wait waits for the end of the pause, or until the ownership stops. failing tells
// whether there was a setback since the partition was last consumed.
func (s *setbacks) wait(ctx context.Context, own rota.Ownership) (failing bool, err error) {
	s.mu.Lock()
	last, failing := s.all[own.Partition()]
	s.mu.Unlock()
	if !failing {
		return false, nil
	}
	select {
	case <-time.After(time.Until(last.next)):
	case <-own.Stop():
	case <-ctx.Done():
		err = ctx.Err()
	}
	return true, err
}
