package rota_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// What delivering through a member costs over calling the handler in a loop:
// pacing, the lease checks before each delivery and each settlement, and the
// message's labels. One operation is one message.

// tap is a source that is always full once it is opened.
type tap struct {
	names []string
	each  int // messages per partition
	batch int
	open  chan struct{}
	ready sync.WaitGroup
	done  sync.WaitGroup
}

func (t *tap) Partitions(context.Context) ([]rota.Partition, error) {
	var out []rota.Partition
	for _, n := range t.names {
		out = append(out, rota.Partition{Name: n})
	}
	return out, nil
}

func (t *tap) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	own.Started()
	msgs := make([]rota.Message, t.batch)
	t.ready.Done()
	<-t.open
	for left := t.each; left > 0; {
		n, err := deliver(ctx, msgs[:min(left, t.batch)]...)
		if err == nil {
			err = own.Settle(func() error { return nil })
		}
		if err != nil {
			return err
		}
		left -= n
	}
	t.done.Done()
	<-own.Stop()
	return nil
}

func BenchmarkDeliver(b *testing.B) {
	for _, partitions := range []int{1, 16, 1000} {
		for _, batch := range []int{1, 16} {
			b.Run(fmt.Sprintf("partitions=%d/batch=%d", partitions, batch), func(b *testing.B) { deliverAll(b, partitions, batch, nil) })
		}
	}
	// Where no clock counts suspend, each lease check compares two.
	b.Run("no-boot-clock", func(b *testing.B) { deliverAll(b, 16, 16, (*rota.Member).NoBootClock) })
}

func deliverAll(b *testing.B, partitions, batch int, prepare func(*rota.Member)) {
	t := &tap{names: rotatest.Names(partitions), each: max(b.N/partitions, 1), batch: batch, open: make(chan struct{})}
	t.ready.Add(partitions)
	t.done.Add(partitions)
	m, err := rota.New(rota.Config{Group: "bench", Store: rotatest.NewMemStore(), NewGroup: true, Source: t, Handle: ignore})
	if err != nil {
		b.Fatal(err)
	}
	if prepare != nil {
		prepare(m)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	t.ready.Wait()
	b.ReportAllocs()
	b.ResetTimer()
	close(t.open)
	t.done.Wait()
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func ignore(context.Context, rota.Message) error { return nil }

// The bare loop: the same calls with nothing in between.
func BenchmarkBareLoop(b *testing.B) {
	handle := []func(context.Context, rota.Message) error{ignore}
	msgs := make([]rota.Message, 16)
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := handle[0](ctx, msgs[i%16]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMember is a whole life: a member joins an empty group, plans, starts
// all partitions, stops them and leaves. What one partition costs is the
// difference between the sizes.
func BenchmarkMember(b *testing.B) {
	for _, partitions := range []int{1, 1001} {
		b.Run(fmt.Sprintf("%d-partitions", partitions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				src := rotatest.NewMemSource(1, rotatest.Names(partitions)...)
				m, err := rota.New(rota.Config{Group: "bench", Store: rotatest.NewMemStore(), Source: src, NewGroup: true, QuietTime: rota.AtOnce,
					Handle: func(context.Context, rota.Message) error { return nil }})
				if err != nil {
					b.Fatal(err)
				}
				ctx, leave := context.WithCancel(context.Background())
				events := m.Events(context.Background())
				done := make(chan error, 1)
				go func() { done <- m.Run(ctx) }()
				started := 0
				for e := range events {
					if e.Kind == rota.EventStart || e.Kind == rota.EventMissed {
						if started += max(e.N, 1); started >= partitions {
							break
						}
					}
				}
				leave()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
