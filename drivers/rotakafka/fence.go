package rotakafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
)

// A fence commits the offsets of one partition for one owner. With a transactional id,
// which the partition has for itself, the broker refuses every commit of a former owner.
type fence struct {
	s       *source
	desk    int
	group   string
	id      string // transactional; "" for plain commits
	pid     int64
	epoch   int16
	shut    bool // former owners are shut out
	entered bool // the group's offsets are a part of the transaction that is open
	added   part // what is, if entered

	producer *kgo.Client // of records that handlers produce; nil until there are some
}

// A part of a transaction is an offset with its note. A later one takes the place of an earlier one.
type part struct {
	at   int64
	note note
}

// transactionTime is after how long the broker aborts a transaction that nobody ends: longer than
// every= may be, which is how long one is open that was staged. An owner that dies in one does not cost
// this much: the next one aborts it.
const transactionTime = 120_000 // ms

func transactionalID(group, partition string) string { return "rota-" + group + "-" + partition }

func (s *source) newFence(desk int, group, partition string) *fence {
	f := &fence{s: s, desk: desk, group: group}
	if !s.set.plain {
		f.id = transactionalID(group, partition)
	}
	return f
}

// shutOut shuts all former owners of the partition out, unless this was done before: their
// transactions are aborted, and none of their commits has an effect any more.
func (f *fence) shutOut(ctx context.Context, own rota.Ownership) error {
	if f.shut || f.id == "" {
		return nil
	}
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis = &f.id, transactionTime
	r.ProducerID, r.ProducerEpoch = -1, -1
	err := again(ctx, func() error {
		if err := own.Check(); err != nil { // otherwise a former owner would shut out the next one
			return err
		}
		got, err := ask[*kmsg.InitProducerIDResponse](ctx, &f.s.link, f.desk, r)
		if err != nil {
			return err
		}
		f.pid, f.epoch = got.ProducerID, got.ProducerEpoch
		return code(got.ErrorCode)
	})
	if err != nil {
		return fmt.Errorf("rotakafka: fence %s by transactional id %s: %w", own.Partition(), f.id, err)
	}
	f.shut = true
	return nil
}

// commit commits the offset of a partition, and produces what handlers made of the messages
// before it.
func (f *fence) commit(ctx context.Context, topic string, number int32, at int64, n note, records []*kgo.Record) (err error) {
	switch {
	case f.id == "":
		err = f.plainly(ctx, topic, number, at, n)
	case len(records) > 0:
		err = f.produce(ctx, topic, number, at, n, records)
	default:
		err = f.transact(ctx, topic, number, at, n)
	}
	if err != nil {
		return fmt.Errorf("rotakafka: commit offset %d of %s: %w", at, partitionName(topic, number), err)
	}
	return nil
}

// transact commits in a transaction. Each step may be repeated: an answer may be lost.
func (f *fence) transact(ctx context.Context, topic string, number int32, at int64, n note) error {
	if !f.entered || f.added != (part{at, n}) { // otherwise it was staged
		if err := f.addOffset(ctx, topic, number, at, n); err != nil {
			return err
		}
	}
	return f.end(ctx, true)
}

// abort ends what the partition's producer has left open at the group, in a transaction of its own
// that is aborted. Normally newFence has done so. But a commit whose answer was lost is repeated, and
// if the broker dies at the right moment, the repetition stays behind the end of its transaction:
// nobody would end it any more, and Kafka would show the offset as unstable for good.
func (f *fence) abort(ctx context.Context) error {
	if f.id == "" {
		return nil
	}
	if err := f.enter(ctx); err != nil {
		return err
	}
	return f.end(ctx, false)
}

// end commits or aborts the transaction.
func (f *fence) end(ctx context.Context, commit bool) error {
	f.entered = false
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = f.id, f.pid, f.epoch, commit
	return again(ctx, func() error {
		got, err := ask[*kmsg.EndTxnResponse](ctx, &f.s.link, f.desk, end)
		if err != nil {
			return err
		}
		return code(got.ErrorCode)
	})
}

// enter makes the offsets of the group a part of the transaction, which opens it if nothing has yet.
func (f *fence) enter(ctx context.Context) error {
	if f.entered || f.id == "" {
		return nil
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = f.id, f.pid, f.epoch, f.group
	err := again(ctx, func() error {
		got, err := ask[*kmsg.AddOffsetsToTxnResponse](ctx, &f.s.link, f.desk, add)
		if err != nil {
			return err
		}
		return code(got.ErrorCode)
	})
	f.entered = err == nil
	return err
}

// addOffset makes an offset a part of the transaction.
func (f *fence) addOffset(ctx context.Context, topic string, number int32, at int64, n note) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	set := kmsg.NewPtrTxnOffsetCommitRequest()
	set.TransactionalID, set.ProducerID, set.ProducerEpoch, set.Group, set.Generation = f.id, f.pid, f.epoch, f.group, -1
	t, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = number, at, -1, kmsg.StringPtr(n.String())
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	set.Topics = append(set.Topics, t)
	f.added = part{}
	err := again(ctx, func() error {
		got, err := ask[*kmsg.TxnOffsetCommitResponse](ctx, &f.s.link, f.desk, set)
		if err != nil {
			return err
		}
		for _, t := range got.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return code(p.ErrorCode)
				}
			}
		}
		return nil
	})
	if err == nil {
		f.added = part{at, n}
	}
	return err
}

// plainly commits without a transaction. The lease alone keeps a former owner from it.
func (f *fence) plainly(ctx context.Context, topic string, number int32, at int64, n note) error {
	set := kmsg.NewPtrOffsetCommitRequest()
	set.Group, set.Generation = f.group, -1
	t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = number, at, -1, kmsg.StringPtr(n.String())
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	set.Topics = append(set.Topics, t)
	return again(ctx, func() error {
		got, err := ask[*kmsg.OffsetCommitResponse](ctx, &f.s.link, f.desk, set)
		if err != nil {
			return err
		}
		for _, t := range got.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return code(p.ErrorCode)
				}
			}
		}
		return nil
	})
}
