package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
)

// partitionName is the name of a partition of a topic, as Kafka's own tools print it.
func partitionName(topic string, number int32) string {
	return topic + "-" + strconv.Itoa(int(number))
}

// readPartition is the inverse of partitionName.
func readPartition(name string) (topic string, number int32, err error) {
	i := strings.LastIndexByte(name, '-')
	n, bad := strconv.ParseUint(name[i+1:], 10, 31)
	if i < 1 || bad != nil || partitionName(name[:i], int32(n)) != name {
		return "", 0, fmt.Errorf("rotakafka: %.80q is not a partition: names are TOPIC-NUMBER, such as orders-0", name)
	}
	return name[:i], int32(n), nil
}

// A topic is what the brokers tell of a topic.
type topic struct {
	id      [16]byte // changes when a topic is deleted and made again; zero before Kafka 2.8
	leaders []int32  // of each partition, -1 for none
	read    time.Time
}

// unknown is the id that brokers tell none of.
var unknown [16]byte

// errNoTopic means that a topic is not there.
var errNoTopic = errors.New("there is no such topic")

// metadata asks for topics, for all if the list is nil. It never makes a topic.
func (s *source) metadata(ctx context.Context, names []string) ([]kmsg.MetadataResponseTopic, error) {
	r := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		r.Topics = append(r.Topics, t)
	}
	before := time.Now()
	got, err := ask[*kmsg.MetadataResponse](ctx, &s.link, front, r)
	if err != nil {
		return nil, err
	}
	s.learn(got.Topics, before)
	return got.Topics, nil
}

// learn keeps what brokers have told of topics.
func (s *source) learn(list []kmsg.MetadataResponseTopic, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range list {
		switch {
		case t.Topic == nil || !s.set.lists(*t.Topic):
		case t.ErrorCode != 0:
			delete(s.topics, *t.Topic)
		default:
			s.topics[*t.Topic] = readTopic(t, at)
		}
	}
}

func readTopic(t kmsg.MetadataResponseTopic, at time.Time) *topic {
	most := int32(-1)
	for _, p := range t.Partitions {
		most = max(most, p.Partition)
	}
	out := &topic{id: t.TopicID, read: at, leaders: make([]int32, min(most, mostPartitions)+1)}
	for i := range out.leaders {
		out.leaders[i] = -1
	}
	for _, p := range t.Partitions {
		if p.Partition >= 0 && int(p.Partition) < len(out.leaders) {
			out.leaders[p.Partition] = p.Leader
		}
	}
	return out
}

// mostPartitions of one topic: what a broker tells beyond that is not believed.
const mostPartitions = 1_000_000

// topic returns what is known of a topic, if it was asked for after a certain time;
// otherwise it asks. One question serves all who wait for it.
func (s *source) topic(ctx context.Context, name string, after time.Time) (*topic, error) {
	known := func() *topic {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t := s.topics[name]; t != nil && t.read.After(after) {
			return t
		}
		return nil
	}
	if t := known(); t != nil {
		return t, nil
	}
	select {
	case s.lookup <- struct{}{}:
		defer func() { <-s.lookup }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t := known(); t != nil {
		return t, nil
	}
	list, err := s.metadata(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.Topic != nil && *t.Topic == name && t.ErrorCode != 0 {
			return nil, s.topicError(name, t.ErrorCode)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[name]; t != nil {
		return t, nil
	}
	return nil, s.noTopic(name)
}

// topicError words the error of one topic in an answer.
func (s *source) topicError(name string, c int16) error {
	err := kerr.ErrorForCode(c)
	if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) {
		return s.noTopic(name)
	}
	return fmt.Errorf("rotakafka: topic %s: %w", name, inWords(err))
}

func (s *source) noTopic(name string) error {
	return permanent{fmt.Errorf("rotakafka: %w: %s at %v: create it, or name another one by topic=", errNoTopic, name, s.set)}
}

// Partitions lists the partitions of the topics that the URL names or whose names match
// its pattern.
func (s *source) Partitions(ctx context.Context) ([]rota.Partition, error) {
	if s.bad != nil {
		return nil, permanent{s.bad}
	}
	var all []kmsg.MetadataResponseTopic
	var err error
	if len(s.set.topics) > 0 {
		all, err = s.metadata(ctx, s.set.topics)
	}
	if s.set.pattern != nil && err == nil {
		var more []kmsg.MetadataResponseTopic
		more, err = s.metadata(ctx, nil)
		all = append(all, more...)
	}
	if err != nil {
		return nil, err
	}
	return s.listed(all)
}

// listed returns the partitions of topics, sorted, and an error for each named topic that
// is missing. Any other error could hide a topic that is there, so it leaves no list.
func (s *source) listed(all []kmsg.MetadataResponseTopic) (out []rota.Partition, err error) {
	found, missing := map[string]int{}, map[string]error{}
	for _, t := range all {
		if t.Topic == nil || !s.set.lists(*t.Topic) || t.IsInternal && !slices.Contains(s.set.topics, *t.Topic) {
			continue
		}
		if t.ErrorCode == 0 {
			found[*t.Topic] = len(t.Partitions)
			continue
		}
		missing[*t.Topic] = s.topicError(*t.Topic, t.ErrorCode)
		if !errors.Is(missing[*t.Topic], errNoTopic) {
			return nil, missing[*t.Topic]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		for n := range found[name] {
			out = append(out, rota.Partition{Name: partitionName(name, int32(n)), Topic: name})
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if len(out) == 0 && s.set.pattern == nil {
			return nil, missing[name]
		}
		errs = append(errs, fmt.Errorf("%w: %v", rota.ErrPartial, missing[name]))
	}
	return out, errors.Join(errs...)
}

// ListsAll says that a partition which is not listed does not exist.
func (s *source) ListsAll() bool { return true }

// locate returns a topic of which a partition has a leader, if the answer is from after a
// certain time. Only the leader of the group lists topics, so what another member knows of one
// may be old: a partition that it does not know, or without a leader, is asked for.
func (s *source) locate(ctx context.Context, name string, number int32, after time.Time) (*topic, error) {
	began := time.Now()
	t, err := s.topic(ctx, name, after)
	if err == nil && t.read.Before(began) && (int(number) >= len(t.leaders) || t.leaders[number] < 0) {
		t, err = s.topic(ctx, name, began)
	}
	switch {
	case err != nil:
		return nil, err
	case int(number) >= len(t.leaders):
		return nil, fmt.Errorf("rotakafka: topic %s has %d partitions, and no number %d", name, len(t.leaders), number)
	case t.leaders[number] < 0:
		return nil, fmt.Errorf("rotakafka: %s has no leader now (%w)", partitionName(name, number), kerr.LeaderNotAvailable)
	}
	return t, nil
}

// bound returns the first offset of a partition, or that behind its last message.
func (s *source) bound(ctx context.Context, name string, number int32, which int64) (int64, error) {
	all, err := s.bounds(ctx, map[string][]int32{name: {number}}, which)
	if err != nil {
		return 0, err
	}
	at, ok := all[partitionName(name, number)]
	if !ok {
		return 0, fmt.Errorf("rotakafka: offsets of %s: the broker tells none", partitionName(name, number))
	}
	return at, nil
}

// Which offsets bounds asks for.
const (
	beginning = -2
	end       = -1
)

// bounds returns the first offsets of partitions, or those behind their last messages.
func (s *source) bounds(ctx context.Context, of map[string][]int32, which int64) (map[string]int64, error) {
	r := kmsg.NewPtrListOffsetsRequest()
	r.ReplicaID = -1
	if !s.set.all {
		r.IsolationLevel = 1
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for _, n := range of[name] {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = n, which
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	got, err := ask[*kmsg.ListOffsetsResponse](ctx, &s.link, front, r)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, t := range got.Topics {
		for _, p := range t.Partitions {
			name := partitionName(t.Topic, p.Partition)
			if err := code(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("rotakafka: offsets of %s: %w", name, err)
			}
			out[name] = p.Offset
		}
	}
	return out, nil
}
