package rota_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// moody is a source whose meter has a fault from a minute after the start on.
type moody struct {
	*rotatest.MemSource
	fault func(ctx context.Context, list []rota.Reading) ([]rota.Reading, error)
	began time.Time
}

func (m *moody) Read(ctx context.Context, names []string) ([]rota.Reading, error) {
	list, err := m.MemSource.Read(ctx, names)
	if m.fault == nil || time.Since(m.began) < time.Minute {
		return list, err
	}
	return m.fault(ctx, list)
}

// uncounted is a source that does not count arrivals.
type uncounted struct{ *rotatest.MemSource }

func (u uncounted) Read(ctx context.Context, names []string) ([]rota.Reading, error) {
	list, err := u.MemSource.Read(ctx, names)
	for i := range list {
		list[i].Arrived, list[i].Unknown = 0, true
	}
	return list, err
}

// late is a store whose watch is slower than its answers, as that of a server often is.
type late struct{ rota.Store }

func (l late) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		first := true
		for batch, err := range l.Store.Watch(ctx, prefix) {
			if !first {
				time.Sleep(10 * time.Millisecond)
			}
			first = false
			if !yield(batch, err) {
				return
			}
		}
	}
}

// What the leader itself handles counts as what others handle, where the broker does not
// count arrivals.
func TestWhatTheLeaderHandlesHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Store, c.Source = late{c.Store}, uncounted{g.src}
			c.Strategy, c.Packing = rota.Pack, rota.Packing{Capacity: 1000}
		})
		for range 600 {
			g.src.Publish("q0", []byte("x"))
			pass(100 * time.Millisecond)
		}
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, p := row(st, "q0"); p.Speed < 8 || p.Speed > 12 {
			t.Errorf("ten messages a second arrive, and their speed is %.1f", p.Speed)
		}
		if len(st.Members) != 1 || st.Members[0].Load < 8 {
			t.Errorf("the leader carries %+v", st.Members)
		}
		leave()
		g.wg.Wait()
	})
}

// beats is a store that notes the longest time between two writes of a member's record.
type beats struct {
	rota.Store
	mu   sync.Mutex
	last map[string]time.Time
	most time.Duration
}

func (b *beats) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if strings.Contains(key, "/member/") {
		b.mu.Lock()
		if at, ok := b.last[key]; ok {
			b.most = max(b.most, time.Since(at))
		}
		b.last[key] = time.Now()
		b.mu.Unlock()
	}
	return b.Store.Put(ctx, key, value, prev)
}

// TestAFaultyMeterDelaysNothing lets the meter freeze, fail, hang, lie and begin anew with
// every reading, while messages arrive at half of what the members can do. They are
// handled as they arrive, heartbeats come as without the fault, and the fault is told.
func TestAFaultyMeterDelaysNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	frozen := map[string]rota.Reading{}
	n := 0
	for _, c := range []struct {
		name  string
		fault func(context.Context, []rota.Reading) ([]rota.Reading, error)
		wants rota.Condition // that must be reported
	}{
		{"none", nil, ""},
		{"frozen", func(_ context.Context, list []rota.Reading) ([]rota.Reading, error) {
			for i := range list {
				if _, ok := frozen[list[i].Partition]; !ok {
					frozen[list[i].Partition] = list[i]
				}
				list[i] = frozen[list[i].Partition]
			}
			return list, nil
		}, ""},
		{"failing", func(context.Context, []rota.Reading) ([]rota.Reading, error) {
			return nil, errors.New("the broker does not count")
		}, rota.ConditionLoadUnknown},
		{"hanging", func(ctx context.Context, list []rota.Reading) ([]rota.Reading, error) {
			time.Sleep(90 * time.Second) // whatever its ctx says
			return list, nil
		}, rota.ConditionLoadUnknown},
		{"lying", func(_ context.Context, list []rota.Reading) ([]rota.Reading, error) {
			for i := range list {
				list[i].Arrived, list[i].Backlog = r.Uint64(), r.Int64()-math.MaxInt64/2
			}
			return append(list, rota.Reading{Partition: "nobody asked"}, list[0])[r.IntN(3):], nil
		}, rota.ConditionLoadRefused},
		{"epochs", func(_ context.Context, list []rota.Reading) ([]rota.Reading, error) {
			n++
			for i := range list {
				list[i].Epoch = fmt.Sprint(n)
			}
			return list, nil
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, 6)
				store := &beats{Store: g.store, last: map[string]time.Time{}}
				src := &moody{MemSource: g.src, fault: c.fault, began: time.Now()}
				var leaves []func() error
				for i := range 3 {
					_, leave := g.start(fmt.Sprintf("c%d", i+1), func(cfg *rota.Config) {
						cfg.Store, cfg.Source = store, src
						cfg.Strategy, cfg.Packing.Capacity = rota.Pack, 50
						cfg.Handle = g.handle(cfg.Name, 20*time.Millisecond) // 50 a second of a partition
					})
					leaves = append(leaves, leave)
					pass(time.Second)
				}
				found := g.windows(20)
				if c.wants != "" && !found[c.wants] {
					t.Errorf("%s was not reported: %v", c.wants, found)
				}
				if c.wants == "" && len(found) > 0 {
					t.Errorf("conditions without a cause: %v", found)
				}
				// A member that hands something over beats at once: gaps get shorter by that, never longer.
				if store.most > 2300*time.Millisecond {
					t.Errorf("a heartbeat came %v after the one before it", store.most)
				}
				for _, leave := range leaves {
					if err := leave(); err != nil {
						t.Error(err)
					}
				}
				pass(2 * time.Minute) // a reading that hangs returns
				g.wg.Wait()
			})
		})
	}
}

// windows publishes ten messages a second to each of six partitions, for so many windows of
// ten seconds, and fails the test if less than 0.98 of them are handled in one. It returns
// the conditions that members had.
func (g *group) windows(n int) map[rota.Condition]bool {
	g.t.Helper()
	handled := func() (n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, k := range g.count {
			n += k
		}
		return n
	}
	found := map[rota.Condition]bool{}
	for window := range n {
		before := handled()
		for range 100 {
			for p := range 6 {
				g.src.Publish(fmt.Sprintf("q%d", p), []byte("x"))
			}
			pass(100 * time.Millisecond)
		}
		if got := handled() - before; got < 588 {
			g.t.Errorf("window %d: %d of 600 messages were handled", window, got)
		}
		st, err := rota.Inspect(g.t.Context(), g.store, "test")
		if err != nil {
			g.t.Fatal(err)
		}
		for _, m := range st.Members {
			for _, x := range m.Conditions {
				found[x.Code] = true
			}
		}
	}
	return found
}

// TestBadPackingIsRefused asks for each setting that cannot work; the error names the
// number, and both numbers where two contradict each other.
func TestBadPackingIsRefused(t *testing.T) {
	for _, c := range []struct {
		p    rota.Packing
		want string
	}{
		{rota.Packing{Capacity: -1}, "rota: Config.Packing.Capacity is -1: want 0.001 to 1e+12, or zero for the default"},
		{rota.Packing{Capacity: math.NaN()}, "rota: Config.Packing.Capacity is NaN: want 0.001 to 1e+12, or zero for the default"},
		{rota.Packing{Target: 1.5}, "rota: Config.Packing.Target is 1.5: want 0.01 to 1, or zero for the default"},
		{rota.Packing{Target: 0.8, Trigger: 0.7}, "rota: Config.Packing.Trigger is 0.7 and Config.Packing.Target is 0.8: a member that is filled to its target would be overloaded; the trigger must be the target or more"},
		{rota.Packing{Trigger: 0.7}, ""},
		{rota.Packing{Target: 0.95}, ""},
		{rota.Packing{Price: 0.001}, "rota: Config.Packing.Price is 0.001: want 0.01 to 256, or zero for the default"},
		{rota.Packing{Budget: math.Inf(1)}, "rota: Config.Packing.Budget is +Inf: want 0.01 to 1e+06, or zero for the default"},
		{rota.Packing{Band: 2}, "rota: Config.Packing.Band is 2: want 0.01 to 0.99, or zero for the default"},
		{rota.Packing{Interval: time.Millisecond}, "rota: Config.Packing.Interval is 1ms: want 1s to 24h0m0s, or zero for the default"},
		{rota.Packing{CatchUp: -time.Second}, "rota: Config.Packing.CatchUp is -1s: want 1s to 24h0m0s, or zero for the default"},
		{rota.Packing{Interval: time.Second}, "rota: Config.Packing.Interval is 1s and Config.Heartbeat is 2s: members report once in a heartbeat, so look no more often"},
		{rota.Packing{CatchUp: 20 * time.Second}, "rota: Config.Packing.CatchUp is 20s and Config.Packing.Interval is 30s: no plan could keep that; a backlog cannot be worked off before the plan is looked at again"},
		{rota.Packing{CoolDown: rota.AtOnce}, ""},
		{rota.Packing{Unit: "stones"}, `rota: Config.Packing.Unit "stones": known are "messages" and "bytes"`},
		{rota.Packing{Weights: map[string]float64{"q0": -1}}, `rota: Config.Packing.Weights of "q0" is -1: want 0 to 1e+12 units per second`},
	} {
		cfg := rota.Config{Group: "g", Store: rotatest.NewMemStore(), Source: rotatest.NewMemSource(1, "q0"), Strategy: rota.Pack, Packing: c.p,
			Handle: func(context.Context, rota.Message) error { return nil }}
		_, err := rota.New(cfg)
		if got := fmt.Sprint(err); err != nil && got != c.want || err == nil && c.want != "" {
			t.Errorf("%+v: %v, want %s", c.p, err, c.want)
		}
		cfg.Strategy = rota.Spread
		if _, err := rota.New(cfg); err == nil || !strings.Contains(err.Error(), `Config.Packing is set and Config.Strategy is "spread"`) {
			t.Errorf("%+v with another strategy: %v", c.p, err)
		}
	}
}

// TestWeightsPackAsSpeedsDo places partitions of a source that measures nothing by speeds
// that are given: a heavy one is alone, the light ones share a member.
func TestWeightsPackAsSpeedsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		weights := map[string]float64{"q0": 5, "q1": 78, "q2": 5, "q3": 5}
		var members []*rota.Member
		for _, name := range []string{"c1", "c2"} {
			m, leave := g.start(name, func(c *rota.Config) {
				c.Strategy, c.Packing = rota.Pack, rota.Packing{Capacity: 100, Weights: weights}
				c.Source = struct{ rota.Source }{g.src} // without its meter
			})
			defer leave()
			members = append(members, m)
		}
		time.Sleep(time.Minute)
		st := members[0].Status()
		if len(st.Waits) > 0 || len(st.Members) != 2 {
			t.Fatalf("%+v", st)
		}
		at := map[string]string{}
		for _, p := range st.Partitions {
			at[p.Name] = p.Member
		}
		if at["q1"] == at["q0"] || at["q0"] != at["q2"] || at["q0"] != at["q3"] {
			t.Errorf("placed as %v, want q1 alone", at)
		}
		for _, c := range st.Members {
			for _, x := range c.Conditions {
				t.Errorf("%s: %s: weights need no meter", c.Name, x.Text)
			}
		}
	})
}
