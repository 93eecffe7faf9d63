package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

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
		inspected: map[string]inspection{}, slots: make(chan struct{}, maxAttaching), aheads: aheads{looking: make(chan struct{}, 1), all: map[string]*ahead{}}}
	s.fetcher = newFetcher(&s.link)
	return s
}

// maxAttaching limits how many partitions attach at the same time.
const maxAttaching = 64

type source struct {
	link
	fetcher      *fetcher
	group        atomic.Pointer[string] // nil until Bind
	slots        chan struct{}          // a semaphore: one element per partition that attaches
	setbacks     setback.Book
	marks        marks
	letters      letterTopics
	pumps        pumps
	aheads       aheads
	coordinators coordinators
	trusted      atomic.Bool // the last commit of any partition has succeeded

	lookup     chan struct{} // has an element while topics are asked for
	inspecting chan struct{} // has an element while inspected is in use
	inspected  map[string]inspection

	mu     sync.Mutex
	topics map[string]*topic
}

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (s *source) Check() error { return s.bad }

// Prepare does what the first attach would otherwise wait for: it looks up the topic, connects to the
// broker that has the messages, and reads ahead until ctx ends.
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
		s.alone(ctx, group, freshTime) // Consume tells if it is not
		s.readAhead(ctx, group, name, number, t)
	}
	return nil
}

// freshTime is how old the answer may be that a Kafka group has no members, when a partition
// attaches.
const freshTime = time.Second

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
	return p.settler.proven || time.Since(begun) > setback.Away, err
}

// attach finds where to go on, and shuts the former owner out before that unless it has ended.
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
	p := &pump{s: s, own: own, fence: s.newFence(deskOf(number), group, own.Partition()), topic: name, number: number, id: t.id}
	ahead := s.aheads.of(own.Partition())
	defer s.aheads.remove(own.Partition(), ahead)
	if err := p.begin(ctx, ahead); err != nil {
		return nil, err
	}
	p.cursor = s.fetcher.add(name, t.id, number, t.leaders[number], p.settler.position, s.messages(ahead, t.id, p.settler.position))
	return p, nil
}

// begin finds the offset at which the partition goes on.
func (p *pump) begin(ctx context.Context, ahead *ahead) error {
	of := map[string][]int32{p.topic: {p.number}}
	at, ok := p.formerEnded(ctx, of, ahead)
	if !ok {
		if err := p.fence.shutOut(ctx, p.own); err != nil {
			return err
		}
		var err error
		if at, err = p.offset(ctx, of); err != nil { // the order matters: what was read before may be outdated
			return err
		}
	}
	from, err := p.start(ctx, of, at)
	if err != nil {
		return err
	}
	set := p.s.set
	p.settler = settler{every: set.every, phase: phaseOf(p.topic, p.number, set.every), most: stopTime, window: set.window, stop: p.own.Stop(), shutOut: p.shutOut, stage: p.stage, write: p.write}
	p.settler.begin(from)
	return nil
}

// phaseOf spreads the moments at which partitions commit: multiples of the golden ratio lie evenly,
// however many there are.
func phaseOf(topic string, number int32, every time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(topic))
	_, turn := math.Modf(float64(h.Sum32())/(1<<32) + float64(number)*math.Phi)
	return time.Duration(turn * float64(every))
}

// markerTime is how long Kafka may take to complete a transaction that was committed. An offset
// that is part of one for longer is somebody's who has to be shut out.
const markerTime = 30 * time.Millisecond

// formerEnded reads the offset and tells whether the owner just before this one has committed it
// as its last. Then nobody is left to be shut out: a partition that was stopped is never gone on with
// under the same token, tokens are counted, so no owner was between the two, and those before were shut
// out by that one. The transactional id is initialized beside the second message then.
func (p *pump) formerEnded(ctx context.Context, of map[string][]int32, ahead *ahead) (offset, bool) {
	if p.fence.id == "" || p.s.marks.has(p.own) { // there is nothing to be saved; or this owner has failed, and looks closely
		return offset{}, false
	}
	if ahead != nil {
		return p.s.endsBefore(ctx, p.fence.group, ahead, p.own.Token())
	}
	var all map[string]offset
	err := againFor(ctx, markerTime, func() (err error) {
		all, err = p.s.offsetsNow(ctx, p.fence.desk, p.fence.group, of)
		return err
	})
	at := all[p.own.Partition()]
	return at, err == nil && at.endedBefore(p.own.Token())
}

// offset reads the offset of the partition. It is negative if there is none.
func (p *pump) offset(ctx context.Context, of map[string][]int32) (offset, error) {
	s, name := p.s, p.own.Partition()
	all, err := s.offsets(ctx, p.fence.desk, p.fence.group, of)
	if errors.Is(err, kerr.UnstableOffsetCommit) {
		s.set.Log.Info("an offset belongs to a transaction that nobody ends: ending it", "partition", name, "token", p.own.Token())
		if err := p.fence.abort(ctx); err != nil {
			return offset{}, err
		}
		all, err = s.offsets(ctx, p.fence.desk, p.fence.group, of)
	}
	at, ok := all[name]
	if !ok {
		at.at = -1
	}
	return at, err
}

// start is where the partition goes on, given the offset that is committed.
func (p *pump) start(ctx context.Context, of map[string][]int32, at offset) (start, error) {
	if at.at >= 0 && at.noted && at.note.topic != p.id && at.note.topic != unknown && p.id != unknown {
		p.own.Tell("topic-made-again", fmt.Sprintf("topic %s was deleted and made again since offset %d was committed: %s begins with its first message", p.topic, at.at, p.own.Partition()))
		to, err := p.s.bound(ctx, p.topic, p.number, beginning)
		return start{position: to, settled: at.at, moved: true}, err
	}
	from := start{position: at.at, settled: at.at}
	if m, ok := p.s.marks.get(p.own); ok && m.topic == p.id && m.at > at.at {
		from.position = m.at
	}
	if from.position >= 0 {
		return from, nil
	}
	return p.startNew(ctx, of)
}

// startNew is where a partition begins that the group has no offset of.
func (p *pump) startNew(ctx context.Context, of map[string][]int32) (from start, err error) {
	s := p.s
	if old := s.set.takeover; old != "" && old != p.fence.group {
		if err := s.alone(ctx, old, freshTime); err != nil {
			return from, err
		}
		all, err := s.offsets(ctx, p.fence.desk, old, of)
		if err != nil {
			return from, err
		}
		if at, ok := all[p.own.Partition()]; ok && at.at >= 0 {
			return start{position: at.at, settled: at.at, moved: true}, nil
		}
	}
	which := int64(beginning)
	if s.set.start == last {
		which, from.moved = end, true // the next owner must not begin later, so it is committed
	}
	from.position, err = s.bound(ctx, p.topic, p.number, which)
	from.settled = from.position
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		err = s.noTopic(p.topic)
	}
	return from, err
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
