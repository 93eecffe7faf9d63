package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
)

// A topic is a sink in Kafka: partition orders.3 is saved in partition 3 of the topic, one
// transaction per message.
//
// Kafka knows nothing of tokens. It knows who has initialized a transactional id last, and refuses
// everybody else. So each owner initializes the id of its partition and then reads who has written
// last. If that was a later owner, it must not write; if not, nobody can have written in between.
// A former owner that wakes and initializes the id finds the later owner's record, and the later
// owner, which Kafka now refuses, initializes the id again.
type topic struct {
	addr, name string
	mu         sync.Mutex
	writers    map[string]*writer // by partition
}

// A writer is a client that has initialized the transactional id of a partition for an owner.
type writer struct {
	owner
	client *kgo.Client
	number int32
}

const (
	tokenHeader   = "rota-token"
	sessionHeader = "rota-session"
)

func openKafka(addr, name string) Sink {
	return &topic{addr: addr, name: name, writers: map[string]*writer{}}
}

func (t *topic) Save(ctx context.Context, msg rota.Message) error {
	for {
		w, known, err := t.writer(ctx, msg)
		if err != nil {
			return err
		}
		err = w.write(ctx, t.name, msg)
		if err == nil {
			return nil
		}
		t.drop(msg.Partition, w)
		if !known || !fenced(err) {
			return err
		}
		// Somebody has initialized the id since: look who.
	}
}

// writer is the writer of the message's owner. known tells whether it has been used before.
func (t *topic) writer(ctx context.Context, msg rota.Message) (w *writer, known bool, err error) {
	t.mu.Lock()
	w = t.writers[msg.Partition]
	t.mu.Unlock()
	if w != nil && w.owner == ownerOf(msg) {
		return w, true, nil
	}
	if w != nil {
		t.drop(msg.Partition, w)
	}
	if w, err = t.open(ctx, msg); err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writers[msg.Partition] = w
	return w, false, nil
}

func (t *topic) drop(partition string, w *writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writers[partition] == w {
		delete(t.writers, partition)
	}
	w.client.Close()
}

// open shuts out everybody else, and then looks who has written last.
func (t *topic) open(ctx context.Context, msg rota.Message) (*writer, error) {
	number, err := numberOf(msg.Partition)
	if err != nil {
		return nil, err
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(t.addr), kgo.TransactionalID("saved-"+msg.Partition), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	_, _, err = c.ProducerID(ctx)
	var last owner
	if err == nil {
		last, err = t.last(ctx, number)
	}
	if err == nil && !ownerOf(msg).follows(last) {
		err = refused(msg)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &writer{ownerOf(msg), c, number}, nil
}

// write saves a message in a transaction of its own.
func (w *writer) write(ctx context.Context, topic string, msg rota.Message) error {
	if err := w.client.BeginTransaction(); err != nil {
		return err
	}
	r := &kgo.Record{Topic: topic, Partition: w.number, Key: []byte(msg.Partition), Value: msg.Value, Headers: []kgo.RecordHeader{
		{Key: tokenHeader, Value: strconv.AppendUint(nil, uint64(w.Token), 10)}, {Key: sessionHeader, Value: []byte(w.Session)}}}
	if err := w.client.ProduceSync(ctx, r).FirstErr(); err != nil {
		w.client.EndTransaction(ctx, kgo.TryAbort)
		return err
	}
	return w.client.EndTransaction(ctx, kgo.TryCommit)
}

// last reads who has written the last record of a partition. Between it and the end there may be
// records of transactions that were aborted, and the marks that Kafka leaves at the end of each, so
// it is looked for in steps that grow.
func (t *topic) last(ctx context.Context, number int32) (owner, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(t.addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return owner{}, err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListCommittedOffsets(ctx, t.name)
	if err != nil {
		return owner{}, err
	}
	end, ok := ends.Lookup(t.name, number)
	if !ok || end.Err != nil {
		return owner{}, fmt.Errorf("partition %d of topic %s: %w", number, t.name, errors.Join(kerr.UnknownTopicOrPartition, end.Err))
	}
	for step := int64(8); ; step *= 8 {
		from := max(0, end.Offset-step)
		found, err := t.search(ctx, c, number, from, end.Offset)
		if err != nil || found != nil || from == 0 {
			return ownerOfRecord(found), err
		}
	}
}

// search returns the last record of a range, nil if there is none.
func (t *topic) search(ctx context.Context, c *kgo.Client, number int32, from, to int64) (found *kgo.Record, err error) {
	c.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.name: {number: kgo.NewOffset().At(from)}})
	defer c.RemoveConsumePartitions(map[string][]int32{t.name: {number}})
	for at := from; at < to; {
		got := c.PollFetches(ctx)
		if err := got.Err(); err != nil {
			return nil, err
		}
		for r := range got.RecordsAll() {
			if at = r.Offset + 1; !r.Attrs.IsControl() && r.Offset < to {
				found = r
			}
		}
	}
	return found, nil
}

// ownerOfRecord is who has written a record; nobody for none.
func ownerOfRecord(r *kgo.Record) (o owner) {
	if r == nil {
		return o
	}
	for _, h := range r.Headers {
		switch h.Key {
		case tokenHeader:
			n, _ := strconv.ParseUint(string(h.Value), 10, 64)
			o.Token = rota.Token(n)
		case sessionHeader:
			o.Session = string(h.Value)
		}
	}
	return o
}

// numberOf is the number at the end of a partition's name.
func numberOf(partition string) (int32, error) {
	at := len(partition)
	for at > 0 && '0' <= partition[at-1] && partition[at-1] <= '9' {
		at--
	}
	n, err := strconv.ParseInt(partition[at:], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("partition %s has no number at its end, which says where it is saved", partition)
	}
	return int32(n), nil
}

// fenced tells whether another client has initialized the transactional id.
func fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.InvalidProducerIDMapping)
}

func (t *topic) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.writers {
		w.client.Close()
	}
	return nil
}
