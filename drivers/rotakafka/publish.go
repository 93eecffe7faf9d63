package rotakafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Publish appends messages to a partition, in order, for commands and tests. It returns
// when the broker has acknowledged all of them.
func (s *source) Publish(ctx context.Context, partition string, values ...[]byte) error {
	name, number, err := readPartition(partition)
	if err != nil {
		return err
	}
	c, err := s.client(front)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx)
	defer cancel()
	var list []*kgo.Record
	for _, v := range values {
		list = append(list, &kgo.Record{Topic: name, Partition: number, Value: v})
	}
	if err := c.ProduceSync(ctx, list...).FirstErr(); err != nil {
		// The client does not notice that the topic was made again, and notices late that it
		// has more partitions: next time it has to ask.
		c.PurgeTopicsFromProducing(name)
		return fmt.Errorf("rotakafka: publish to %s: %w", partition, s.set.inWords(err))
	}
	return nil
}
