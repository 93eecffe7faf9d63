package rotakafka

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
)

// While the former owner of a partition stops, the next one reads ahead what it will need: messages
// from the offset on that is committed, and the offset, over and over, until it is the former owner's
// last one. None of that grows old within the time it is kept: what a log holds stays, and so does what
// an owner has noted that has ended. Whether that was the owner just before this one shows when the
// partition is granted, by the token. Partitions that move together are read together, since a broker
// that has to answer each of them by itself has no time for those who commit.

// An ahead is what was read of one partition. The lock of aheads guards it.
type ahead struct {
	cursor *cursor // of the messages; at is where they begin
	leader int32

	fetched bool
	chunk   chunk
	at      offset    // as a look has found it last
	seen    time.Time // when that look began; zero if none has found it
}

// aheads are those of one source.
type aheads struct {
	looking chan struct{} // has an element while somebody looks
	looked  time.Time     // when the last look began; who has the element of looking guards it

	mu  sync.Mutex
	all map[string]*ahead // by partition
}

const (
	mostAhead = 64                     // partitions that are read ahead at a time: each may have firstFetch bytes
	aheadTime = 2 * time.Second        // for how long what was read is kept after the preparation
	lookPause = 4 * time.Millisecond   // between two looks, at first
	mostPause = 100 * time.Millisecond // and when the former owner takes its time
)

// readAhead reads ahead until ctx ends. If it cannot, attach reads what it needs.
func (s *source) readAhead(ctx context.Context, group, name string, number int32, t *topic) {
	partition := partitionName(name, number)
	a := &ahead{cursor: &cursor{topic: name, id: t.id, number: number, limit: min(firstFetch, s.set.fetch)}, leader: t.leaders[number]}
	if s.set.plain || !s.aheads.add(partition, a) { // plain commits do not say who has ended
		return
	}
	defer time.AfterFunc(aheadTime, func() { s.aheads.remove(partition, a) })
	for pause := lookPause; sleep(ctx, pause); pause = min(pause+pause/4, mostPause) {
		s.look(ctx, group)
	}
}

// sleep returns false if ctx has ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// look reads of all partitions that are read ahead. Those who ask at the same time share a look.
func (s *source) look(ctx context.Context, group string) {
	as, asked := &s.aheads, time.Now()
	select {
	case as.looking <- struct{}{}:
		defer func() { <-as.looking }()
	case <-ctx.Done():
		return
	}
	if as.looked.After(asked) {
		return
	}
	as.looked = time.Now()
	if fresh := as.which(func(a *ahead) bool { return !a.fetched }); len(fresh) > 0 {
		s.fetchAhead(ctx, group, fresh)
	}
	all, began := as.which(func(*ahead) bool { return true }), time.Now()
	if len(all) == 0 {
		return
	}
	found, err := s.readOffsets(ctx, front, group, numbers(all), true)
	if err != nil {
		return
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	for partition, at := range found {
		if a := all[partition]; a != nil && at.err == nil { // it fails while a transaction is open
			a.at, a.seen = at, began
		}
	}
}

// fetchAhead fetches messages from the offsets on that are committed now.
func (s *source) fetchAhead(ctx context.Context, group string, all map[string]*ahead) {
	found, err := s.readOffsets(ctx, front, group, numbers(all), false)
	if err != nil {
		return
	}
	of := map[int32][]*cursor{} // by leader
	for partition, a := range all {
		if at, ok := found[partition]; ok && at.err == nil && at.at >= 0 {
			a.cursor.at = at.at
			of[a.leader] = append(of[a.leader], a.cursor)
		}
	}
	brought := map[*cursor]landed{}
	for leader, list := range of {
		for c, got := range s.fetcher.peek(ctx, leader, list) {
			brought[c] = got
		}
	}
	s.aheads.mu.Lock()
	defer s.aheads.mu.Unlock()
	for _, a := range all {
		a.fetched, a.chunk = true, brought[a.cursor].chunk
	}
}

// numbers are the partitions, by topic.
func numbers(all map[string]*ahead) map[string][]int32 {
	of := map[string][]int32{}
	for _, a := range all {
		of[a.cursor.topic] = append(of[a.cursor.topic], a.cursor.number)
	}
	return of
}

func (as *aheads) add(partition string, a *ahead) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	if len(as.all) >= mostAhead {
		return false
	}
	as.all[partition] = a
	return true
}

func (as *aheads) remove(partition string, a *ahead) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.all[partition] == a {
		delete(as.all, partition)
	}
}

// of returns what was read of a partition, nil if nothing was yet: then it is quicker to read it now.
func (as *aheads) of(partition string) *ahead {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.all[partition]
	if a == nil || !a.fetched {
		delete(as.all, partition)
		return nil
	}
	return a
}

func (as *aheads) which(want func(*ahead) bool) map[string]*ahead {
	as.mu.Lock()
	defer as.mu.Unlock()
	out := map[string]*ahead{}
	for partition, a := range as.all {
		if want(a) {
			out[partition] = a
		}
	}
	return out
}

// endsBefore returns the offset at which the owner just before a token has ended, if it has. It waits
// while that is part of a transaction, but not for long.
func (s *source) endsBefore(ctx context.Context, group string, a *ahead, token rota.Token) (offset, bool) {
	for begun, looked := time.Now(), false; ; looked = true {
		s.aheads.mu.Lock()
		at, seen := a.at, a.seen
		s.aheads.mu.Unlock()
		switch {
		case at.endedBefore(token):
			return at, true
		case seen.After(begun) || time.Since(begun) > markerTime || ctx.Err() != nil:
			return offset{}, false
		}
		if looked {
			sleep(ctx, time.Millisecond)
		}
		s.look(ctx, group)
	}
}

// messages are those that were read of a topic from an offset on, none if that one was not read.
func (s *source) messages(a *ahead, topic [16]byte, at int64) chunk {
	if a == nil {
		return chunk{}
	}
	s.aheads.mu.Lock()
	defer s.aheads.mu.Unlock()
	if a.cursor.id != topic || at < a.cursor.at || at >= a.chunk.next {
		return chunk{}
	}
	i, _ := slices.BinarySearchFunc(a.chunk.records, at, func(r *kgo.Record, at int64) int { return int(r.Offset - at) })
	return chunk{a.chunk.records[i:], a.chunk.next}
}
