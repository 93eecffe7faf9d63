package rotakafka_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestPartitionsCommitBesideEachOther checks that a partition does not wait for the commit of
// another one: Kafka answers the requests of a connection one after the other, and those that
// move together would be idle for as long as all of them take.
func TestPartitionsCommitBesideEachOther(t *testing.T) {
	t.Parallel()
	for range 3 { // a machine that stands still for seconds makes clients give up and connect anew
		if commitBesideAnother(t) {
			return
		}
	}
	t.Error("while the commit of one partition is not answered, that of another does not get to the broker")
}

// patience is less than the client has: after that it gives a request and its connection up.
const patience = 3 * time.Second

// commitBesideAnother tells whether the transaction of a partition ends while the broker lets the
// first one of another wait.
func commitBesideAnother(t *testing.T) bool {
	b, l := newFake(t), newLedger(t)
	first, second := b.names[0], b.names[1]
	var mu sync.Mutex
	waits, since, beside := 0, time.Time{}, false
	came := make(chan struct{})
	wake := sync.OnceFunc(func() { close(came) })
	defer wake()
	b.cluster.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		id := req.(*kmsg.EndTxnRequest).TransactionalID
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasSuffix(id, "-"+first):
			if waits++; waits == 1 {
				since = time.Now()
				mu.Unlock()
				b.cluster.SleepControl(func() { <-came })
				mu.Lock()
			}
		case strings.HasSuffix(id, "-"+second) && time.Since(since) < patience:
			beside = true
			wake()
		}
		return nil, nil, false
	})
	l.member(b.with("every=50ms").open())
	b.publish(first, 1, 3)
	waitFor(t, "the first commits", func() bool { mu.Lock(); defer mu.Unlock(); return waits > 0 })
	b.publish(second, 1, 3)
	waitFor(t, "the second commits, or it is too late for that", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return beside || time.Since(since) > patience
	})
	mu.Lock()
	defer mu.Unlock()
	return beside
}
