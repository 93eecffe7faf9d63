package rotakafka_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rota-dev/rota/rotatest"
)

// BenchmarkRequestsOfAHandOver tells how long a broker with nothing else to do takes for the
// requests without which no partition can go from one owner to the next, by bare clients: the
// transaction that commits the last offset, the next owner's initialization, which waits until the
// transaction is complete, the offset, and the first fetch. Once for one partition at a time, and
// once for eight of a group that move together.
//
//	go test -run '^$' -bench RequestsOfAHandOver -benchtime 200x .
func BenchmarkRequestsOfAHandOver(b *testing.B) {
	s := rotatest.StartKafka(b)
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d-at-once", n), func(b *testing.B) {
			all, group := make([]*bareMove, n), "floor-"+rand.Text()
			for i := range all {
				all[i] = newBareMove(b, newBroker(b, s.Addr()), group)
			}
			run := func() {
				var g sync.WaitGroup
				for _, h := range all {
					g.Go(h.run)
				}
				g.Wait()
			}
			for range 20 { // to warm up
				run()
			}
			for _, h := range all {
				clear(h.took)
			}
			for b.Loop() {
				run()
			}
			for _, step := range append(all[0].steps, "whole") {
				var took []time.Duration
				for _, h := range all {
					took = append(took, h.took[step]...)
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2].Seconds()*1e3, step+"-ms")
			}
		})
	}
}

// A bareMove gives one partition from an owner to the next, over and over.
type bareMove struct {
	testing.TB
	b         *broker
	c         *kgo.Client
	group, id string
	pid       int64
	epoch     int16
	at        int64
	steps     []string
	took      map[string][]time.Duration
}

func newBareMove(t testing.TB, b *broker, group string) *bareMove {
	v := kversion.Stable()
	for _, key := range []kmsg.Key{kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		v.SetMaxKeyVersion(int16(key), 4) // as the driver does
	}
	v.SetMaxKeyVersion(int16(kmsg.Fetch), 12)
	v.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 7)
	h := &bareMove{TB: t, b: b, c: newClient(t, b.addr, kgo.MaxVersions(v)), group: group, id: "floor-" + rand.Text(), took: map[string][]time.Duration{}}
	b.must(b.admin.ProduceSync(context.Background(), b.records(b.names[0], []byte("1"))...).FirstErr())
	h.initialize()
	return h
}

// run gives the partition to the next owner.
func (h *bareMove) run() {
	begun := time.Now()
	h.at++
	h.step("enter", func() int16 {
		r := kmsg.NewAddOffsetsToTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = h.id, h.pid, h.epoch, h.group
		got, err := r.RequestWith(h.Context(), h.c)
		h.b.must(err)
		return got.ErrorCode
	})
	h.step("offset", func() int16 {
		r := kmsg.NewTxnOffsetCommitRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group, r.Generation = h.id, h.pid, h.epoch, h.group, -1
		t, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Offset, t.Topic = h.at, h.b.topic
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		got, err := r.RequestWith(h.Context(), h.c)
		h.b.must(err)
		return got.Topics[0].Partitions[0].ErrorCode
	})
	h.step("commit", func() int16 {
		r := kmsg.NewEndTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = h.id, h.pid, h.epoch, true
		got, err := r.RequestWith(h.Context(), h.c)
		h.b.must(err)
		return got.ErrorCode
	})
	h.initialize()
	h.step("read", func() int16 {
		r := kmsg.NewOffsetFetchRequest()
		r.Group, r.RequireStable = h.group, true
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = h.b.topic, []int32{0}
		r.Topics = append(r.Topics, t)
		got, err := r.RequestWith(h.Context(), h.c)
		h.b.must(err)
		p := got.Topics[0].Partitions[0]
		if p.ErrorCode == 0 && p.Offset != h.at {
			h.Fatalf("the offset is %d, want %d", p.Offset, h.at)
		}
		return p.ErrorCode
	})
	h.step("fetch", func() int16 {
		r := kmsg.NewFetchRequest()
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes = 100, 1, 1<<20
		t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes, t.Topic = 1<<20, h.b.topic
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		got, err := r.RequestWith(h.Context(), h.c)
		h.b.must(err)
		return got.Topics[0].Partitions[0].ErrorCode
	})
	h.took["whole"] = append(h.took["whole"], time.Since(begun))
}

func (h *bareMove) initialize() {
	h.step("initialize", func() int16 {
		r := kmsg.NewInitProducerIDRequest()
		r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &h.id, 60_000, -1, -1
		got, err := r.RequestWith(h.Context(), h.c)
		h.b.must(err)
		h.pid, h.epoch = got.ProducerID, got.ProducerEpoch
		return got.ErrorCode
	})
}

// step makes a request, again while a transaction is being completed.
func (h *bareMove) step(name string, f func() int16) {
	if !slices.Contains(h.steps, name) {
		h.steps = append(h.steps, name)
	}
	begun := time.Now()
	for {
		err := kerr.ErrorForCode(f())
		if errors.Is(err, kerr.ConcurrentTransactions) || errors.Is(err, kerr.UnstableOffsetCommit) || errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) {
			time.Sleep(time.Millisecond)
			continue
		}
		h.b.must(err)
		break
	}
	h.took[name] = append(h.took[name], time.Since(begun))
}
