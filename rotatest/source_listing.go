package rotatest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rota-dev/rota"
)

// A ChangingBroker is a Broker whose partitions can be removed and come back while
// members consume them, and whose source lists all there are: rota.Lister.
type ChangingBroker interface {
	Broker
	// Remove removes a partition with its messages.
	Remove(partition string) error
	// Restore makes a partition that was removed, empty and under its name.
	Restore(partition string) error
}

var listingCases = []sourceCase{
	{"a removed partition is let go, and comes back under a higher token", comeAndGo, needs[ChangingBroker]("this broker has no partitions that come and go")},
}

// comeAndGo removes a partition under two members at work, and brings it back.
func comeAndGo(t *sourceTest) {
	broker := t.broker.(ChangingBroker)
	often := func(c *rota.Config) { c.ListEvery = 200 * time.Millisecond }
	a, b := t.join("a", quick, often), t.join("b", quick, often)
	all := t.broker.Partitions()
	p := all[0]
	t.wait("everything runs", func() bool { return a.owned+b.owned == len(all) })
	t.publish(5)
	t.wait("all messages are handled", t.all)

	if err := broker.Remove(p); err != nil {
		t.Fatalf("remove %s: %v", p, err)
	}
	t.shown(p, "removed", func(x *rota.PartitionInfo) bool {
		return x.Reason == rota.ReasonRemoved && x.State == rota.PartitionFree
	})
	t.wait("the others run", func() bool { return a.owned+b.owned == len(all)-1 })
	t.mu.Lock()
	before := t.token(p)
	t.mu.Unlock()

	if err := broker.Restore(p); err != nil {
		t.Fatalf("restore %s: %v", p, err)
	}
	t.shown(p, "owned again", func(x *rota.PartitionInfo) bool { return x.State == rota.PartitionOwned && x.Token > before })
	for i := range 5 {
		if err := t.broker.Publish(p, fmt.Appendf(nil, "back %d", i)); err != nil {
			t.Fatalf("publish to %s: %v", p, err)
		}
	}
	t.wait("its new messages are handled", func() bool { return t.good[p]["back 4"] })
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.token(p); now <= before {
		t.Errorf("%s was delivered under token %d and, after it came back, under %d", p, before, now)
	}
}

// token is that of the newest delivery of a partition. The caller holds the lock.
func (c *testMembers) token(partition string) rota.Token {
	for _, d := range slices.Backward(c.log) {
		if d.msg.Partition == partition {
			return d.msg.Token
		}
	}
	return 0
}

// shown waits until the store shows a partition like this.
func (t *sourceTest) shown(partition, what string, is func(*rota.PartitionInfo) bool) {
	t.Helper()
	for deadline := time.Now().Add(t.bound); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), t.bound)
		st, err := rota.Inspect(ctx, t.store, t.group)
		cancel()
		i := slices.IndexFunc(st.Partitions, func(x rota.PartitionInfo) bool { return x.Name == partition })
		if err == nil && i >= 0 && is(&st.Partitions[i]) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s is %s%s", t.bound, partition, what, t.course())
		}
	}
}
