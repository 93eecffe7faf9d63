package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
)

// A publisher is a source that can publish to its partitions. Publish returns when the broker
// has stored the values.
type publisher interface {
	rota.Source
	Publish(ctx context.Context, partition string, values ...[]byte) error
}

// queues publish to such a source, some messages at a time.
type queues struct {
	to      publisher
	waiting map[string][][]byte // by partition
}

// mostWaiting is how many messages of a partition are published at a time.
const mostWaiting = 64

// newQueues makes a Producer of a source that publishes by itself.
func newQueues(ctx context.Context, source string, to publisher, partition string) (*Producer, error) {
	p := &Producer{queues: &queues{to, map[string][][]byte{}}}
	listed, cancel := context.WithTimeout(ctx, connect.StoreTime)
	defer cancel()
	list, err := to.Partitions(listed)
	if err != nil {
		p.Close()
		return nil, cli.Unreachable(source, connect.Words(err))
	}
	for _, one := range list {
		p.subjects = append(p.subjects, one.Name)
	}
	if partition != "" {
		if err := cli.Known("partition", p.subjects, partition); err != nil {
			p.Close()
			return nil, cli.BadUsage(err)
		}
		p.subjects = []string{partition}
	}
	if len(p.subjects) == 0 {
		p.Close()
		return nil, cli.Usagef("--source %s has no partitions yet: name one with --partition", cli.Redact(source))
	}
	return p, nil
}

// add publishes a message together with those that wait, once they are enough.
func (q *queues) add(partition string, value []byte) error {
	q.waiting[partition] = append(q.waiting[partition], slices.Clone(value))
	if len(q.waiting[partition]) < mostWaiting {
		return nil
	}
	return q.send(partition)
}

func (q *queues) send(partition string) error {
	values := q.waiting[partition]
	delete(q.waiting, partition)
	// What was given is published, also after Ctrl-C. The source has a timeout of its own.
	if err := q.to.Publish(context.Background(), partition, values...); err != nil {
		return fmt.Errorf("publish to %s: %w", partition, connect.Words(err))
	}
	return nil
}

func (q *queues) flush() error {
	for _, partition := range slices.Sorted(maps.Keys(q.waiting)) {
		if err := q.send(partition); err != nil {
			return err
		}
	}
	return nil
}

// unhurried is an input that publishes what waits before it waits for more: the next line may
// come in an hour.
type unhurried struct {
	io.Reader
	queues *queues
}

func (u unhurried) Read(b []byte) (int, error) {
	if err := u.queues.flush(); err != nil {
		return 0, err
	}
	return u.Reader.Read(b)
}

func (q *queues) close() {
	if c, ok := q.to.(io.Closer); ok {
		c.Close()
	}
}
