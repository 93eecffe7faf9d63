package rotanats

import (
	"context"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// A meter knows the consumers that this process uses, and what it has read of consumers.
type meter struct {
	mu      sync.Mutex
	in      map[string]string  // by partition, the consumer that a pump uses
	arrived map[string]arrival // by partition
}

// An arrival is the most that has arrived for a consumer, as far as was read.
type arrival struct {
	consumer string
	n        uint64
}

func (m *meter) attach(partition, consumer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.in == nil {
		m.in = map[string]string{}
	}
	m.in[partition] = consumer
}

// detach does nothing if the partition has another consumer by now.
func (m *meter) detach(partition, consumer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.in[partition] == consumer {
		delete(m.in, partition)
	}
}

// attached returns the consumers that pumps use, nil unless all partitions have one.
func (m *meter) attached(partitions []string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]string, len(partitions))
	for _, p := range partitions {
		if out[p] = m.in[p]; out[p] == "" {
			return nil
		}
	}
	return out
}

// neverLess returns how many messages have arrived for a consumer, and no fewer than it has
// returned before: when a consumer of a cluster gets another leader, that one may not know
// of the last deliveries yet.
func (m *meter) neverLess(partition string, c *consumerInfo) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.arrived == nil {
		m.arrived = map[string]arrival{}
	}
	now := arrival{c.Name, c.Delivered.Consumer + c.NumPending}
	if was := m.arrived[partition]; was.consumer == now.consumer {
		now.n = max(now.n, was.n)
	}
	m.arrived[partition] = now
	return now.n
}

// Read counts by the consumers: the messages that a consumer has delivered and those
// it has yet to deliver have arrived since it was created. For a partition without a
// consumer of our group, the messages in the stream count; a source that was never bound
// knows no consumers.
func (s *source) Read(ctx context.Context, partitions []string) ([]rota.Reading, error) {
	f, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	if s.few(f, len(partitions)) {
		if out, err := s.readAttached(ctx, partitions); out != nil || err != nil {
			return out, err
		}
	}
	counts, created, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	consumers, err := s.consumers(ctx)
	if err != nil {
		return nil, err
	}
	var out []rota.Reading
	for _, p := range partitions {
		r := rota.Reading{Partition: p, Arrived: counts[p], Backlog: int64(counts[p]), Epoch: "stream of " + created.UTC().Format(time.RFC3339Nano)}
		if c := consumers[p]; c != nil {
			r = s.reading(p, c)
		}
		out = append(out, r)
	}
	return out, nil
}

// reading is what a consumer tells of its partition.
func (s *source) reading(partition string, c *consumerInfo) rota.Reading {
	return rota.Reading{Partition: partition, Arrived: s.meter.neverLess(partition, c), Epoch: c.Name,
		Backlog: int64(c.NumPending) + int64(c.NumAckPending)}
}

// A list shows all consumers of a stream and counts all its subjects. Every member asks for
// its own quiet partitions, so with lists a thousand members with a partition each would
// cause a million entries. A request of its own costs the server about as much as some
// entries of a list.
const (
	fewAsked    = 16  // partitions: with no more of them, they are asked for one by one
	mostAsked   = 256 // partitions: with more of them, one by one would take too long
	oneInSoMany = 16  // partitions of the stream for each one asked: between those two, so many make a list dearer
)

// few tells whether n partitions are asked for one by one.
func (s *source) few(f *facts, n int) bool {
	all := max(s.set.Partitions, f.consumers)
	return n <= fewAsked || n <= mostAsked && n*oneInSoMany <= all
}

// readAttached reads partitions by the consumers that this process uses. It returns nil if
// it uses none of one of them, or that is gone.
func (s *source) readAttached(ctx context.Context, partitions []string) (out []rota.Reading, err error) {
	used := s.meter.attached(partitions)
	if used == nil {
		return nil, nil
	}
	for _, p := range partitions {
		c, err := s.info(ctx, used[p])
		if c == nil || err != nil {
			return nil, err
		}
		out = append(out, s.reading(p, c))
	}
	return out, nil
}

// consumers returns the current consumer of each partition: the one with the highest
// token.
func (s *source) consumers(ctx context.Context) (map[string]*consumerInfo, error) {
	r := s.reader.Load()
	if r == nil {
		return nil, nil
	}
	present, highest := map[string]*consumerInfo{}, map[string]uint64{}
	err := s.eachConsumer(ctx, r, func(c *consumerInfo, token uint64) {
		if p := c.Config.FilterSubject; token >= highest[p] && !r.others(c.Config.Metadata[metaGroup]) {
			present[p], highest[p] = c, token
		}
	})
	return present, err
}
