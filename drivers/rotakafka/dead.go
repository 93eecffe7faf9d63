package rotakafka

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/setback"
)

// Dead letters are records of a compacted topic: the key is the letter's ID, and a record
// without a value drops the letter.

// Headers of a dead letter. A message that is dead-lettered loses headers of its own that
// begin with rota-, so that nobody takes them for these; except its ID.
const (
	headerPrefix   = "rota-"
	headerID       = "rota-id" // of any message, set by its producer
	headerGroup    = "rota-group"
	headerOf       = "rota-partition"
	headerPosition = "rota-offset"
	headerMessage  = "rota-message"      // its ID
	headerSent     = "rota-message-time" // when it was produced
	headerKey      = "rota-key"
	headerNull     = "rota-null" // the message has no value, which is not an empty one
	headerReason   = "rota-error"
	headerAttempts = "rota-attempts"
	headerTime     = "rota-time" // when it became a dead letter
	headerFormer   = "rota-former"
)

// mostLetter is how large a dead letter may be.
const mostLetter = 64 << 20

// errDeadLetter means that a message which failed too often could not be stored as a
// dead letter. Its offset is not committed, and the messages after it wait.
var errDeadLetter = errors.New("rotakafka: cannot dead-letter")

// letterTopics are the topics of dead letters that are known to exist, with the number of
// their partitions.
type letterTopics struct {
	mu    sync.Mutex
	known map[string]int
}

// letterID names a letter so that storing it again replaces it: an owner may die between
// that and its commit.
func letterID(l *rota.Letter) string {
	m := &l.Message
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %d %q", l.Group, m.Partition, m.Position, m.Time.UnixNano(), m.Attempt, l.Former))
	return hex.EncodeToString(sum[:10])
}

// storeLetter stores a letter. may is asked directly before that.
func (s *source) storeLetter(ctx context.Context, may func() error, l *rota.Letter) error {
	m := &l.Message
	name, _, err := readPartition(m.Partition)
	if err != nil {
		return err
	}
	to := s.set.deadTopic(name)
	r := &kgo.Record{Topic: to, Partition: -1, Key: []byte(letterID(l)), Value: m.Value, Headers: letterHeaders(l)}
	if r.Value == nil {
		r.Value = []byte{} // none at all would drop the letter
	}
	if err := s.produce(ctx, may, r); err != nil {
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		return fmt.Errorf("%w: message %d of %s to topic %s: %w", errDeadLetter, m.Position, m.Partition, to, err)
	}
	return nil
}

func letterHeaders(l *rota.Letter) (out []kgo.RecordHeader) {
	m := &l.Message
	add := func(k, v string) {
		if v != "" {
			out = append(out, kgo.RecordHeader{Key: k, Value: []byte(v)})
		}
	}
	add(headerGroup, l.Group)
	add(headerOf, m.Partition)
	add(headerPosition, strconv.FormatUint(m.Position, 10))
	add(headerMessage, m.ID)
	add(headerSent, m.Time.UTC().Format(time.RFC3339Nano))
	add(headerReason, brief(l.Reason))
	add(headerAttempts, strconv.Itoa(m.Attempt))
	add(headerTime, l.Time.UTC().Format(time.RFC3339Nano))
	add(headerFormer, l.Former)
	if m.Key != nil {
		out = append(out, kgo.RecordHeader{Key: headerKey, Value: m.Key})
	}
	if m.Value == nil {
		add(headerNull, "true")
	}
	for _, h := range m.Headers {
		if !reserved(h.Key) {
			out = append(out, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return out
}

// reserved tells whether a header is one of a dead letter.
func reserved(header string) bool {
	return strings.HasPrefix(header, headerPrefix) && header != headerID
}

// brief limits a text of a handler.
func brief(text string) string {
	text = strings.ToValidUTF8(text, "?")
	return strings.ToValidUTF8(text[:min(len(text), 2000)], "")
}

// produce stores a record, and makes its topic if there is none.
func (s *source) produce(ctx context.Context, may func() error, r *kgo.Record) error {
	c, err := s.client(front)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx)
	defer cancel()
	for tries := 1; ; tries++ {
		partitions, err := s.makeLetterTopic(ctx, r.Topic)
		if err != nil {
			return err
		}
		if err := may(); err != nil {
			return err
		}
		again := *r
		if again.Partition < 0 {
			again.Partition = int32(crc32.ChecksumIEEE(r.Key) % uint32(partitions)) // a key stays in one partition, as compaction needs it
		}
		err = c.ProduceSync(ctx, &again).FirstErr()
		if !moved(err) || tries == 3 {
			return inWords(err)
		}
		c.PurgeTopicsFromProducing(r.Topic) // the client never leaves a topic that was made again for the first one
		s.letters.forget(r.Topic)
	}
}

func (t *letterTopics) partitions(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[name]
}

func (t *letterTopics) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, name)
}

func (t *letterTopics) add(name string, partitions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]int{}
	}
	t.known[name] = partitions
}

// makeLetterTopic makes a topic of dead letters, unless it is there, and returns how many
// partitions it has.
func (s *source) makeLetterTopic(ctx context.Context, name string) (partitions int, err error) {
	if n := s.letters.partitions(name); n > 0 {
		return n, nil
	}
	numbers, err := s.letterPartitions(ctx, name)
	if err != nil {
		return 0, err
	}
	if len(numbers) == 0 {
		if err := s.createTopic(ctx, name); err != nil {
			return 0, fmt.Errorf("make the topic: %w", err)
		}
		numbers = []int32{0}
	}
	s.letters.add(name, len(numbers))
	return len(numbers), nil
}

func (s *source) createTopic(ctx context.Context, name string) error {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis = int32(answerTime.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, -1 // as many replicas as is usual there
	for _, kv := range [][2]string{{"cleanup.policy", "compact"}, {"max.message.bytes", strconv.Itoa(mostLetter)}} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[0], &kv[1]
		t.Configs = append(t.Configs, c)
	}
	r.Topics = append(r.Topics, t)
	got, err := ask[*kmsg.CreateTopicsResponse](ctx, &s.link, front, r)
	if err != nil {
		return err
	}
	for _, t := range got.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return inWords(err)
		}
	}
	return nil
}

// letterPartitions returns the partitions of a topic of dead letters, nil if there is no
// such topic.
func (s *source) letterPartitions(ctx context.Context, name string) ([]int32, error) {
	list, err := s.metadata(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.Topic == nil || *t.Topic != name {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("topic %s: %w", name, inWords(err))
		}
		var out []int32
		for _, p := range t.Partitions {
			out = append(out, p.Partition)
		}
		return out, nil
	}
	return nil, nil
}

// Letters reads the dead letters one by one, oldest first.
func (s *source) Letters(ctx context.Context, partition string) iter.Seq2[rota.Letter, error] {
	return func(yield func(rota.Letter, error) bool) {
		fail := func(err error) { yield(rota.Letter{}, fmt.Errorf("rotakafka: dead letters: %w", err)) }
		names, err := s.letterTopics(ctx, partition)
		if err != nil {
			fail(err)
			return
		}
		for _, name := range names {
			alive, err := s.alive(ctx, name)
			if err != nil {
				fail(err)
				return
			}
			if len(alive) == 0 {
				continue
			}
			more := true
			err = s.eachRecord(ctx, name, func(r *kgo.Record) bool {
				if at, ok := alive[string(r.Key)]; !ok || at != (spot{r.Partition, r.Offset}) {
					return true
				}
				if l, ok := s.readLetter(r); ok && (partition == "" || l.Message.Partition == partition) {
					more = yield(l, nil)
				}
				return more
			})
			if err != nil {
				fail(err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// letterTopics returns the topics that have the dead letters of a partition, or of all.
func (s *source) letterTopics(ctx context.Context, partition string) ([]string, error) {
	if s.bad != nil {
		return nil, permanent{s.bad}
	}
	if s.set.dead != "" {
		return []string{s.set.dead}, nil
	}
	if partition != "" {
		name, _, err := readPartition(partition)
		return []string{s.set.deadTopic(name)}, err
	}
	all := map[string]bool{}
	for _, name := range s.set.topics {
		all[s.set.deadTopic(name)] = true
	}
	if s.set.pattern != nil {
		list, err := s.metadata(ctx, nil)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if t.Topic != nil && s.set.lists(*t.Topic) {
				all[s.set.deadTopic(*t.Topic)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// A spot is where a record is in a topic.
type spot struct {
	number int32
	offset int64
}

// alive returns where the last record of each letter is that was not dropped.
func (s *source) alive(ctx context.Context, name string) (map[string]spot, error) {
	out := map[string]spot{}
	err := s.eachRecord(ctx, name, func(r *kgo.Record) bool {
		if r.Value == nil {
			delete(out, string(r.Key))
		} else if _, ok := s.readLetter(r); ok {
			out[string(r.Key)] = spot{r.Partition, r.Offset}
		}
		return true
	})
	return out, err
}

// eachRecord shows the records that a topic has now, those of each of its partitions in
// order.
func (s *source) eachRecord(ctx context.Context, name string, show func(*kgo.Record) bool) error {
	numbers, err := s.letterPartitions(ctx, name)
	if err != nil || numbers == nil {
		return err
	}
	of := map[string][]int32{name: numbers}
	begins, err := s.letterBounds(ctx, of, beginning)
	if err != nil {
		return err
	}
	ends, err := s.letterBounds(ctx, of, end)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		p := partitionName(name, n)
		if more, err := s.records(ctx, name, n, begins[p], ends[p], show); err != nil || !more {
			return err
		}
	}
	return nil
}

// letterBounds is bounds for a topic that was perhaps made a moment ago, and has no leader
// yet.
func (s *source) letterBounds(ctx context.Context, of map[string][]int32, which int64) (out map[string]int64, err error) {
	for end := time.Now().Add(setback.Away); ; {
		out, err = s.bounds(ctx, of, which)
		if !moved(err) || time.Now().After(end) {
			return out, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// records shows the records of a partition from one offset to another.
func (s *source) records(ctx context.Context, name string, number int32, from, to int64, show func(*kgo.Record) bool) (more bool, err error) {
	if from >= to {
		return true, nil
	}
	t, err := s.letterTopic(ctx, name)
	if err != nil {
		return false, err
	}
	if int(number) >= len(t.leaders) || t.leaders[number] < 0 {
		return false, fmt.Errorf("%s has no leader now (%w)", partitionName(name, number), kerr.LeaderNotAvailable)
	}
	c := s.fetcher.add(name, t.id, number, t.leaders[number], from, chunk{})
	defer s.fetcher.remove(c)
	for at := from; at < to; {
		ch, ok, err := s.fetcher.pop(c)
		switch {
		case err != nil:
			return false, err
		case !ok:
			select {
			case <-c.ready:
			case <-ctx.Done():
				return false, ctx.Err()
			}
			continue
		}
		for _, r := range ch.records {
			if r.Offset < to && !show(r) {
				return false, nil
			}
		}
		at = ch.next
	}
	return true, nil
}

// letterTopic looks up a topic of dead letters.
func (s *source) letterTopic(ctx context.Context, name string) (*topic, error) {
	list, err := s.metadata(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.Topic != nil && *t.Topic == name && t.ErrorCode == 0 {
			return readTopic(t, time.Now()), nil
		}
	}
	return nil, s.noTopic(name)
}

// readLetter decodes a stored letter. Anybody who may write to the topic can write any
// record, so it counts only if its key and its headers fit together.
func (s *source) readLetter(r *kgo.Record) (l rota.Letter, ok bool) {
	header := map[string]string{}
	m := rota.Message{Value: r.Value}
	for _, h := range r.Headers {
		switch {
		case !reserved(h.Key):
			m.Headers = append(m.Headers, rota.Header{Key: h.Key, Value: h.Value})
		case h.Key == headerKey:
			m.Key = h.Value
		default:
			header[h.Key] = string(h.Value)
		}
	}
	name, _, err := readPartition(header[headerOf])
	position, err1 := strconv.ParseUint(header[headerPosition], 10, 63)
	attempts, err2 := strconv.ParseUint(header[headerAttempts], 10, 31)
	dead, err3 := time.Parse(time.RFC3339Nano, header[headerTime])
	sent, err4 := time.Parse(time.RFC3339Nano, header[headerSent])
	if errors.Join(err, err1, err2, err3, err4) != nil || attempts == 0 || s.set.deadTopic(name) != r.Topic {
		return l, false
	}
	m.ID, m.Partition, m.Position, m.Time, m.Attempt = header[headerMessage], header[headerOf], position, sent, int(attempts)
	if header[headerNull] != "" {
		m.Value = nil
	}
	l = rota.Letter{ID: string(r.Key), Message: m, Group: header[headerGroup], Reason: brief(header[headerReason]), Time: dead, Former: header[headerFormer]}
	return l, letterID(&l) == l.ID
}

// DropLetter removes a dead letter.
func (s *source) DropLetter(ctx context.Context, id string) error {
	names, err := s.letterTopics(ctx, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		alive, err := s.alive(ctx, name)
		if err != nil {
			return fmt.Errorf("rotakafka: drop dead letter %.40s: %w", id, err)
		}
		at, ok := alive[id]
		if !ok {
			continue
		}
		if err := s.produce(ctx, ctx.Err, &kgo.Record{Topic: name, Partition: at.number, Key: []byte(id)}); err != nil {
			return fmt.Errorf("rotakafka: drop dead letter %s: %w", id, err)
		}
		return nil
	}
	return fmt.Errorf("rotakafka: dead letter %.40q: %w", id, rota.ErrNotFound)
}

// RenewLetter stores a letter again and drops the former one.
func (s *source) RenewLetter(ctx context.Context, l rota.Letter) error {
	if err := s.storeLetter(ctx, ctx.Err, &l); err != nil {
		return err
	}
	return s.DropLetter(ctx, l.Former)
}
