package rota_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// platform is a Scaler that notes its calls.
type platform struct {
	does func(ctx context.Context, want int, remove []rota.MemberInfo) error

	mu      sync.Mutex
	calls   []time.Time
	inside  int
	want    int
	removes []string
}

func (p *platform) Scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	p.mu.Lock()
	p.calls = append(p.calls, time.Now())
	p.inside++
	twice := p.inside > 1
	p.want, p.removes = want, nil
	for _, m := range remove {
		p.removes = append(p.removes, m.Name)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.inside--
		p.mu.Unlock()
	}()
	if twice {
		return errors.New("two calls at once")
	}
	return p.does(ctx, want, remove)
}

type pauses struct{ time.Duration }

func (pauses) Error() string               { return "slow down" }
func (p pauses) RetryAfter() time.Duration { return p.Duration }

// TestAFaultyScalerDelaysNothing lets the Scaler hang, fail, refuse, and not deliver, while
// messages arrive at half of what the members can do. They are handled as they arrive,
// heartbeats come as without the fault, and the fault is told.
func TestAFaultyScalerDelaysNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		does  func(context.Context, int, []rota.MemberInfo) error
		wants rota.Condition // that must be reported
		calls int            // at most
	}{
		{"hanging", func(context.Context, int, []rota.MemberInfo) error {
			time.Sleep(time.Minute) // whatever its ctx says
			return nil
		}, rota.ConditionScalerFails, 5},
		{"failing", func(context.Context, int, []rota.MemberInfo) error { return errors.New("the platform is away") }, rota.ConditionScalerFails, 12},
		{"refusing", func(context.Context, int, []rota.MemberInfo) error {
			return fmt.Errorf("platform: %w", pauses{50 * time.Second})
		}, rota.ConditionScalerFails, 5},
		{"forgetting", func(context.Context, int, []rota.MemberInfo) error { return nil }, rota.ConditionSizeMissed, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p := newGroup(t, 6), &platform{does: c.does}
				store := &beats{Store: g.store, last: map[string]time.Time{}}
				var leaves []func() error
				for i := range 2 {
					_, leave := g.start(fmt.Sprintf("c%d", i+1), func(cfg *rota.Config) {
						cfg.Store = store
						cfg.Strategy, cfg.Packing.Capacity = rota.Pack, 60
						cfg.Scaler, cfg.Scaling = p, rota.Scaling{Max: 8, Vanish: 20 * time.Second, DownAfter: 5 * time.Second}
						cfg.Handle = g.handle(cfg.Name, 10*time.Millisecond)
					})
					leaves = append(leaves, leave)
					pass(time.Second)
				}
				found := g.windows(20)
				st, err := rota.Inspect(t.Context(), g.store, "test")
				if err != nil {
					t.Fatal(err)
				}
				size := st.Size
				if !found[c.wants] {
					t.Errorf("%s was not reported: %v", c.wants, found)
				}
				if size == nil || size.Wanted != 3 || size.Have != 2 || size.Asked.IsZero() || (size.Answer != "") != (c.wants == rota.ConditionScalerFails) {
					t.Errorf("the size is %+v", size)
				}
				if store.most > 2300*time.Millisecond {
					t.Errorf("a heartbeat came %v after the one before it", store.most)
				}
				p.mu.Lock()
				if n := len(p.calls); n < 2 || n > c.calls || p.want != 3 {
					t.Errorf("%d calls, the last for %d members", n, p.want)
				}
				p.mu.Unlock()
				for _, leave := range leaves {
					if err := leave(); err != nil {
						t.Error(err)
					}
				}
				pass(2 * time.Minute) // a call that hangs returns
				g.wg.Wait()
			})
		})
	}
}

// A call to the Scaler ends with the leadership of who made it.
func TestACallToTheScalerEndsWithTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		ended := make(chan time.Duration, 16)
		p := &platform{does: func(ctx context.Context, _ int, _ []rota.MemberInfo) error {
			began := time.Now()
			<-ctx.Done()
			ended <- time.Since(began)
			return ctx.Err()
		}}
		_, leave := g.start("c1", func(cfg *rota.Config) {
			cfg.Strategy, cfg.Packing.Capacity, cfg.Scaler, cfg.Scaling.Max = rota.Pack, 60, p, 4
		})
		pass(5 * time.Second)
		if len(p.calls) != 1 || len(ended) != 0 {
			t.Fatalf("%d calls, %d ended", len(p.calls), len(ended))
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		if len(ended) != 1 || <-ended > 10*time.Second {
			t.Error("the call goes on without its leader")
		}
		g.wg.Wait()
	})
}

// TestAMemberIsEmptiedAndRemoved shrinks a group of whole members: the one that goes owns
// nothing when the Scaler is told its name, and its labels come with it.
func TestAMemberIsEmptiedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 6)
		leaves := map[string]func() error{}
		var mu sync.Mutex
		p := &platform{}
		p.does = func(_ context.Context, _ int, remove []rota.MemberInfo) error {
			st, err := rota.Inspect(context.Background(), g.store, "test")
			if err != nil {
				return err
			}
			for _, m := range remove {
				if m.Labels["pod"] != "pod-"+m.Name {
					t.Errorf("%s has the labels %v", m.Name, m.Labels)
				}
				for _, x := range st.Members {
					if x.Session == m.Session && x.Partitions > 0 {
						t.Errorf("%s owns %d partitions and is to be removed", m.Name, x.Partitions)
					}
				}
				mu.Lock()
				leave := leaves[m.Name]
				delete(leaves, m.Name)
				mu.Unlock()
				if leave != nil {
					g.wg.Go(func() { leave() })
				}
			}
			return nil
		}
		var sizes []rota.Event
		for _, name := range []string{"c1", "c2", "c3"} {
			_, leave := g.start(name, func(cfg *rota.Config) {
				cfg.Labels = map[string]string{"pod": "pod-" + name}
				cfg.Strategy, cfg.Packing = rota.Pack, rota.Packing{Capacity: 100, Weights: map[string]float64{"q0": 10}}
				cfg.Scaler, cfg.Scaling = p, rota.Scaling{Max: 4, Spare: -1, DownAfter: 5 * time.Second}
				cfg.Trace = func(e rota.Event) {
					if e.Kind == rota.EventSize {
						mu.Lock()
						sizes = append(sizes, e)
						mu.Unlock()
					}
				}
			})
			mu.Lock()
			leaves[name] = leave
			mu.Unlock()
		}
		pass(3 * time.Minute)
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if st.Size == nil || st.Size.Wanted != 1 || st.Size.Have != 1 || len(st.Size.Going) != 0 {
			t.Errorf("the size is %+v", st.Size)
		}
		if len(sizes) == 0 || sizes[0].Want >= sizes[0].Have || len(sizes[0].Going) == 0 {
			t.Errorf("told was %+v", sizes)
		}
		if leaves[st.LeaderName] == nil {
			t.Errorf("the leader goes last, and %v are left", leaves)
		}
		left := leaves
		leaves = nil
		mu.Unlock()
		for _, leave := range left {
			leave()
		}
		g.wg.Wait()
	})
}

// TestBadScalingIsRefused asks for each setting that cannot work; the error names both
// settings where two contradict each other.
func TestBadScalingIsRefused(t *testing.T) {
	p := &platform{}
	for _, c := range []struct {
		tune func(*rota.Config)
		want string
	}{
		{func(c *rota.Config) {}, ""},
		{func(c *rota.Config) { c.Scaler = nil }, "Config.Scaling is set and Config.Scaler is nil"},
		{func(c *rota.Config) { c.Scaler, c.Scaling.DryRun = nil, true }, ""},
		{func(c *rota.Config) { c.Strategy, c.Packing = rota.Spread, rota.Packing{} }, `Config.Scaler is set and Config.Strategy is "spread"`},
		{func(c *rota.Config) { c.Packing.Capacity = 0 }, "Config.Scaler is set, and neither Config.Packing.Capacity nor the label capacity is"},
		{func(c *rota.Config) {
			c.Packing.Capacity, c.Labels = 0, map[string]string{"capacity": "10"}
		}, ""},
		{func(c *rota.Config) { c.Scaling.Max = 0 }, "Config.Scaling.Max is 0"},
		{func(c *rota.Config) { c.Scaling.Max = 1e6 }, "Config.Scaling.Max is 1000000"},
		{func(c *rota.Config) { c.Scaling.Min = 9 }, "Config.Scaling.Min is 9 and Config.Scaling.Max is 8"},
		{func(c *rota.Config) { c.Scaling.Min = -1 }, "Config.Scaling.Min is -1"},
		{func(c *rota.Config) { c.Scaling.Spare = 9 }, "Config.Scaling.Spare is 9 and Config.Scaling.Max is 8"},
		{func(c *rota.Config) { c.Scaling.Spare = -2 }, "Config.Scaling.Spare is -2"},
		{func(c *rota.Config) { c.Scaling.Step = -1 }, "Config.Scaling.Step is -1"},
		{func(c *rota.Config) { c.Scaling.Band = math.NaN() }, "Config.Scaling.Band is NaN"},
		{func(c *rota.Config) { c.Scaling.Vanish = time.Millisecond }, "Config.Scaling.Vanish is 1ms"},
		{func(c *rota.Config) { c.Scaling.Vanish = rota.AtOnce }, "Config.Scaling.Vanish is"},
		{func(c *rota.Config) { c.Scaling.DownAfter = rota.AtOnce }, ""},
	} {
		cfg := rota.Config{Group: "g", Store: rotatest.NewMemStore(), Source: rotatest.NewMemSource(1, "q0"), Strategy: rota.Pack,
			Packing: rota.Packing{Capacity: 100}, Scaler: p, Scaling: rota.Scaling{Max: 8},
			Handle: func(context.Context, rota.Message) error { return nil }}
		c.tune(&cfg)
		_, err := rota.New(cfg)
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", cfg.Scaling, err, c.want)
		}
	}
}
