package rotakafka

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rota-dev/rota"
)

// Read counts by offsets: the offset behind the last message counts what has arrived, and
// what is behind the committed offset waits. Offsets of a compacted topic, and of one with
// transactions, count more than there are messages. A partition that the group has no
// offset of waits from its first message on. A source that was never bound knows no
// committed offsets.
func (s *source) Read(ctx context.Context, partitions []string) ([]rota.Reading, error) {
	of := map[string][]int32{}
	for _, p := range partitions {
		name, number, err := readPartition(p)
		if err != nil {
			return nil, err
		}
		of[name] = append(of[name], number)
	}
	ends, err := s.bounds(ctx, of, end)
	if errors.Is(err, kerr.UnknownTopicOrPartition) { // one that was deleted is still in the plan
		ends, err = s.existing(ctx, of)
	}
	if err != nil {
		return nil, err
	}
	done := map[string]offset{}
	if group, err := s.groupName(); err == nil {
		if done, err = s.offsets(ctx, front, group, of); err != nil {
			return nil, err
		}
	}
	return s.readings(ctx, partitions, of, ends, done)
}

// existing is bounds without the topics that are gone.
func (s *source) existing(ctx context.Context, of map[string][]int32) (map[string]int64, error) {
	now := time.Now()
	for name, numbers := range of {
		t, err := s.topic(ctx, name, now)
		switch {
		case errors.Is(err, errNoTopic):
			delete(of, name)
			continue
		case err != nil:
			return nil, err
		}
		there := numbers[:0:0]
		for _, n := range numbers {
			if int(n) < len(t.leaders) {
				there = append(there, n)
			}
		}
		of[name] = there
	}
	return s.bounds(ctx, of, end)
}

func (s *source) readings(ctx context.Context, partitions []string, of map[string][]int32, ends map[string]int64, done map[string]offset) ([]rota.Reading, error) {
	begins, err := s.unread(ctx, of, done)
	if err != nil {
		return nil, err
	}
	var out []rota.Reading
	for _, p := range partitions {
		r := rota.Reading{Partition: p, Arrived: uint64(max(ends[p], 0))}
		name, _, _ := readPartition(p)
		s.mu.Lock()
		if t := s.topics[name]; t != nil {
			r.Epoch = "topic " + hex.EncodeToString(t.id[:])
		}
		s.mu.Unlock()
		from, ok := begins[p]
		if at := done[p]; !ok {
			from = at.at
		}
		r.Backlog = max(ends[p]-from, 0)
		out = append(out, r)
	}
	return out, nil
}

// unread returns the first offsets of the partitions that have no committed one.
func (s *source) unread(ctx context.Context, of map[string][]int32, done map[string]offset) (map[string]int64, error) {
	fresh := map[string][]int32{}
	for name, numbers := range of {
		if _, err := s.topic(ctx, name, time.Time{}); err != nil { // its id is the epoch
			return nil, err
		}
		for _, n := range numbers {
			if at, ok := done[partitionName(name, n)]; !ok || at.at < 0 {
				fresh[name] = append(fresh[name], n)
			}
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	return s.bounds(ctx, fresh, beginning)
}
