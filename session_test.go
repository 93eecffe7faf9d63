package rota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// TestABugStopsEverythingAndDoesNotSpread breaks an assertion. The member ends with the
// newest events in its error, its record names the plan, and the next leader does not
// change that plan.
func TestABugStopsEverythingAndDoesNotSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		var now atomic.Bool
		g.prepare = func(m *rota.Member) {
			m.TestPause(func() {
				if now.Swap(false) {
					panic(core.Bug("a test"))
				}
			})
		}
		m1, leave1 := g.start("c1", nil)
		g.prepare = nil
		time.Sleep(300 * time.Millisecond)
		m2, leave2 := g.start("c2", nil)
		var waits atomic.Bool
		events := m2.Events(t.Context())
		g.wg.Go(func() {
			for e := range events {
				if e.Condition == rota.ConditionBlocked {
					waits.Store(true)
				}
			}
		})
		time.Sleep(time.Second)
		first := m1.SessionID()
		now.Store(true)
		time.Sleep(10 * time.Second)
		err := leave1()
		if !errors.Is(err, rota.ErrBug) || !strings.Contains(err.Error(), "a test") || !strings.Contains(err.Error(), "kind") {
			t.Errorf("Run returned %v, want ErrBug with the bug and the newest events", err)
		}
		e, _ := g.store.Get(context.Background(), "test/member/"+record.Session(first).String())
		if m, err := record.DecodeMember(e.Value); err != nil || m.State != record.Left || m.Bug == 0 {
			t.Errorf("its record is %+v, %v", m, err)
		}
		if !waits.Load() {
			t.Error("the next leader goes on as if nothing had happened")
		}
		if err := leave2(); err != nil {
			t.Errorf("c2: %v", err)
		}
		g.wg.Wait()
	})
}

// TestHistoryTellsEachPlan shows that the leader keeps the last plans with their
// causes and moves.
func TestHistoryTellsEachPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		_, leave1 := g.start("c1", nil)
		time.Sleep(time.Second)
		_, leave2 := g.start("c2", nil)
		time.Sleep(time.Second)
		leave2()
		time.Sleep(time.Second)
		e, err := g.store.Get(context.Background(), "test/history")
		if err != nil {
			t.Fatal(err)
		}
		h, err := record.DecodeHistory(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range h.Plans {
			got += fmt.Sprint(p.Causes)
		}
		if want := "[{joined [c1] 0} {roster [] 0}][{joined [c2] 0}][{left [c2] 0}]"; got != want {
			t.Errorf("the history is %s, want %s", got, want)
		}
		if h.Plans[1].Moves != 2 || h.Plans[1].Members != 2 || h.Plans[1].ID != 2 {
			t.Errorf("the second plan is told as %+v", h.Plans[1])
		}
		leave1()
		g.wg.Wait()
	})
}

// TestClocksThatComeApartCostTheLease lets the clocks of a machine suddenly disagree:
// everything stops, the lease is renewed, and work goes on.
func TestClocksThatComeApartCostTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		var drift atomic.Int64
		g.prepare = func(m *rota.Member) {
			m.Drift(func() time.Duration { return time.Duration(drift.Load()) })
		}
		m, leave := g.start("c1", nil)
		var told []rota.EventKind
		events := m.Events(t.Context())
		g.wg.Go(func() {
			for e := range events {
				if e.Kind == rota.EventLapsed || e.Kind == rota.EventResumed {
					told = append(told, e.Kind)
				}
			}
		})
		time.Sleep(time.Second)
		drift.Store(int64(3 * time.Second))
		time.Sleep(3 * time.Second)
		leave()
		g.wg.Wait()
		if len(told) != 2 || told[0] != rota.EventLapsed || told[1] != rota.EventResumed {
			t.Errorf("told %v, want one pause and one resume", told)
		}
	})
}

// slowStore takes 3 ms for a write, and counts plans.
type slowStore struct {
	*rotatest.MemStore
	plans atomic.Int32
}

func (s *slowStore) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if strings.HasSuffix(key, "/plan") {
		s.plans.Add(1)
	}
	time.Sleep(3 * time.Millisecond)
	return s.MemStore.Put(ctx, key, value, prev)
}

// TestPartitionsThatStopTogetherMoveTogether tells three owners to stop twelve
// partitions, which stop shortly one after the other. That takes one acknowledgement
// of each owner and at most two plans that grant: the second for partitions that are
// acknowledged while the first plan is written.
func TestPartitionsThatStopTogetherMoveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowStore{MemStore: rotatest.NewMemStore()}
		var names []string
		for i := range 48 {
			names = append(names, fmt.Sprintf("q%02d", i))
		}
		var nth atomic.Int32
		var wg sync.WaitGroup
		var leaves []func()
		join := func(name string) {
			src := rota.Func(names, func(ctx context.Context, own rota.Ownership) error {
				own.Started()
				<-own.Stop()
				time.Sleep(10*time.Millisecond + time.Duration(nth.Add(1))*50*time.Microsecond)
				return nil
			})
			m, err := rota.New(rota.Config{Group: "g", Name: name, Store: st, NewGroup: true, Source: src})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			leaves = append(leaves, cancel)
			wg.Go(func() { m.Run(ctx) })
			time.Sleep(time.Second)
		}
		join("c1")
		join("c2")
		join("c3")
		nth.Store(0)
		before := st.plans.Load()
		join("c4")
		if moved, plans := nth.Load(), st.plans.Load()-before; moved != 12 || plans > 3 {
			t.Errorf("%d partitions moved by %d writes of the plan, want 12 by 3 at most: one that revokes and two that grant", moved, plans)
		}
		for _, leave := range leaves {
			leave()
		}
		wg.Wait()
	})
}
