package rotatest

import (
	"slices"
	"time"

	"github.com/rota-dev/rota"
)

// A ForeignBroker is a Broker whose partitions a client that is not rota's can consume, and
// that keeps such a client and an owner apart.
type ForeignBroker interface {
	Broker
	// Foreign consumes a partition as such a client would, without settling anything, until
	// leave is called. It returns an error if the broker refuses that.
	Foreign(partition string) (leave func(), err error)
}

// A DeletingBroker is a Broker whose partitions can be deleted, and made again, one by one.
type DeletingBroker interface {
	Broker
	Delete(partition string) error
	Create(partition string) error
}

// A GuardedBroker is a Broker that can take rights away from the user of its sources.
type GuardedBroker interface {
	Broker
	// Withdraw takes the right to consume away. A broker may let those go on that consume
	// already. restore gives the right back.
	Withdraw() (restore func())
}

// A LargeBroker is a Broker that accepts messages of more than a megabyte.
type LargeBroker interface {
	Broker
	// Largest is the size of the largest message, in bytes.
	Largest() int
}

// foreignCases are the cases for what others do at the broker.
var foreignCases = []sourceCase{
	{"a foreign consumer is reported, and waited for", foreignFirst, foreigners},
	{"a foreign consumer that comes later is in nobody's way", foreignLater, foreigners},
	{"a partition that was deleted is reported, and consumed when it is back", deletedPartition, needs[DeletingBroker]("the partitions of this broker cannot be deleted")},
	{"a right that was withdrawn is reported, and its end noticed", withdrawn, needs[GuardedBroker]("the rights of this broker's users cannot be changed")},
	{"a message of ten megabytes is kept", largeMessage, needs[LargeBroker]("this broker accepts no large messages")},
}

var foreigners = needs[ForeignBroker]("this broker does not keep foreign consumers apart from owners")

// reportedOf waits until a member has reported a condition of a partition.
func (t *sourceTest) reportedOf(m *testMember, partition, what string) {
	t.Helper()
	t.wait(what+" is reported", func() bool {
		return slices.ContainsFunc(m.events, func(e rota.Event) bool {
			return e.Kind == rota.EventCondition && e.Partition == partition
		})
	})
}

func foreignFirst(t *sourceTest) {
	defer t.inOrder(false)
	p := t.broker.Partitions()[0]
	leave, err := t.broker.(ForeignBroker).Foreign(p)
	if err != nil {
		t.Fatalf("a foreign client cannot consume %s, which has no owner: %v", p, err)
	}
	t.publish(5)
	a := t.join("a", quick)
	t.reportedOf(a, p, "the foreign consumer")
	t.wait("the other partitions are handled", func() bool {
		for other := range t.sent {
			if other != p && len(t.good[other]) < t.sent[other] {
				return false
			}
		}
		return true
	})
	leave()
	t.publish(5)
	t.wait("all messages are handled", t.all)
	a.leave()
}

func foreignLater(t *sourceTest) {
	defer t.inOrder(true)
	p := t.broker.Partitions()[0]
	t.publish(5)
	a := t.join("a", quick)
	t.wait("a is at work", t.all)
	if leave, err := t.broker.(ForeignBroker).Foreign(p); err == nil {
		defer leave()
	}
	t.publish(20)
	t.wait("all messages are handled", t.all)
	a.leave()
}

// deletedPartition checks the order by the numbers of messages alone: positions and IDs may
// begin anew with a partition.
func deletedPartition(t *sourceTest) {
	defer t.inTurn()
	p, b := t.broker.Partitions()[0], t.broker.(DeletingBroker)
	t.publish(20)
	a := t.join("a", quick)
	t.wait("a is at work", t.all)
	if err := b.Delete(p); err != nil {
		t.Fatalf("delete %s: %v", p, err)
	}
	t.reportedOf(a, p, "the deletion")
	if err := b.Create(p); err != nil {
		t.Fatalf("create %s: %v", p, err)
	}
	t.publish(20)
	t.wait("all messages are handled", t.all)
	a.leave()
}

// inTurn checks that no message was left out.
func (t *sourceTest) inTurn() {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	last := map[string]int{}
	for i := range t.log {
		p, n := t.log[i].msg.Partition, number(&t.log[i].msg)
		if n > last[p]+1 {
			t.Errorf("%s: message %d came after %d", p, n, last[p])
		}
		last[p] = max(last[p], n)
	}
}

// withdrawn hands partitions over while their next owner may not consume them.
func withdrawn(t *sourceTest) {
	t.repeat = true
	defer t.inOrder(false)
	t.publish(5)
	a, b := t.join("a", quick), t.join("b", quick)
	t.wait("a and b are at work", func() bool { return t.all() && a.owned > 0 && b.owned > 0 && a.owned+b.owned == len(t.sent) })
	restore := t.broker.(GuardedBroker).Withdraw()
	a.leave()
	t.reported("the refusal", b)
	before := t.calls(b)
	time.Sleep(refusalTime) // this much time is what the number of attempts is about
	for p, after := range t.calls(b) {
		if n := after - before[p]; n > mostTries {
			t.Errorf("%s: b tried %d times in %v to consume it, want %d at most", p, n, refusalTime, mostTries)
		}
	}
	restore()
	t.publish(5)
	t.wait("all messages are handled", t.all)
	b.leave()
}

// calls are a member's calls of Consume.
func (t *sourceTest) calls(m *testMember) map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := map[string]int{}
	for p, n := range m.calls {
		calls[p] = n
	}
	return calls
}

// largeMessage delivers a message of ten megabytes, or of the largest size, between two that
// are empty.
func largeMessage(t *sourceTest) {
	large := make([]byte, min(10<<20, t.broker.(LargeBroker).Largest()))
	for i := range large {
		large[i] = byte(i * i >> 8)
	}
	t.kept([][]byte{{}, large, {}, []byte("end")})
}
