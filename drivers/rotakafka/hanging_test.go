package rotakafka_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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
