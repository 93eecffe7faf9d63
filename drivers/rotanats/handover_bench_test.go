package rotanats_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A passing hands the partitions of one stream on from member to member while messages flow,
// and measures how long each is without an owner that handles them.
type passing struct {
	*broker
	l       *ledger
	mem     *rotatest.MemStore
	last    map[string]owned // guarded by the ledger
	idle    []float64        // ms
	members int
	leave   func()
}

type owned struct {
	token rota.Token
	at    time.Time
}

func newPassing(b *testing.B, url string, storage jetstream.StorageType) *passing {
	r := &passing{broker: newBroker(b, url, func(c *jetstream.StreamConfig) { c.Storage = storage }), l: newLedger(b), mem: rotatest.NewMemStore(), last: map[string]owned{}}
	for i := len(r.names); i < 16; i++ {
		r.names = append(r.names, fmt.Sprintf("%s.in.%d", r.stream, i))
	}
	r.l.other = func(m rota.Message) bool {
		now := time.Now()
		if was, ok := r.last[m.Partition]; ok && was.token != m.Token {
			r.idle = append(r.idle, float64(now.Sub(was.at).Microseconds())/1000)
		}
		r.last[m.Partition] = owned{m.Token, now}
		return false
	}
	r.keepPublishing(b, r.names)
	return r
}

// join runs one more member and returns once it has its share.
func (r *passing) join() (leave func()) {
	r.members++
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := r.l.memberUntil(ctx, fmt.Sprint("m", r.members), r.mem.Open(), r.Source(), func(c *rota.Config) { c.Lease, c.Heartbeat = 15*time.Second, 0 })
	return func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	}
}

// everywhere returns once every partition has gone on under a token that it did not have
// before, or has the same owner.
func (r *passing) everywhere(moves int) {
	r.t.Helper()
	r.l.wait(fmt.Sprint(moves, " partitions have moved"), time.Minute, func() bool { return len(r.idle) >= moves })
}

// swap lets another member join and the last one leave.
func (r *passing) swap() {
	r.t.Helper()
	n := len(r.names)
	have := r.moved()
	next := r.join()
	r.everywhere(have + n/2)
	r.leave()
	r.leave = next
	r.everywhere(have + n)
}

func (r *passing) moved() int {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return len(r.idle)
}

// BenchmarkHandOver compares hand-overs in good order on a stream in memory and on one with
// files, in turns, under a flow of messages.
//
//	go test -run '^$' -bench HandOver -benchtime 1x .
func BenchmarkHandOver(b *testing.B) {
	url := rotatest.StartNATS(b).URL()
	storages := []jetstream.StorageType{jetstream.MemoryStorage, jetstream.FileStorage}
	var all []*passing
	for _, s := range storages {
		r := newPassing(b, url, s)
		r.leave = r.join()
		r.l.wait("all are consumed", time.Minute, func() bool { return len(r.last) == len(r.names) })
		all = append(all, r)
	}
	for b.Loop() {
		replaced := make([]int, len(all))
		for range 20 {
			for i, r := range all {
				before := r.consumers()
				r.swap()
				for _, name := range r.consumers() {
					if !slices.Contains(before, name) {
						replaced[i]++
					}
				}
			}
		}
		for i, r := range all {
			r.l.mu.Lock()
			slices.Sort(r.idle)
			n := len(r.idle)
			b.Logf("%v: %d hand-overs, idle median %.1f ms, 99 %% %.1f ms, longest %.1f ms; %d consumers replaced, %d messages came again",
				storages[i], n, r.idle[n/2], r.idle[n*99/100], r.idle[n-1], replaced[i], r.l.again)
			b.ReportMetric(r.idle[n/2], fmt.Sprintf("%v-ms", storages[i]))
			r.l.mu.Unlock()
		}
	}
	for _, r := range all {
		r.leave()
	}
}
