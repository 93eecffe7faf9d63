package rotakafka_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
)

// TestHangingTransaction lets offsets be unstable until a transaction of the partition is aborted: as
// after a broker has died between the end of a transaction and a commit that was repeated. The owner
// must not wait for good.
func TestHangingTransaction(t *testing.T) {
	t.Parallel()
	b, l := newFake(t), newLedger(t)
	p := b.names[0]
	b.publish(p, 1, 3)
	end := sync.OnceFunc(b.fault(kerr.UnstableOffsetCommit, kmsg.OffsetFetch))
	b.cluster.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if !req.(*kmsg.EndTxnRequest).Commit {
			go end()
		}
		return nil, nil, false
	})
	l.member(b.with("every=50ms").open())
	l.handled(p, 3)
	if got, want := fmt.Sprint(l.values(p)), "[1 2 3]"; got != want {
		t.Errorf("handled were %s, want %s", got, want)
	}
	waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == 3 })
}

// TestNewKafka has no coordinator for the first moments, as a Kafka that is making the topic
// of its groups. That is waited for, and no reading fails.
func TestNewKafka(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	s := b.open()
	if err := s.(rota.Binder).Bind("g"); err != nil {
		t.Fatal(err)
	}
	f := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.CoordinatorNotAvailable, Count: 10})
	defer f.Remove()
	if got, err := s.(rota.Meter).Read(t.Context(), b.names); err != nil || len(got) != len(b.names) {
		t.Errorf("a reading has %d partitions, want %d (%v)", len(got), len(b.names), err)
	}
}
