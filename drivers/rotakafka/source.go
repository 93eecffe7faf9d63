package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/setback"
)

// Source consumes partitions of Kafka topics, at an address like
//
//	kafka://host:9092?topic=orders
//	kafka+ssl://user@host1,host2?topic=orders,payments&sasl=scram-sha-512&password-file=FILE
//	kafka://host:9092?pattern=orders\..*
//
// The partitions are orders-0, orders-1 and so on; new ones are found. Offsets are
// committed under the name of the group, without membership in a Kafka group: a Kafka
// group of that name must have no members, and if it has left offsets, the partitions go on
// there.
//
// Messages of a partition arrive in order, even after its owner was killed. A message
// that was handled and whose offset was not committed when its owner died is delivered
// again. A former owner commits nothing: offsets are committed in transactions of the
// partition's own transactional id, which each owner initializes.
func Source(url string, opts ...Option) rota.Source {
	set, err := read(url, opts)
	s := &source{link: link{set: set, bad: err}, topics: map[string]*topic{}, lookup: make(chan struct{}, 1), inspecting: make(chan struct{}, 1),
		inspected: map[string]inspection{}, slots: make(chan struct{}, maxAttaching)}
	s.fetcher = newFetcher(&s.link)
	return s
}

// maxAttaching limits how many partitions attach at the same time.
const maxAttaching = 64

type source struct {
	link
	fetcher  *fetcher
	group    atomic.Pointer[string] // nil until Bind
	slots    chan struct{}          // a semaphore: one element per partition that attaches
	setbacks setback.Book
	marks    marks
	letters  letterTopics
	pumps    pumps
	trusted  atomic.Bool // the last commit of any partition has succeeded

	lookup     chan struct{} // has an element while topics are asked for
	inspecting chan struct{} // has an element while inspected is in use
	inspected  map[string]inspection

	mu     sync.Mutex
	topics map[string]*topic
}

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (s *source) Check() error { return s.bad }

// Prepare does what the first attach would otherwise wait for: it connects, and looks up
// the topic and who coordinates the group and the transactions.
func (s *source) Prepare(ctx context.Context, p rota.Partition) error {
	name, number, err := readPartition(p.Name)
	if err != nil {
		return err
	}
	t, err := s.locate(ctx, name, number, time.Time{})
	if err != nil {
		return err
	}
	s.fetcher.warm(t.leaders[number])
	if group, err := s.groupName(); err == nil {
		s.greet(ctx, deskOf(number), group, p.Name)
		s.alone(ctx, group, freshTime) // Consume tells if it is not
	}
	return nil
}

// freshTime is how old the answer may be that a Kafka group has no members, when a partition
// attaches.
const freshTime = time.Second

// greet lets the client of a desk find out who coordinates a group and the transactions of a
// partition, by questions whose answers do not matter.
func (s *source) greet(ctx context.Context, desk int, group, partition string) {
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Group, offsets.Topics = group, []kmsg.OffsetFetchRequestTopic{}
	ask[*kmsg.OffsetFetchResponse](ctx, &s.link, desk, offsets)
	if !s.set.plain {
		transactions := kmsg.NewPtrDescribeTransactionsRequest()
		transactions.TransactionalIDs = []string{transactionalID(group, partition)}
		ask[*kmsg.DescribeTransactionsResponse](ctx, &s.link, desk, transactions)
	}
}

// Consume attaches to the partition and delivers its messages. When it fails it attaches
// again, with back-off.
func (s *source) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	err := s.setbacks.Try(ctx, own.Partition(), own.Stop(), func() (bool, error) { return s.consume(ctx, own, deliver) }, func(err error, failing bool) setback.Verdict {
		switch {
		case s.over(err):
			return setback.Over
		case hopeless(err) || failing:
			return setback.GiveUp
		}
		if shutOut(err) {
			own.Tell("shut-out", fmt.Sprintf("somebody else has initialized the transactional id of %s: a second group of this name may consume it, one that meets in another store", own.Partition()))
		}
		s.set.Log.Debug("attach again", "partition", own.Partition(), "token", own.Token(), "err", err)
		return setback.Again
	})
	if err == nil || ctx.Err() != nil || s.over(err) {
		s.marks.remove(own)
	}
	return err
}

// over tells whether no further attempt to consume could help after an error.
func (s *source) over(err error) bool { return errors.Is(err, rota.ErrLost) || s.bad != nil }

// hopeless tells whether attaching again at once would not help after an error: rota
// reports it and backs off.
func hopeless(err error) bool {
	var f foreign
	return errors.As(err, &f) || refused(err) || errors.Is(err, rota.ErrPermanent) || errors.Is(err, errUnbound) || errors.Is(err, errUnreadable) ||
		errors.Is(err, errOutOfRange) || errors.Is(err, errDeadLetter)
}

// consume attaches once and delivers until it fails or stops. worked tells whether it was
// of use: an offset was committed, or it was attached for a while.
func (s *source) consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) (worked bool, err error) {
	select {
	case s.slots <- struct{}{}:
	case <-own.Stop():
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	p, err := s.attach(ctx, own)
	<-s.slots
	if err != nil {
		return false, err
	}
	own.Started()
	begun := time.Now()
	err = p.run(ctx, deliver)
	s.marks.put(own, p.mark())
	return p.proven || time.Since(begun) > setback.Away, err
}

// attach shuts the former owner out, and finds where to go on. The order matters: an
// offset that was read before the former owner was shut out may be outdated.
func (s *source) attach(ctx context.Context, own rota.Ownership) (*pump, error) {
	if s.bad != nil {
		return nil, permanent{s.bad}
	}
	group, err := s.groupName()
	if err != nil {
		return nil, err
	}
	name, number, err := readPartition(own.Partition())
	if err != nil {
		return nil, err
	}
	known := time.Time{} // what is known of the topic will do, unless it has just failed us
	if s.marks.has(own) {
		known = time.Now()
	}
	t, err := s.locate(ctx, name, number, known)
	if err != nil {
		return nil, err
	}
	s.fetcher.warm(t.leaders[number])
	if err := s.alone(ctx, group, freshTime); err != nil {
		return nil, err
	}
	f, err := s.newFence(ctx, own, deskOf(number), group)
	if err != nil {
		return nil, err
	}
	p := &pump{s: s, own: own, fence: f, topic: name, number: number, id: t.id}
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	p.cursor = s.fetcher.add(name, t.id, number, t.leaders[number], p.position)
	return p, nil
}

// begin finds the offset at which the partition goes on.
func (p *pump) begin(ctx context.Context) error {
	s, name := p.s, p.own.Partition()
	of := map[string][]int32{p.topic: {p.number}}
	all, err := s.offsets(ctx, p.fence.desk, p.fence.group, of)
	if errors.Is(err, kerr.UnstableOffsetCommit) {
		s.set.Log.Info("an offset belongs to a transaction that nobody ends: ending it", "partition", name, "token", p.own.Token())
		if err := p.fence.abort(ctx); err != nil {
			return err
		}
		all, err = s.offsets(ctx, p.fence.desk, p.fence.group, of)
	}
	if err != nil {
		return err
	}
	at, ok := all[name]
	if !ok {
		at.at = -1
	}
	if at.at >= 0 && at.noted && at.note.topic != p.id && at.note.topic != unknown && p.id != unknown {
		p.own.Tell("topic-made-again", fmt.Sprintf("topic %s was deleted and made again since offset %d was committed: %s begins with its first message", p.topic, at.at, name))
		p.moved = true
		p.position, err = s.bound(ctx, p.topic, p.number, beginning)
		return err
	}
	p.position, p.settled, p.since = at.at, at.at, time.Now()
	if m, ok := s.marks.get(p.own); ok && m.topic == p.id && m.at > at.at {
		p.position = m.at
	}
	if p.position >= 0 {
		return nil
	}
	return p.beginNew(ctx, of)
}

// beginNew finds where a partition begins that the group has no offset of.
func (p *pump) beginNew(ctx context.Context, of map[string][]int32) (err error) {
	s := p.s
	if old := s.set.takeover; old != "" && old != p.fence.group {
		if err := s.alone(ctx, old, freshTime); err != nil {
			return err
		}
		all, err := s.offsets(ctx, p.fence.desk, old, of)
		if err != nil {
			return err
		}
		if at, ok := all[p.own.Partition()]; ok && at.at >= 0 {
			p.position, p.moved = at.at, true
			return nil
		}
	}
	which := int64(beginning)
	if s.set.start == last {
		which, p.moved = end, true // the next owner must not begin later, so it is committed
	}
	p.position, err = s.bound(ctx, p.topic, p.number, which)
	p.settled = p.position
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return s.noTopic(p.topic)
	}
	return err
}

// Close closes the connections. Every Consume that is running fails.
func (s *source) Close() error {
	s.fetcher.close()
	s.close()
	return nil
}

// String names the source without secrets.
func (s *source) String() string {
	what := "topics " + strings.Join(s.set.topics, ", ")
	if s.set.pattern != nil {
		what += " pattern " + s.set.pattern.String()
	}
	return fmt.Sprintf("%v %s", s.set, what)
}

// Format keeps secrets out of every verb.
func (s *source) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
