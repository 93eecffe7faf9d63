package rotakafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/rotatest"
)

func (b *broker) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) publish(partition string, from, to int) {
	b.t.Helper()
	b.must(b.Publish(partition, numbered(from, to)...))
}

// commit commits offsets as a Kafka group of its own would.
func (b *broker) commit(group string, partition int32, at int64, metadata string) {
	b.t.Helper()
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: b.topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	b.must(kadm.NewClient(b.admin).CommitAllOffsets(b.t.Context(), group, os))
}

// committed is the committed offset of a partition, and -1 without one.
func (b *broker) committed(group string, partition int32) int64 {
	b.t.Helper()
	got, err := kadm.NewClient(b.admin).FetchOffsets(kadm.RequireStable(b.t.Context()), group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return -1
	}
	b.must(err)
	if o, ok := got.Lookup(b.topic, partition); ok && o.Err == nil {
		return o.At
	} else if ok { // its transaction has not ended
		time.Sleep(5 * time.Millisecond)
		return b.committed(group, partition)
	}
	return -1
}

// firstRecordIsSoon adds a partition while a fetch of others is parked at the broker for
// half a second. The best of some trials counts, since the machine may be busy.
func firstRecordIsSoon(t *testing.T, b *broker) {
	src := b.open()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	_, end, err := rotakafka.Watch(ctx, src, b.names[0], 0)
	b.must(err)
	defer end()
	b.publish(b.names[1], 1, 1)
	var all []time.Duration
	for range 10 {
		for !rotakafka.Parked(src) {
			if ctx.Err() != nil {
				t.Fatal("no fetch is parked")
			}
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		first, end, err := rotakafka.Watch(ctx, src, b.names[1], 0)
		b.must(err)
		select {
		case at := <-first:
			all = append(all, at.Sub(began))
		case <-ctx.Done():
			t.Fatal("the first record does not come")
		}
		end()
	}
	slices.Sort(all)
	t.Logf("the first record came after %v (median), %v at most: %v", all[len(all)/2], all[len(all)-1], all)
	if all[0] > 100*time.Millisecond {
		t.Errorf("the first record came after %v at best", all[0])
	}
}

// formerOwnerIsFenced commits with the producer of a former owner, which must have no
// effect, and then shuts the owner out, which must go on and repeat nothing.
func formerOwnerIsFenced(t *testing.T, b *broker) {
	l, p := newLedger(t), b.names[0]
	id := "rota-" + l.group + "-" + p
	old := initProducer(b, id)
	b.publish(p, 1, 5)
	l.member(b.with("every=50ms").open())
	l.handled(p, 5)
	waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == 5 })
	var err error
	waitFor(t, "the last transaction has ended", func() bool {
		err = transact(b, id, old, l.group, 1)
		return err != kerr.ConcurrentTransactions
	})
	if !isFenced(err) {
		t.Errorf("a former owner commits: %v", err)
	}
	if at := b.committed(l.group, 0); at != 5 {
		t.Errorf("the offset is %d after a former owner tried to commit, and was 5", at)
	}
	initProducer(b, id)
	b.publish(p, 6, 10)
	l.handled(p, 10)
	l.tells("shut-out", p, "a second group of this name")
	waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == 10 })
	if got, want := fmt.Sprint(l.values(p)), "[1 2 3 4 5 6 7 8 9 10]"; got != want {
		t.Errorf("handled were %s, want %s", got, want)
	}
}

func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(bound); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", bound, what)
		}
	}
}

// A producer is what a broker knows an initialized transactional id by.
type producer struct {
	id    int64
	epoch int16
}

func initProducer(b *broker, id string) (p producer) {
	b.t.Helper()
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &id, 10_000, -1, -1
	waitFor(b.t, "a producer is initialized", func() bool {
		got, err := r.RequestWith(b.t.Context(), pinned(b))
		b.must(err)
		p = producer{got.ProducerID, got.ProducerEpoch}
		return got.ErrorCode == 0
	})
	return p
}

// pinned is a client that uses the versions that the driver uses.
func pinned(b *broker) *kgo.Client {
	return newClient(b.t, b.addr, kgo.MaxVersions(rotakafka.Versions()))
}

// transact commits an offset of partition 0 in a transaction.
func transact(b *broker, id string, p producer, group string, at int64) error {
	b.t.Helper()
	c := pinned(b)
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, p.id, p.epoch, group
	added, err := add.RequestWith(b.t.Context(), c)
	b.must(err)
	set := kmsg.NewPtrTxnOffsetCommitRequest()
	set.TransactionalID, set.ProducerID, set.ProducerEpoch, set.Group, set.Generation = id, p.id, p.epoch, group, -1
	topic, part := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Offset = at
	topic.Topic, topic.Partitions = b.topic, append(topic.Partitions, part)
	set.Topics = append(set.Topics, topic)
	if err := kerr.ErrorForCode(added.ErrorCode); err == kerr.ConcurrentTransactions {
		return err
	}
	got, err := set.RequestWith(b.t.Context(), c)
	b.must(err)
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return err
	}
	return kerr.ErrorForCode(got.Topics[0].Partitions[0].ErrorCode)
}

func isFenced(err error) bool { return err == kerr.ProducerFenced || err == kerr.InvalidProducerEpoch }

// foreignMembers lets a Kafka group of the same name consume, by either protocol: rota is
// refused, and goes on at its offset when it has gone.
func foreignMembers(t *testing.T, b *broker) {
	for name, opts := range map[string][]kgo.Opt{"classic": nil, "new": {kgo.ServerSideBalancer()}} {
		t.Run(name, func(t *testing.T) {
			l, p := newLedger(t), b.names[0]
			b.publish(p, 1, 5)
			c := newClient(t, b.addr, append(opts, kgo.ConsumerGroup(l.group), kgo.ConsumeTopics(b.topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.ClientID("billing"))...)
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			got := c.PollFetches(ctx)
			if got.Err() != nil || got.NumRecords() == 0 {
				t.Fatalf("the Kafka group gets %d records, %v", got.NumRecords(), got.Err())
			}
			l.member(b.open())
			l.tells("source-failed", "Kafka group "+l.group+" has members of its own", "billing", "stop them")
			if got := l.values(p); len(got) > 0 {
				t.Errorf("%q were handled beside a foreign member", got)
			}
			b.must(c.CommitRecords(ctx, got.Records()...))
			c.Close()
			b.publish(p, 6, 6)
			l.handled(p, 1)
			if last := got.Records()[got.NumRecords()-1].Offset; l.got[p][0].Position != uint64(last+1) {
				t.Errorf("rota goes on at %d, and the Kafka group has handled %d", l.got[p][0].Position, last)
			}
		})
	}
}

// continuesGroup begins where other groups have left off: one of the same name, and one
// that takeover= names.
func continuesGroup(t *testing.T, b *broker) {
	l, p := newLedger(t), b.names
	for i, at := range []int64{3, 5, -1} {
		b.publish(p[i], 1, 8)
		if at >= 0 {
			b.commit("old-"+l.group, int32(i), at, "by somebody else")
		}
	}
	b.commit(l.group, 0, 6, "")
	leave := l.member(b.with("takeover=old-" + l.group).open())
	for i, want := range []string{"[7 8]", "[6 7 8]", "[1 2 3 4 5 6 7 8]"} {
		l.handled(p[i], strings.Count(want, " ")+1)
		if got := fmt.Sprint(l.values(p[i])); got != want {
			t.Errorf("%s: handled were %s, want %s", p[i], got, want)
		}
	}
	leave()
	for i := range p {
		if at := b.committed(l.group, int32(i)); at != 8 {
			t.Errorf("%s: the offset is %d, want 8", p[i], at)
		}
		if at := b.committed("old-"+l.group, int32(i)); at > 5 {
			t.Errorf("%s: the offset of the old group is %d by now", p[i], at)
		}
	}
}

// topicMadeAgain deletes the topic of an owner and makes it again. And it leaves an offset
// of a former topic behind.
func topicMadeAgain(t *testing.T, b *broker) {
	l, p := newLedger(t), b.names
	b.publish(p[0], 1, 5)
	b.publish(p[1], 1, 3)
	b.commit(l.group, 1, 2, rotakafka.NoteOf([16]byte{1, 2, 3}, 7, false))
	l.member(b.with("every=50ms").open())
	l.tells("topic-made-again", p[1])
	l.handled(p[0], 5)
	l.handled(p[1], 3)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	gone, err := kadm.NewClient(b.admin).DeleteTopics(ctx, b.topic)
	b.must(err)
	b.must(gone.Error())
	l.tells("source-failed", "no such topic", b.topic)
	b.admin.Close()
	b.admin = newClient(t, b.addr)
	b.create(3)
	b.publish(p[0], 6, 8)
	l.handled(p[0], 8)
	if got, want := fmt.Sprint(l.values(p[0])), "[1 2 3 4 5 6 7 8]"; got != want {
		t.Errorf("handled were %s, want %s", got, want)
	}
	waitFor(t, "the offset of the new topic is committed", func() bool { return b.committed(l.group, 0) == 3 })
}

// outOfRange commits offsets before and behind what there is.
func outOfRange(t *testing.T, b *broker) {
	for _, p := range b.names {
		b.publish(p, 1, 10)
	}
	os := kadm.Offsets{}
	os.AddOffset(b.topic, 0, 6, -1)
	_, err := kadm.NewClient(b.admin).DeleteRecords(t.Context(), os)
	b.must(err)
	for policy, want := range map[string][2]string{"first": {"[7 8 9 10]", "[1 2 3 4 5 6 7 8 9 10]"}, "last": {"[]", "[]"}, "stop": {"[]", "[]"}} {
		t.Run(policy, func(t *testing.T) {
			l := newLedger(t)
			b.commit(l.group, 0, 2, "")
			b.commit(l.group, 1, 100, "")
			l.member(b.with("reset=" + policy).open())
			if policy == "stop" {
				l.tells("source-failed", b.names[0], "out of range", "offset 2", "6 to 9")
				l.tells("source-failed", b.names[1], "out of range", "offset 100", "0 to 9")
			} else {
				l.tells("offset-out-of-range", b.names[0], "so 4 were deleted before they were handled")
				l.tells("offset-out-of-range", b.names[1])
			}
			waitFor(t, "the offsets are those of the policy", func() bool {
				at := [2]int64{b.committed(l.group, 0), b.committed(l.group, 1)}
				return policy == "stop" && at == [2]int64{2, 100} || policy != "stop" && at == [2]int64{10, 10}
			})
			for i := range want {
				if got := fmt.Sprint(l.values(b.names[i])); got != want[i] {
					t.Errorf("%s: handled were %s, want %s", b.names[i], got, want[i])
				}
			}
		})
	}
}

// publishes publishes by the source itself.
func publishes(t *testing.T, b *broker) {
	l, p, src := newLedger(t), b.names[1], b.open()
	to := src.(interface {
		Publish(ctx context.Context, partition string, values ...[]byte) error
	})
	b.must(to.Publish(t.Context(), p, numbered(1, 3)...))
	l.member(src)
	l.handled(p, 3)
	if got, want := fmt.Sprint(l.values(p)), "[1 2 3]"; got != want {
		t.Errorf("handled were %s, want %s", got, want)
	}
	if err := to.Publish(t.Context(), "orders", []byte("1")); err == nil {
		t.Error("a message was published to what is no partition")
	}
}

// publishesToNew publishes to a partition that was added, and to a topic that was made again,
// with the source that has published to the topic before.
func publishesToNew(t *testing.T, b *broker) {
	to := b.open().(interface {
		Publish(ctx context.Context, partition string, values ...[]byte) error
	})
	published := func(partition string) func() bool {
		return func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			return to.Publish(ctx, partition, []byte("1")) == nil
		}
	}
	waitFor(t, "a message is published", published(b.names[0]))
	added, err := kadm.NewClient(b.admin).CreatePartitions(t.Context(), 1, b.topic)
	b.must(err)
	b.must(added.Error())
	waitFor(t, "a message is published to the new partition", published(b.topic+"-3"))
	deleted, err := kadm.NewClient(b.admin).DeleteTopics(t.Context(), b.topic)
	b.must(err)
	b.must(deleted.Error())
	b.create(3)
	waitFor(t, "a message is published to the topic that was made again", published(b.names[0]))
}

// foundByAll adds a partition to a topic that a member knows, which does not lead and so does
// not list: it finds the partition when it gets it.
func foundByAll(t *testing.T, b *broker) {
	src := b.open()
	prepares := func(partition string) func() bool {
		return func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // it reads ahead until its time is over
			defer cancel()
			return src.(rota.Preparer).Prepare(ctx, rota.Partition{Name: partition}) == nil
		}
	}
	waitFor(t, "a partition is found", prepares(b.names[0]))
	added, err := kadm.NewClient(b.admin).CreatePartitions(t.Context(), 1, b.topic)
	b.must(err)
	b.must(added.Error())
	waitFor(t, "the new partition is found", prepares(b.topic+"-3"))
}

// newPartitions adds partitions to a topic, and a topic that matches the pattern.
func newPartitions(t *testing.T, b *broker) {
	l := newLedger(t)
	other := *b
	other.query = "&pattern=" + b.topic + `\.more.*`
	l.member(other.open(), func(c *rota.Config) { c.ListEvery = 200 * time.Millisecond })
	b.publish(b.names[0], 1, 1)
	l.handled(b.names[0], 1)
	added, err := kadm.NewClient(b.admin).CreatePartitions(t.Context(), 1, b.topic)
	b.must(err)
	b.must(added.Error())
	more := *b
	more.topic = b.topic + ".more"
	more.names = []string{more.topic + "-0"}
	more.create(1)
	more.publish(more.names[0], 1, 2)
	fourth := b.topic + "-3"
	b.names = append(b.names, fourth)
	waitFor(t, "the new partition accepts messages", func() bool { return b.Publish(fourth, []byte("1")) == nil })
	l.handled(fourth, 1)
	l.handled(more.names[0], 2)
}

// abortedTransactions produces in transactions, of which one is aborted.
func abortedTransactions(t *testing.T, b *broker) {
	l, p := newLedger(t), b.names[0]
	c := newClient(t, b.addr, kgo.TransactionalID("x-"+l.group))
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	for i, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		b.must(c.BeginTransaction())
		b.must(c.ProduceSync(ctx, b.records(p, numbered(10*i+1, 10*i+3)...)...).FirstErr())
		b.must(c.EndTransaction(ctx, commit))
	}
	src := b.open()
	l.member(src)
	l.handled(p, 6)
	if got, want := fmt.Sprint(l.values(p)), "[1 2 3 21 22 23]"; got != want {
		t.Errorf("handled were %s, want %s", got, want)
	}
	waitFor(t, "nothing waits behind the marks of transactions", func() bool {
		got, err := src.(rota.Meter).Read(ctx, []string{p})
		b.must(err)
		return got[0].Backlog == 0
	})
}

// keepsEverything sends messages with all that Kafka has, the largest of 10 MB.
func keepsEverything(t *testing.T, b *broker) {
	l, p := newLedger(t), b.names[0]
	large := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	when := time.UnixMilli(time.Now().UnixMilli())
	list := b.records(p, []byte("value"), nil, []byte{}, large, []byte("end"))
	list[0].Key, list[0].Headers, list[0].Timestamp = []byte("key"), []kgo.RecordHeader{{Key: "a", Value: []byte{0, 255}}, {Key: "a", Value: nil}}, when
	list[4].Headers = []kgo.RecordHeader{{Key: "rota-id", Value: []byte("order-7")}}
	b.must(b.admin.ProduceSync(t.Context(), list...).FirstErr())
	l.member(b.open())
	l.handled(p, len(list))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, m := range l.got[p] {
		if !bytes.Equal(m.Value, list[i].Value) || (m.Value == nil) != (list[i].Value == nil) || m.Position != uint64(i) {
			t.Errorf("message %d has %d bytes, nil is %v, at %d", i, len(m.Value), m.Value == nil, m.Position)
		}
	}
	m := l.got[p][0]
	if string(m.Key) != "key" || !m.Time.Equal(when) || m.ID != p+"@0" || len(m.Headers) != 2 || m.Headers[0].Key != "a" || !bytes.Equal(m.Headers[0].Value, []byte{0, 255}) {
		t.Errorf("a message has key %q, time %v, ID %s, headers %v", m.Key, m.Time, m.ID, m.Headers)
	}
	if m := l.got[p][4]; m.ID != "order-7" || m.Key != nil {
		t.Errorf("a message has ID %s and key %q", m.ID, m.Key)
	}
}

// killRepeatsWindow cuts an owner off that commits by number alone.
func killRepeatsWindow(t *testing.T, b *broker) {
	const window = 20
	l, p := newLedger(t), b.names[0]
	one := b.with(fmt.Sprintf("window=%d&every=1m", window))
	b.publish(p, 1, 300)
	store := rotatest.Faulty(l.store.Open(), 1)
	stuck := make(chan struct{})
	l.member(one.open(), func(c *rota.Config) {
		c.Store, c.Orphan = store, rota.AtOnce
		c.Handle = func(ctx context.Context, msg rota.Message) error {
			if string(msg.Value) == "206" {
				close(stuck)
				<-ctx.Done()
				return ctx.Err()
			}
			return l.handle(ctx, msg)
		}
	})
	select {
	case <-stuck:
	case <-time.After(bound):
		t.Fatal("the first owner does not get to message 206")
	}
	store.Fail()
	before := len(l.values(p))
	l.member(one.open())
	l.wait("all are handled", func() bool { return len(l.got[p]) > 0 && string(l.got[p][len(l.got[p])-1].Value) == "300" })
	all := l.values(p)
	again := len(all) - 300
	t.Logf("%d of %d messages came again", again, before)
	if again < 0 || again > window {
		t.Errorf("%d messages came again, want %d at most", again, window)
	}
	for i := 1; i < len(all); i++ {
		if i != before && atoi(all[i]) != atoi(all[i-1])+1 {
			t.Errorf("message %s came behind %s", all[i], all[i-1])
		}
	}
	if first := atoi(all[before]); first > before+1 {
		t.Errorf("the next owner began with %d, and %d were done", first, before)
	}
}

func atoi(s string) (n int) {
	fmt.Sscan(s, &n)
	return n
}
