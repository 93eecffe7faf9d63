package rotakafka

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// While the former owner of a partition stops, the next one reads ahead what it will need: messages
// from the offset on that is committed, and the offset, over and over, until it is the former owner's
// last one. None of that grows old within the time it is kept: what a log holds stays, and so does what
// an owner has noted that has ended. Whether that was the owner just before its own tells whoever
// attaches, who knows its token.

// An ahead is what was read of one partition.
type ahead struct {
	topic  string
	number int32
	at     offset // as a look has found it last

	id    [16]byte // of the topic of which the messages are
	from  int64    // the offset on from which they are
	chunk chunk
}

// aheads are those of one source.
type aheads struct {
	looking chan struct{} // has an element while somebody looks
	looked  time.Time     // when the last look began; whoever looks guards it

	mu  sync.Mutex
	all map[string]*ahead // by partition
}

const (
	mostAhead = 64                     // partitions that are read ahead at a time: each may have firstFetch bytes
	aheadTime = 2 * time.Second        // for how long what was read is kept after the preparation
	lookPause = 2 * time.Millisecond   // between two looks, at first
	mostPause = 100 * time.Millisecond // and when the former owner takes its time
)

// readAhead reads ahead until ctx ends. If it cannot, whoever attaches reads for itself.
func (s *source) readAhead(ctx context.Context, group, name string, number int32, t *topic) {
	a := &ahead{topic: name, number: number, at: offset{at: -1}, id: t.id}
	partition := partitionName(name, number)
	if s.set.plain || !s.aheads.add(partition, a) {
		return
	}
	defer time.AfterFunc(aheadTime, func() { s.aheads.remove(partition, a) })
	s.fetchAhead(ctx, group, partition, a, t.leaders[number])
	for pause := lookPause; ; pause = min(pause+pause/4, mostPause) {
		s.look(ctx, group, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// fetchAhead fetches messages from the offset on that is committed now.
func (s *source) fetchAhead(ctx context.Context, group, partition string, a *ahead, leader int32) {
	all, err := s.readOffsets(ctx, deskOf(a.number), group, map[string][]int32{a.topic: {a.number}}, false)
	at, ok := all[partition]
	if err != nil || !ok || at.err != nil || at.at < 0 {
		return
	}
	got := s.fetcher.peek(ctx, leader, &cursor{topic: a.topic, id: a.id, number: a.number, at: at.at, limit: min(firstFetch, s.set.fetch)})
	s.aheads.mu.Lock()
	defer s.aheads.mu.Unlock()
	if s.aheads.all[partition] == a { // and nobody has taken it
		a.from, a.chunk = at.at, got
	}
}

// look reads the offsets of all partitions that are read ahead, unless that was done just now.
func (s *source) look(ctx context.Context, group string, fresh time.Duration) {
	as := &s.aheads
	select {
	case as.looking <- struct{}{}:
		defer func() { <-as.looking }()
	case <-ctx.Done():
		return
	}
	if time.Since(as.looked) < fresh {
		return
	}
	as.looked = time.Now()
	all, err := s.readOffsets(ctx, front, group, as.partitions(), true)
	if err != nil {
		return
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	for partition, at := range all {
		if a := as.all[partition]; a != nil && at.err == nil { // it fails while a transaction is open
			a.at = at
		}
	}
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

// take returns what was read of a partition, once: nil if nothing was.
func (as *aheads) take(partition string) *ahead {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.all[partition]
	delete(as.all, partition)
	return a
}

func (as *aheads) partitions() map[string][]int32 {
	as.mu.Lock()
	defer as.mu.Unlock()
	of := map[string][]int32{}
	for _, a := range as.all {
		of[a.topic] = append(of[a.topic], a.number)
	}
	return of
}

// messages are those that were read from an offset of a topic on, none if that one was not read.
func (a *ahead) messages(topic [16]byte, at int64) chunk {
	if a == nil || a.id != topic || at < a.from || at >= a.chunk.next {
		return chunk{}
	}
	i, _ := slices.BinarySearchFunc(a.chunk.records, at, func(r *kgo.Record, at int64) int { return int(r.Offset - at) })
	return chunk{a.chunk.records[i:], a.chunk.next}
}
