package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
)

// A bucket is a sink in a key-value bucket of NATS: the last value of each partition, as its
// watchers see one after the other. The owner is in the same entry as the value, and the entry is
// written by compare-and-set. Partitions have to be named as keys are: A-Z, a-z, 0-9 and -_=./.
type bucket struct {
	nc *nats.Conn
	kv jetstream.KeyValue
}

// An entry is what the bucket has of a partition.
type entry struct {
	owner
	Value []byte `json:"value"`
}

func openNATS(ctx context.Context, url, name string) (Sink, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	var kv jetstream.KeyValue
	if err == nil {
		kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, History: 64})
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &bucket{nc, kv}, nil
}

// Save reads the entry and replaces exactly that version of it. If somebody else was faster, the
// question who may write is asked again.
func (b *bucket) Save(ctx context.Context, msg rota.Message) error {
	for {
		var last entry
		rev := uint64(0)
		was, err := b.kv.Get(ctx, msg.Partition)
		if err == nil {
			rev, err = was.Revision(), json.Unmarshal(was.Value(), &last)
		}
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return err
		}
		next := entry{ownerOf(msg), msg.Value}
		if rev > 0 && !next.follows(last.owner) {
			return refused(msg)
		}
		text, err := json.Marshal(next)
		if err != nil {
			return err
		}
		_, err = b.kv.Update(ctx, msg.Partition, text, rev) // 0: there must be none
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
	}
}

func (b *bucket) Close() error {
	b.nc.Close()
	return nil
}
