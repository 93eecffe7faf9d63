package rota_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// A lame source delivers nothing of the partitions that are muted, and its handler does
// not return for those that hang. It counts its readings.
type lame struct {
	*source
	mu     sync.Mutex
	muted  map[string]chan struct{} // closed when it delivers again
	hung   map[string]chan struct{}
	reads  [][]string
	onRead func(names []string) // before the backlog is counted
}

func newLame(g *group) *lame {
	l := &lame{muted: map[string]chan struct{}{}, hung: map[string]chan struct{}{}}
	l.source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
		return g.src.Consume(ctx, own, func(ctx context.Context, msgs ...rota.Message) (int, error) {
			if !l.wait(ctx, own, l.muted) {
				return 0, rota.ErrStop
			}
			return deliver(ctx, msgs...)
		})
	}}
	return l
}

// wait waits while a partition is in the map. It tells whether the ownership lasts.
func (l *lame) wait(ctx context.Context, own rota.Ownership, in map[string]chan struct{}) bool {
	l.mu.Lock()
	over := in[own.Partition()]
	l.mu.Unlock()
	if over == nil {
		return true
	}
	select {
	case <-over:
		return true
	case <-own.Stop():
		return false
	case <-ctx.Done():
		return false
	}
}

func (l *lame) begin(in map[string]chan struct{}, partition string) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := make(chan struct{})
	in[partition] = over
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(in, partition)
		close(over)
	}
}

func (l *lame) Read(ctx context.Context, names []string) ([]rota.Reading, error) {
	l.mu.Lock()
	l.reads = append(l.reads, names)
	before := l.onRead
	l.mu.Unlock()
	if before != nil {
		before(names)
	}
	return l.MemSource.Read(ctx, names)
}

// reports are the conditions about progress that members told of.
type reports struct {
	mu  sync.Mutex
	all []rota.Event
}

var stallCodes = []rota.Condition{rota.ConditionHandlerBusy, rota.ConditionSourceSilent, rota.ConditionNoProgress}

func (r *reports) trace(e rota.Event) {
	if e.Kind == rota.EventCondition && slices.Contains(stallCodes, e.Condition) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, e)
	}
}

// newest returns the reports since the last call.
func (r *reports) newest() (out []rota.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, r.all = r.all, nil
	return out
}

// lameGroup starts two members over four partitions of a lame source.
func lameGroup(t *testing.T, tune func(*rota.Config)) (g *group, l *lame, said *reports, end func()) {
	g, said = newGroup(t, 4), &reports{}
	l = newLame(g)
	var leaves []func() error
	for _, name := range []string{"c1", "c2"} {
		_, leave := g.start(name, func(c *rota.Config) {
			c.Source, c.Trace = l, said.trace
			c.Handle = func(ctx context.Context, msg rota.Message) error {
				if !l.wait(ctx, msg.Ownership(), l.hung) {
					return errors.New("asked to stop")
				}
				return nil
			}
			if tune != nil {
				tune(c)
			}
		})
		leaves = append(leaves, leave)
	}
	pass(2 * time.Second)
	return g, l, said, func() {
		for _, leave := range leaves {
			if err := leave(); err != nil {
				t.Error(err)
			}
		}
		g.wg.Wait()
	}
}

// flows publishes to some partitions every ten seconds for a while.
func (g *group) flows(d time.Duration, names ...string) {
	for range d / (10 * time.Second) {
		for _, n := range names {
			g.src.Publish(n, []byte("x"))
		}
		pass(10 * time.Second)
	}
}

// TestB_Stuck_IsNamedInTime lets a handler hang, and a source fall silent, at 50 random
// moments each. Each is named with its partition, its kind and since when, within the
// stall time and one reading; and never for another partition. It ends with the next
// progress, in the store too.
func TestB_Stuck_IsNamedInTime(t *testing.T) {
	const limit, trials = time.Minute, 50
	for _, c := range []struct {
		name   string
		code   rota.Condition
		others []string // partitions that messages arrive in meanwhile
		latest time.Duration
	}{
		{"hung handler", rota.ConditionHandlerBusy, nil, limit + limit/8},
		{"silent source", rota.ConditionSourceSilent, []string{"q1", "q2", "q3"}, limit + limit/4},
		{"silent source among empty queues", rota.ConditionSourceSilent, nil, 2*limit + limit/4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(len(c.name))))
				g, l, said, end := lameGroup(t, nil)
				in := l.muted
				if c.code == rota.ConditionHandlerBusy {
					in = l.hung
				}
				worst := time.Duration(0)
				for trial := range trials {
					g.flows(3*limit, append(slices.Clone(c.others), "q0")...) // all is well
					pass(time.Duration(r.Int64N(int64(limit / 4))))           // at any time between two looks, and nothing is quiet yet
					g.src.Publish("q0", []byte("the last that is handled"))
					pass(time.Millisecond)
					over := l.begin(in, "q0")
					began := time.Now()
					g.src.Publish("q0", []byte("x"), []byte("x"))
					g.flows(4*limit, c.others...)
					got := said.newest()
					if len(got) != 1 || got[0].Condition != c.code || got[0].Partition != "q0" {
						t.Fatalf("trial %d: reported is %+v", trial, got)
					}
					took := got[0].Time.Sub(began)
					worst = max(worst, took)
					if took < limit-time.Second || took > c.latest {
						t.Errorf("trial %d: named after %v, want %v to %v", trial, took, limit, c.latest)
					}
					since := func(at time.Time) string { return "since " + at.UTC().Format("Jan 2 15:04:05") }
					shown := conditionsOf(t, g, "q0")
					if len(shown) != 1 || shown[0].Code != c.code || !strings.Contains(shown[0].Text, since(began)) && !strings.Contains(shown[0].Text, since(began.Add(-time.Millisecond))) {
						t.Errorf("trial %d: it began at %v, and the store shows %v", trial, began.UTC(), shown)
					}
					over()
					pass(3 * time.Second) // a heartbeat
					if shown := conditionsOf(t, g, "q0"); len(shown) != 0 {
						t.Errorf("trial %d: it is over, and the store shows %v", trial, shown)
					}
				}
				t.Logf("named after %v at most", worst)
				end()
			})
		})
	}
}

// In an hour with handlers that are slow, empty queues and queues whose messages are rare
// or come just when they are counted, nothing is said to stand still.
func TestB_Stuck_NoFalseAlarms(t *testing.T) {
	for name, tune := range map[string]func(*rota.Config){
		"one at a time": nil,
		"batches": func(c *rota.Config) {
			handle := c.Handle
			c.Handle, c.HandleBatch = nil, func(ctx context.Context, msgs []rota.Message) (int, error) { return 1, handle(ctx, msgs[0]) }
		},
		"parallel": func(c *rota.Config) { c.Parallel = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, l, said, end := lameGroup(t, func(c *rota.Config) {
					c.StopTime = 10 * time.Minute
					handle := c.Handle
					c.Handle = func(ctx context.Context, msg rota.Message) error {
						if msg.Partition == "q0" {
							time.Sleep(55 * time.Second)
						}
						return handle(ctx, msg)
					}
					if tune != nil {
						tune(c)
					}
				})
				l.mu.Lock()
				l.onRead = func(names []string) { // the worst moment for a message to arrive
					if slices.Contains(names, "q3") {
						g.src.Publish("q3", []byte("x"))
					}
				}
				l.mu.Unlock()
				for range 300 {
					g.src.Publish("q0", []byte("x"), []byte("x")) // more than can be handled
				}
				for range 40 {
					g.src.Publish("q1", []byte("x")) // q2 is empty
					pass(90 * time.Second)
				}
				if got := said.newest(); len(got) != 0 {
					t.Errorf("%d false alarms, such as %+v", len(got), got[0])
				}
				l.mu.Lock()
				for _, names := range l.reads {
					if slices.Contains(names, "q0") {
						t.Errorf("the meter was asked for %v: q0 is not quiet", names)
					}
				}
				if n := len(l.reads); n < 30 || n > 2*61 { // by each of two members
					t.Errorf("the meter was read %d times in an hour", n)
				}
				l.mu.Unlock()
				end()
			})
		})
	}
}

// A sink that refuses has a condition of its own: nothing is said twice.
func TestAFailingHandlerIsNotCalledStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, said, end := lameGroup(t, func(c *rota.Config) {
			c.Handle = func(_ context.Context, msg rota.Message) error {
				switch msg.Partition {
				case "q0":
					return errors.New("connection refused")
				case "q1":
					return rota.ErrUntried
				case "q2":
					return rota.ErrLost
				}
				return nil
			}
		})
		for i := range 4 {
			g.src.Publish(fmt.Sprintf("q%d", i), []byte("x"))
		}
		pass(20 * time.Minute)
		if got := said.newest(); len(got) != 0 {
			t.Errorf("reported is %+v", got)
		}
		for p, code := range map[string]rota.Condition{"q0": rota.ConditionHandlerFails, "q1": rota.ConditionUntried, "q2": rota.ConditionTokenRefused} {
			if shown := conditionsOf(t, g, p); len(shown) != 1 || shown[0].Code != code {
				t.Errorf("%s: the store shows %v, want %s", p, shown, code)
			}
		}
		end()
	})
}

// silentMeter hides that a source measures.
type silentMeter struct{ rota.Source }

// A meter that hangs delays nothing, and without a meter nothing is claimed about the
// source. A hung handler is named in time all the same.
func TestStallsAreFoundWithoutAMeter(t *testing.T) {
	for _, name := range []string{"none", "hangs"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, l, said, end := lameGroup(t, func(c *rota.Config) {
					if name == "none" {
						c.Source = silentMeter{c.Source}
					}
				})
				l.mu.Lock()
				if name == "hangs" {
					l.onRead = func([]string) { time.Sleep(10 * time.Minute) } // whatever its ctx says
				}
				l.mu.Unlock()
				overMuted, overHung := l.begin(l.muted, "q0"), l.begin(l.hung, "q1")
				g.src.Publish("q0", []byte("x"))
				g.src.Publish("q1", []byte("x"))
				pass(68 * time.Second)
				got := said.newest()
				if len(got) == 0 || got[0].Condition != rota.ConditionHandlerBusy || got[0].Partition != "q1" {
					t.Errorf("reported is %+v", got)
				}
				pass(10 * time.Minute)
				if more := said.newest(); name == "none" && len(more) != 0 {
					t.Errorf("without a meter it is said that %+v", more)
				}
				overMuted()
				overHung()
				end()
				pass(20 * time.Minute) // a reading that hangs returns
			})
		})
	}
}

// TestProgressOfAFunction judges functions by what they report: one that reports nothing
// at all is not judged, one that has nothing to do may say so, and one that falls silent
// is named until it reports again.
func TestProgressOfAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, said := newGroup(t, 0), &reports{}
		again := make(chan struct{})
		src := rota.Func([]string{"silent", "idle", "hangs"}, func(ctx context.Context, own rota.Ownership) error {
			var tick <-chan time.Time
			var reports <-chan struct{}
			switch own.Partition() {
			case "idle":
				own.Progress(1)
				tick = time.Tick(50 * time.Second)
			case "hangs":
				own.Progress(1)
				reports = again
			}
			for {
				select {
				case <-tick:
					own.Progress(0)
				case <-reports:
					own.Progress(1)
					reports = nil
				case <-own.Stop():
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		_, leave := g.start("c1", func(c *rota.Config) { c.Source, c.Handle, c.Trace = src, nil, said.trace })
		pass(10 * time.Minute)
		got := said.newest()
		if len(got) != 1 || got[0].Condition != rota.ConditionNoProgress || got[0].Partition != "hangs" {
			t.Errorf("reported is %+v", got)
		}
		if shown := conditionsOf(t, g, "hangs"); len(shown) != 1 {
			t.Errorf("the store shows %v", shown)
		}
		g.give("set", "hangs", "x=1") // which is no progress
		pass(time.Minute)
		if got := said.newest(); len(got) != 0 {
			t.Errorf("reported again: %+v", got)
		}
		close(again)
		pass(5 * time.Second)
		if shown := conditionsOf(t, g, "hangs"); len(shown) != 0 {
			t.Errorf("it has reported progress, and the store shows %v", shown)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
	})
}

// Config.StallTime is obeyed, and AtOnce turns the search for stalls off.
func TestStallTimeIsASetting(t *testing.T) {
	for limit, want := range map[time.Duration]bool{10 * time.Second: true, rota.AtOnce: false, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			g, l, said, end := lameGroup(t, func(c *rota.Config) { c.StallTime = limit })
			over := l.begin(l.hung, "q2")
			g.src.Publish("q2", []byte("x"))
			pass(5 * time.Minute)
			if got := said.newest(); len(got) == 1 != want {
				t.Errorf("%v: reported is %+v", limit, got)
			}
			if st, err := rota.Inspect(t.Context(), g.store, "test"); err != nil || len(st.Problems) == 1 != want {
				t.Errorf("%v: the problems are %v, %v", limit, st.Problems, err)
			}
			over()
			end()
		})
	}
}

// A partition that is handed over takes its condition with it: none stays behind.
func TestNoStallStaysBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l, _, end := lameGroup(t, nil)
		over := l.begin(l.muted, "q0")
		g.src.Publish("q0", []byte("x"))
		pass(3 * time.Minute)
		if shown := conditionsOf(t, g, "q0"); len(shown) != 1 {
			t.Errorf("the store shows %v", shown)
		}
		g.give("pause", "q0")
		pass(10 * time.Second)
		if shown := conditionsOf(t, g, "q0"); len(shown) != 0 {
			t.Errorf("it is paused, and the store shows %v", shown)
		}
		g.give("resume", "q0")
		pass(3 * time.Minute)
		if shown := conditionsOf(t, g, "q0"); len(shown) != 1 {
			t.Errorf("it runs again, still silent, and the store shows %v", shown)
		}
		over()
		pass(3 * time.Second)
		if left := g.src.Backlog("q0"); left != 0 || len(conditionsOf(t, g, "q0")) != 0 {
			t.Errorf("%d messages are left, and the store shows %v", left, conditionsOf(t, g, "q0"))
		}
		end()
	})
}
