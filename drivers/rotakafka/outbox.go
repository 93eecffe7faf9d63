package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
)

// Produce is for a handler that turns messages of Kafka into messages of Kafka. It keeps
// records until the handler has returned without an error, and then produces them in the
// transaction that commits the offset of msg: readers of committed messages (read=committed,
// isolation.level=read_committed) see the result of each message exactly once, also across
// a kill. Records of an attempt that failed are dropped. src is the Source that has
// delivered msg, and must not have fence=none.
//
// The results of several messages become visible together, when their offsets are
// committed: see every= and window= in docs/sources/kafka.md.
func Produce(src rota.Source, msg rota.Message, records ...*kgo.Record) error {
	s, ok := src.(*source)
	switch {
	case !ok:
		return fmt.Errorf("rotakafka: produce: the source is a %T: give the one that Source has returned", src)
	case s.set.plain:
		return errors.New("rotakafka: produce: fence=none has no transactions: leave it out of the URL")
	}
	p := s.pumps.of(msg.Partition)
	if p == nil || p.own.Token() != msg.Token || p.own.Session() != msg.Session {
		return fmt.Errorf("rotakafka: produce for a message of %s: %w", msg.Partition, rota.ErrLost)
	}
	p.outbox.add(int64(msg.Position), msg.Attempt, records)
	return nil
}

// pumps are those that run, by partition.
type pumps struct {
	mu  sync.Mutex
	all map[string]*pump
}

func (ps *pumps) of(partition string) *pump {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.all[partition]
}

// add registers a pump until remove is called.
func (ps *pumps) add(p *pump) (remove func()) {
	name := p.own.Partition()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all == nil {
		ps.all = map[string]*pump{}
	}
	ps.all[name] = p
	return func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if ps.all[name] == p {
			delete(ps.all, name)
		}
	}
}

// An outbox has the records that handlers want to be produced, by the offset of the message
// they are the result of.
type outbox struct {
	mu   sync.Mutex
	used bool
	all  map[int64]*result
}

// A result is what one attempt to handle one message has produced.
type result struct {
	attempt int
	records []*kgo.Record
}

func (o *outbox) add(at int64, attempt int, records []*kgo.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[int64]*result{}
	}
	o.used = true
	r := o.all[at]
	if r == nil || r.attempt != attempt {
		r = &result{attempt: attempt}
		o.all[at] = r
	}
	r.records = append(r.records, records...)
}

// drop forgets the result of a message that was dead-lettered.
func (o *outbox) drop(at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, at)
}

// before returns the records of all messages before an offset, in order. They stay until
// forget is called.
func (o *outbox) before(offset int64) (out []*kgo.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(o.all)) {
		if at < offset {
			out = append(out, o.all[at].records...)
		}
	}
	return out
}

func (o *outbox) forget(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.all, func(at int64, _ *result) bool { return at < offset })
}

func (o *outbox) wasUsed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.used
}

// produce commits an offset and produces records in one transaction. The first time it opens
// a client for the partition, which initializes the transactional id anew.
func (f *fence) produce(ctx context.Context, topic string, number int32, at int64, n note, records []*kgo.Record) error {
	if f.producer == nil {
		c, err := kgo.NewClient(append(f.s.set.options(), kgo.TransactionalID(f.id), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))...)
		if err != nil {
			return err
		}
		f.producer = c
	}
	pid, epoch, err := f.producer.ProducerID(ctx)
	if err != nil {
		return inWords(err)
	}
	f.pid, f.epoch = pid, epoch
	f.entered = false // by this client and in this transaction
	defer func() { f.entered = false }()
	if err := f.producer.BeginTransaction(); err != nil {
		return inWords(err)
	}
	err = f.send(ctx, records)
	if err == nil {
		err = f.addOffset(ctx, topic, number, at, n)
	}
	if err != nil {
		return errors.Join(err, f.producer.EndTransaction(ctx, kgo.TryAbort))
	}
	return inWords(f.producer.EndTransaction(ctx, kgo.TryCommit))
}

// send produces records and waits until all are acknowledged.
func (f *fence) send(ctx context.Context, records []*kgo.Record) error {
	copies := make([]*kgo.Record, len(records))
	for i, r := range records {
		c := *r
		copies[i] = &c
	}
	if err := f.producer.ProduceSync(ctx, copies...).FirstErr(); err != nil {
		return fmt.Errorf("produce %d records: %w", len(records), inWords(err))
	}
	return nil
}

// close closes the client of the partition, if it has one.
func (f *fence) close() {
	if f.producer != nil {
		f.producer.Close()
	}
}
