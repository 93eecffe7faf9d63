package rotatest

import (
	"fmt"
	"strings"
	"time"
)

// secondGroup is another group at the broker of a case.
type secondGroup struct {
	*sourceTest
	first   string // the group of the case
	member  *testMember
	refused error // by Bind
}

// groupsApart lets a second group read the partitions of the first. It reads
// independently, or is refused by an error that names both groups; the error should also
// say what to do. In no case does the first group miss a message or get one twice: not
// while both run, and not after it was away.
func groupsApart(t *sourceTest) {
	defer t.inOrder(true)
	t.publish(30)
	a := t.join("a", quick)
	t.wait("the first group has handled all messages", t.all)
	ebb := t.flow(1, 20*time.Millisecond)
	second := t.joinSecond("b") // while messages arrive
	second.known()
	ebb()
	seen := second.publishTo(t, 30)
	t.wait("the first group has handled all messages, though a second one runs", t.all)
	second.handled(seen)
	a.leave()
	seen = second.publishTo(t, 20)
	second.handled(seen)
	c := t.join("c", quick)
	t.wait("the first group has come back and handled all messages", t.all)
	second.leave()
	t.publish(10)
	t.wait("the first group has handled all messages after the second one has left", t.all)
	c.leave()
	second.ascending()
}

// joinSecond starts a member of another group.
func (t *sourceTest) joinSecond(name string) *secondGroup {
	t.Helper()
	o := &secondGroup{sourceTest: newSourceTest(t, t.broker), first: t.group}
	if o.member, o.refused = o.tryJoin(name, o.store.Open(), o.broker.Source(), quick); o.refused != nil && !o.namesBoth(o.refused) {
		t.Errorf("a second group is refused by %q, which does not name groups %s and %s", o.refused, o.first, o.group)
	}
	return o
}

func (o *secondGroup) namesBoth(err error) bool {
	return err != nil && strings.Contains(err.Error(), o.first) && strings.Contains(err.Error(), o.group)
}

// refusedAt tells whether the group was refused at a partition.
func (o *secondGroup) refusedAt(partition string) bool {
	return o.refused != nil || o.namesBoth(o.member.errs[partition])
}

// known waits until the group has started or was refused at every partition.
func (o *secondGroup) known() {
	o.Helper()
	if o.refused != nil {
		return
	}
	o.wait("the second group reads, or is refused by an error that names both groups", func() bool {
		n := o.member.owned
		for _, p := range o.broker.Partitions() {
			if o.refusedAt(p) {
				n++
			}
		}
		return n >= len(o.broker.Partitions())
	})
}

// publishTo publishes n messages to each partition of the first group, and returns how
// many there were before.
func (o *secondGroup) publishTo(t *sourceTest, n int) (before map[string]int) {
	before = map[string]int{}
	for p, sent := range t.sent {
		before[p] = sent
	}
	t.publish(n)
	o.note(func() {
		for p, sent := range t.sent {
			o.sent[p] = sent
		}
	})
	return before
}

// handled waits until the group has handled the messages of those partitions where it
// was not refused, all but the first ones: a broker need not show a new group what came
// before it.
func (o *secondGroup) handled(but map[string]int) {
	o.Helper()
	o.wait("the second group has handled all messages that came while it ran", func() bool {
		for p, sent := range o.sent {
			for n := but[p] + 1; n <= sent && !o.refusedAt(p); n++ {
				if !o.good[p][fmt.Sprintf("%s %d", p, n)] {
					return false
				}
			}
		}
		return true
	})
}

func (o *secondGroup) leave() {
	if o.member != nil {
		o.member.leave()
	}
}

// ascending checks that the group got each message of a partition once and in order, and
// none where it was refused.
func (o *secondGroup) ascending() {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	last := map[string]int{}
	for i := range o.log {
		p, n := o.log[i].msg.Partition, number(&o.log[i].msg)
		if o.refusedAt(p) {
			o.Errorf("%s: the second group was refused, and got message %d", p, n)
		}
		if n <= last[p] || last[p] > 0 && n != last[p]+1 {
			o.Errorf("%s: the second group got message %d after %d", p, n, last[p])
		}
		last[p] = n
	}
}
