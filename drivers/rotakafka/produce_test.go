package rotakafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/rotatest"
)

// results are the committed values of a topic with one partition.
func (b *broker) results(topic string) (out []string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	ends, err := kadm.NewClient(b.admin).ListCommittedOffsets(ctx, topic)
	b.must(err)
	end, _ := ends.Lookup(topic, 0)
	if end.Offset == 0 {
		return nil
	}
	c := newClient(b.t, b.addr, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	for at := int64(0); at < end.Offset; {
		for r := range c.PollFetches(ctx).RecordsAll() {
			at = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, string(r.Value))
			}
		}
		if ctx.Err() != nil {
			b.t.Fatalf("the results end at %d of %d", len(out), end.Offset)
		}
	}
	return out
}

// producesOnce turns messages into others while owners are cut off, and one is shut out:
// each has one result. Handlers fail now and then, after they have produced.
func producesOnce(t *testing.T, b *broker) {
	const n, more = 120, 20
	l, p, out := newLedger(t), b.names[0], b.topic+".out"
	other := *b
	other.topic = out
	other.create(1)
	b.publish(p, 1, n)
	one := b.with("every=50ms&window=40")
	failed := map[string]bool{}
	join := func(stuckAt string) (stuck chan struct{}, cut func()) {
		src, store := one.open(), rotatest.Faulty(l.store.Open(), 1)
		stuck = make(chan struct{})
		l.member(src, func(c *rota.Config) {
			c.Store, c.Orphan, c.BackoffFirst = store, rota.AtOnce, time.Millisecond
			c.Handle = func(ctx context.Context, msg rota.Message) error {
				value := string(msg.Value)
				if err := rotakafka.Produce(src, msg, &kgo.Record{Topic: out, Value: []byte("r" + value)}); err != nil {
					return err
				}
				if value == stuckAt {
					close(stuck)
					<-ctx.Done()
					return ctx.Err()
				}
				bad := false
				l.note(func() {
					bad = !failed[value] && strings.HasSuffix(value, "7")
					failed[value] = true
				})
				if bad {
					return errors.New("not the first time")
				}
				return l.handle(ctx, msg)
			}
		})
		return stuck, store.Fail
	}
	for _, at := range []string{"35", "80"} {
		stuck, cut := join(at)
		select {
		case <-stuck:
		case <-time.After(bound):
			t.Fatalf("no owner gets to message %s", at)
		}
		cut()
	}
	join("")
	l.wait("all are handled", func() bool { return len(l.got[p]) > 0 && string(l.got[p][len(l.got[p])-1].Value) == fmt.Sprint(n) })
	waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == n })
	initProducer(b, "rota-"+l.group+"-"+p)
	b.publish(p, n+1, n+more)
	waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == n+more })
	var want []string
	for i := range n + more {
		want = append(want, fmt.Sprintf("r%d", i+1))
	}
	if got := b.results(out); !slices.Equal(got, want) {
		t.Errorf("the results are %q", got)
	}
}

func TestProduceIsRefused(t *testing.T) {
	plain := rotakafka.Source("kafka://a?topic=t&fence=none")
	fenced := rotakafka.Source("kafka://a?topic=t")
	for says, src := range map[string]rota.Source{"fence=none has no transactions": plain, "give the one that Source has returned": rotatest.NewMemSource(1, "q"), "does not own the partition": fenced} {
		if err := rotakafka.Produce(src, rota.Message{Partition: "t-0"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
