package rotakafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/rotatest"
)

// TestWhoeverIsLeftIsShutOutFirst looks when a transactional id is initialized. A partition whose
// former owner has ended is handled before: nobody is left who could commit. In all other cases the
// first message waits for it.
func TestWhoeverIsLeftIsShutOutFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(b *fakeBroker, l *ledger) // between the two owners
		goesOn    bool
	}{
		"the former owner has ended": {func(*fakeBroker, *ledger) {}, true},
		"it has not said so": {func(b *fakeBroker, l *ledger) {
			b.commit(l.group, 0, 4, strings.TrimSuffix(b.noted(l.group, 0), " last"))
		}, false},
		"somebody else has committed":   {func(b *fakeBroker, l *ledger) { b.commit(l.group, 0, 4, "") }, false},
		"it has ended in another store": {func(_ *fakeBroker, l *ledger) { l.store = rotatest.NewMemStore() }, false},
		"another owner was in between":  {func(b *fakeBroker, l *ledger) { b.own(l) }, false},
	} {
		for _, ahead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read ahead is %v", name, ahead), func(t *testing.T) {
				t.Parallel()
				b, l := newFake(t), newLedger(t)
				p := b.names[0]
				b.publish(p, 1, 1)
				leave := l.member(b.with("every=1m").open())
				waitFor(t, "the first commit, after which there is time", func() bool { return b.committed(l.group, 0) == 1 })
				b.publish(p, 2, 4)
				l.handled(p, 4)
				next := b.with("every=50ms").open()
				if ahead {
					prepare(t, l, next, p)
				}
				leave()
				if got := b.committed(l.group, 0); got != 4 {
					t.Fatalf("offset %d is committed, want 4", got)
				}
				c.meanwhile(b, l)
				if ahead && c.goesOn {
					waitFor(t, "the offset is read", func() bool { return rotakafka.Ended(next, p) == 4 })
				}
				b.publish(p, 5, 5)
				asked := make(chan int, 100) // how many were handled at each initialization
				b.cluster.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
					b.cluster.KeepControl()
					if id := r.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil && strings.HasSuffix(*id, p) {
						asked <- len(l.values(p))
					}
					return nil, nil, false
				})
				l.member(next)
				want := 4
				if c.goesOn {
					want = 5
				}
				if got := <-asked; got != want {
					t.Errorf("%d messages are handled when former owners are shut out, want %d", got, want)
				}
				l.handled(p, 5)
				waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == 5 })
			})
		}
	}
}

// prepare prepares a source for a partition, as its group would, until the test ends.
func prepare(t *testing.T, l *ledger, src rota.Source, partition string) {
	t.Helper()
	if err := src.(rota.Binder).Bind(l.group); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- src.(rota.Preparer).Prepare(ctx, rota.Partition{Name: partition}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestReadAhead reads ahead while the former owner stops: the next one begins although Kafka tells no
// offset and no message any more, and goes on where what was read ahead ends. Of a topic that was made
// again nothing is used.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("the topic is made again: %v", again), func(t *testing.T) {
			t.Parallel()
			b, l := newFake(t), newLedger(t)
			p := b.names[0]
			b.publish(p, 1, 1)
			l.fail = func(msg rota.Message) error {
				if string(msg.Value) == "5" {
					return errors.New("not by the first owner")
				}
				return nil
			}
			leave := l.member(b.with("every=1m").open())
			waitFor(t, "the first commit, after which there is time", func() bool { return b.committed(l.group, 0) == 1 })
			b.publish(p, 2, 4)
			l.handled(p, 4)
			b.publish(p, 5, 5)
			next := b.with("every=50ms").open()
			prepare(t, l, next, p)
			waitFor(t, "messages are read ahead, from the offset on that is committed", func() bool { return rotakafka.Peeked(next, p) == 4 })
			leave()
			l.note(func() { l.fail = nil })
			waitFor(t, "the last offset is read", func() bool { return rotakafka.Ended(next, p) == 4 })
			if again {
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				defer cancel()
				gone, err := kadm.NewClient(b.admin).DeleteTopics(ctx, b.topic)
				b.must(err)
				b.must(gone.Error())
				b.admin.Close()
				b.admin = newClient(t, b.addr)
				b.create(3)
				b.publish(p, 11, 16)
				os := kadm.Offsets{} // it begins where the other one was read
				os.AddOffset(b.topic, 0, 2, -1)
				_, err = kadm.NewClient(b.admin).DeleteRecords(ctx, os)
				b.must(err)
				l.member(next)
				l.handled(p, 8)
				if got, want := fmt.Sprint(l.values(p)), "[1 2 3 4 13 14 15 16]"; got != want {
					t.Errorf("handled were %s, want %s", got, want)
				}
				return
			}
			end := b.fault(kerr.TopicAuthorizationFailed, kmsg.Fetch)
			told := b.fault(kerr.GroupAuthorizationFailed, kmsg.OffsetFetch)
			l.member(next)
			l.handled(p, 5)
			end()
			told()
			b.publish(p, 6, 7)
			l.handled(p, 7)
			if got, want := fmt.Sprint(l.values(p)), "[1 2 3 4 5 6 7]"; got != want {
				t.Errorf("handled were %s, want %s", got, want)
			}
		})
	}
}

// TestStaged stops an owner in the middle of a message. What it would commit at the end of it is a part of
// a transaction before that. If the message ends well, the transaction has only to be ended; if it fails,
// the offset before it is committed.
func TestStaged(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("the message fails: %v", fails), func(t *testing.T) {
			t.Parallel()
			b, l := newFake(t), newLedger(t)
			p := b.names[0]
			added := make(chan int64, 100)
			b.cluster.ControlKey(int16(kmsg.TxnOffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
				b.cluster.KeepControl()
				for _, topic := range r.(*kmsg.TxnOffsetCommitRequest).Topics {
					added <- topic.Partitions[0].Offset
				}
				return nil, nil, false
			})
			b.publish(p, 1, 1)
			busy, end := make(chan struct{}), make(chan struct{})
			leave := l.member(b.with("every=1m").open(), func(c *rota.Config) {
				handle := c.Handle
				c.Handle = func(ctx context.Context, msg rota.Message) error {
					if string(msg.Value) == "2" {
						close(busy)
						<-end
						if fails {
							return errors.New("it was for nothing")
						}
					}
					return handle(ctx, msg)
				}
			})
			waitFor(t, "the first commit", func() bool { return b.committed(l.group, 0) == 1 })
			b.publish(p, 2, 2)
			<-busy
			left := make(chan struct{})
			go func() { defer close(left); leave() }()
			if got := <-added; got != 1 {
				t.Errorf("offset %d was added first, want 1", got)
			}
			if got := <-added; got != 2 {
				t.Errorf("offset %d was added while message 2 was being handled, want 2", got)
			}
			close(end)
			<-left
			want, more := int64(2), 0
			if fails {
				want, more = 1, 1 // in place of the other
			}
			if got := b.committed(l.group, 0); got != want || len(added) != more {
				t.Errorf("offset %d is committed, want %d; %d more were added, want %d", got, want, len(added), more)
			}
		})
	}
}

// own lets a member own the partitions that consumes nothing.
func (b *fakeBroker) own(l *ledger) {
	started := make(chan struct{}, len(b.names))
	leave := l.member(owned{b.open(), started})
	for range b.names {
		<-started
	}
	leave()
}

// TestInTime checks that what is handled is committed in time although the next message takes long.
func TestInTime(t *testing.T) {
	t.Parallel()
	b, l := newFake(t), newLedger(t)
	p := b.names[0]
	b.publish(p, 1, 3)
	busy := make(chan struct{})
	defer close(busy)
	l.member(b.with("every=500ms").open(), func(c *rota.Config) {
		handle := c.Handle
		c.Handle = func(ctx context.Context, msg rota.Message) error {
			if string(msg.Value) == "6" {
				<-busy
			}
			return handle(ctx, msg)
		}
	})
	waitFor(t, "the first commit", func() bool { return b.committed(l.group, 0) == 3 })
	b.publish(p, 4, 5)
	l.handled(p, 5)
	b.publish(p, 6, 6) // by itself: what is delivered together is done together
	waitFor(t, "a commit while message 6 is being handled", func() bool { return b.committed(l.group, 0) == 5 })
	if n := b.noted(l.group, 0); strings.HasSuffix(n, " last") {
		t.Errorf("the offset of an owner that goes on has the note %q", n)
	}
}

// noted is the metadata of a committed offset.
func (b *broker) noted(group string, partition int32) string {
	b.t.Helper()
	got, err := kadm.NewClient(b.admin).FetchOffsets(b.t.Context(), group)
	b.must(err)
	o, _ := got.Lookup(b.topic, partition)
	return o.Metadata
}

// owned is a source whose partitions are not consumed.
type owned struct {
	rota.Source
	started chan<- struct{}
}

func (o owned) Consume(ctx context.Context, own rota.Ownership, _ rota.Deliver) error {
	own.Started()
	o.started <- struct{}{}
	select {
	case <-own.Stop():
	case <-ctx.Done():
	}
	return nil
}
