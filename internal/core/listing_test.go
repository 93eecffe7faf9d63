//go:build linux

package core_test

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// newLister makes the leader of a group of one that runs all of n partitions, a tenth of
// which have orders. Its events come in batches, as the shell gathers them.
func newLister(n int) *leader {
	o := &record.Orders{Ver: 1}
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Fresh: true, Era: 7}
	l := &leader{n: core.New(cfg), now: 1, cells: map[core.Key]core.Entry{}}
	for i := range n {
		name := fmt.Sprintf("orders.%d", i)
		l.listing = append(l.listing, record.Partition{Name: name, Meta: meta("n=" + name)})
		if i%10 == 0 {
			o.Add = append(o.Add, name, "more."+name)
			o.Remove = append(o.Remove, "old."+name)
			o.Meta = append(o.Meta, record.Meta{Partition: name, Pairs: meta("region=eu")})
		}
	}
	l.cells[core.Key{Cell: core.OrdersCell}] = core.Entry{Key: core.Key{Cell: core.OrdersCell}, Rev: 1, Orders: o}
	l.rev = 1
	l.batches(core.Event{Kind: core.Begin})
	for range 20 {
		l.now = l.now.Add(100 * time.Millisecond)
		l.batches(core.Event{Kind: core.Tick})
	}
	return l
}

// batches is step with all events that come of one step in the next.
func (l *leader) batches(evs ...core.Event) {
	for len(evs) > 0 {
		acts := slices.Clone(l.n.Steps(l.now, evs))
		evs = nil
		for _, a := range acts {
			switch a.Do {
			case core.DoCall:
				evs = append(evs, l.call(a))
			case core.DoAsk:
				evs = append(evs, core.Event{Kind: core.Listed, Complete: true, Listing: l.listing})
			case core.DoStart:
				evs = append(evs, core.Event{Kind: core.Started, ID: a.ID, Token: a.Token})
			}
		}
	}
}

// list is the step of a leader that gets a listing which lacks every 50th partition; the
// next one has them all, so that none is missed for good.
func (l *leader) list(lacking bool) []core.Action {
	listing := l.listing
	if lacking {
		listing = nil
		for i := range l.listing {
			if i%50 != 7 {
				listing = append(listing, l.listing[i])
			}
		}
	}
	l.now++
	return l.n.Step(l.now, core.Event{Kind: core.Listed, Complete: true, Listing: listing})
}

// TestWorkOnAListingIsLinear lists the same number of partitions in many short listings and
// in few that are thirty times as long: these may take ten times as long. With a search
// through the listing for each partition they take thirty times as long.
func TestWorkOnAListingIsLinear(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const small, times, slack, rounds = 400, 30, 10, 3
	few, many := newLister(small), newLister(small*times)
	for _, l := range []*leader{few, many} {
		if n := len(l.listing); len(l.n.Plan().Rows) != n+n/10 {
			t.Fatalf("the plan has %d rows, want %d", len(l.n.Plan().Rows), n+n/10)
		}
	}
	cost := func(l *leader, lists int) time.Duration {
		began := worked()
		for i := range lists {
			acts := l.list(i%2 == 0)
			if i := slices.IndexFunc(acts, func(a core.Action) bool { return a.Roster != nil || a.Plan != nil }); i >= 0 {
				t.Fatalf("a listing that changes nothing leads to %+v", acts[i])
			}
		}
		return worked() - began
	}
	for round := range rounds {
		short, long := cost(few, 6*times), cost(many, 6)
		t.Logf("%d listings of %d partitions: %v; 6 of %d: %v", 6*times, small, short, small*times, long)
		if long <= short*slack {
			return
		}
		if round == rounds-1 {
			t.Errorf("%d partitions take %v in short listings and %v in long ones", 6*small*times, short, long)
		}
	}
}

// worked is the time that this thread has worked, which a busy machine does not change.
func worked() time.Duration {
	const thisThread = 1
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkListing is a leader's step on a listing. A roster holds 32 768 partitions; the
// core itself has no limit.
func BenchmarkListing(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := newLister(n)
			for i := range b.N {
				l.list(i%2 == 0)
			}
		})
	}
}
