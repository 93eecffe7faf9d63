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
)

// A sink is where handlers write to. It may be away, and checks that the messages of a
// partition arrive in order and once.
type sink struct {
	t     *testing.T
	mu    sync.Mutex
	away  map[string]bool // partitions whose writes fail
	last  map[string]uint64
	calls map[string]int
}

func newSink(t *testing.T) *sink {
	return &sink{t: t, away: map[string]bool{}, last: map[string]uint64{}, calls: map[string]int{}}
}

func (s *sink) set(partition string, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[partition] = away
}

func (s *sink) handled(partition string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[partition]
}

func (s *sink) handle(_ context.Context, msg rota.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[msg.Partition]++
	if s.away[msg.Partition] {
		return errors.New("connection refused")
	}
	if msg.Position != s.last[msg.Partition]+1 {
		s.t.Errorf("%s: message %d after %d", msg.Partition, msg.Position, s.last[msg.Partition])
	}
	s.last[msg.Partition] = msg.Position
	return nil
}

// conditionsOf are the conditions of a group's members about one partition, as the store
// shows them.
func conditionsOf(t *testing.T, g *group, partition string) (out []rota.ConditionInfo) {
	t.Helper()
	st, err := rota.Inspect(t.Context(), g.store, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range st.Members {
		for _, c := range m.Conditions {
			if c.Partition == partition {
				out = append(out, c)
			}
		}
	}
	return out
}

// TestAnOutageOfTheSinkCostsNothing takes the sink of one partition away for five
// minutes. Nothing is dead-lettered, the order is kept, the backlog is worked off, and
// the other partition does not notice. Operators see it for as long as it lasts.
func TestAnOutageOfTheSinkCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sink := newGroup(t, 2), newSink(t)
		var told atomic.Int32
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = sink.handle
			c.Trace = func(e rota.Event) {
				if e.Kind == rota.EventError {
					told.Add(1)
				}
			}
		})
		arrived := uint64(0)
		flow := func(d time.Duration) { // checks every window of 10 s
			for range d / (10 * time.Second) {
				was := sink.handled("q1")
				for range 1000 {
					g.src.Publish("q0", []byte("x"))
					g.src.Publish("q1", []byte("x"))
					pass(10 * time.Millisecond)
				}
				arrived += 1000
				if n := sink.handled("q1") - was; n < 980 {
					t.Errorf("the other partition handled %d of 1000", n)
				}
			}
		}
		flow(20 * time.Second)
		sink.set("q0", true)
		flow(5 * time.Minute)
		if n := sink.handled("q0"); n != 2000 {
			t.Errorf("%d messages of q0 were handled, want 2000", n)
		}
		is := conditionsOf(t, g, "q0")
		if len(is) != 1 || is[0].Code != rota.ConditionHandlerFails || !strings.Contains(is[0].Text, "attempts: connection refused") || !strings.Contains(is[0].Text, "since Jan 1 00:00:2") {
			t.Errorf("after five minutes the store shows %q", is)
		}
		if n := told.Load(); n < 3 || n > 10 {
			t.Errorf("the outage was told %d times", n)
		}
		sink.set("q0", false)
		flow(20 * time.Second)
		for p, left := range map[string]int{"q0": g.src.Backlog("q0"), "q1": g.src.Backlog("q1")} {
			if n := sink.handled(p); n != arrived || left != 0 {
				t.Errorf("%s: %d handled and %d left of %d", p, n, left, arrived)
			}
		}
		if is := conditionsOf(t, g, "q0"); len(is) != 0 {
			t.Errorf("it is over, and the store shows %q", is)
		}
		if d := g.src.Dead(); len(d) != 0 {
			t.Errorf("%d messages were dead-lettered", len(d))
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// TestManyFailingPartitionsAreCounted: a record has room for some of them only.
func TestManyFailingPartitionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sink := newGroup(t, 40), newSink(t)
		for i := range 40 {
			p := fmt.Sprintf("q%d", i)
			sink.set(p, true)
			g.src.Publish(p, []byte("x"))
		}
		_, leave := g.start("c1", func(c *rota.Config) { c.Handle = sink.handle })
		pass(time.Minute)
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		named, more := 0, ""
		for _, c := range st.Members[0].Conditions {
			if c.Partition != "" {
				named++
			} else {
				more = c.Text
			}
		}
		if named != 12 || more != "28 more partitions have a condition" {
			t.Errorf("%d are named, and %q", named, more)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// TestABadMessageIsDeadAtOnce: its handler says so, and attempts are not limited.
func TestABadMessageIsDeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish("q0", []byte("a"), []byte("bad"), []byte("b"))
		var seen []string
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(_ context.Context, msg rota.Message) error {
				seen = append(seen, string(msg.Value))
				if string(msg.Value) == "bad" {
					return fmt.Errorf("%w: no JSON", rota.ErrBad)
				}
				return nil
			}
		})
		pass(time.Second)
		if got := strings.Join(seen, " "); got != "a bad b" {
			t.Errorf("handled %s", got)
		}
		if d := g.src.Dead(); len(d) != 1 || string(d[0].Value) != "bad" {
			t.Errorf("dead letters: %v", d)
		}
		pass(5 * time.Second) // a heartbeat tells it
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil || st.Members[0].DeadLetters != 1 || len(conditionsOf(t, g, "")) != 1 || conditionsOf(t, g, "")[0].Code != rota.ConditionDeadLetters {
			t.Errorf("the store shows %+v, %v", st.Members, err)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// TestARefusedTokenEndsTheRun has a sink that refuses the token for a minute. That is no
// attempt, nothing is settled, the member asks again with a growing pause, and says so.
func TestARefusedTokenEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish("q0", []byte("a"), []byte("b"))
		began := time.Now()
		var calls, told, counted atomic.Int32
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Attempts = 1
			c.Handle = func(_ context.Context, msg rota.Message) error {
				calls.Add(1)
				if msg.Attempt > 1 {
					counted.Add(1)
				}
				if time.Since(began) < time.Minute {
					return fmt.Errorf("%w: it has seen token 9", rota.ErrLost)
				}
				return nil
			}
			c.Trace = func(e rota.Event) {
				if e.Kind == rota.EventCondition && e.Condition == rota.ConditionTokenRefused {
					told.Add(1)
				}
			}
		})
		pass(50 * time.Second)
		if is := conditionsOf(t, g, "q0"); len(is) != 1 || is[0].Code != rota.ConditionTokenRefused || !strings.Contains(is[0].Text, "it has seen token 9") {
			t.Errorf("the store shows %q", is)
		}
		if n := g.src.Backlog("q0"); n != 2 {
			t.Errorf("%d messages are left, want both", n)
		}
		if calls, told := calls.Load(), told.Load(); calls < 5 || calls > 15 || told < 2 || told > 5 {
			t.Errorf("called %d times and told %d times in 50 s", calls, told)
		}
		pass(30 * time.Second)
		if n := g.src.Backlog("q0"); n != 0 || len(g.src.Dead()) != 0 {
			t.Errorf("%d messages are left and %d dead after the sink takes the token again", n, len(g.src.Dead()))
		}
		if n := counted.Load(); n > 0 {
			t.Errorf("%d refusals were counted as attempts", n)
		}
		if is := conditionsOf(t, g, "q0"); len(is) != 0 {
			t.Errorf("it is over, and the store shows %q", is)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// TestHandleTimeEndsACall: the call counts as failed, and nothing runs beside one that
// overstays.
func TestHandleTimeEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish("q0", []byte("a"))
		running, calls := 0, 0
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Attempts, c.HandleTime = 2, time.Second
			c.Handle = func(ctx context.Context, _ rota.Message) error {
				if running++; running > 1 {
					t.Error("two calls at once")
				}
				defer func() { running-- }()
				calls++
				<-ctx.Done()
				time.Sleep(3 * time.Second) // it takes its time to notice
				return ctx.Err()
			}
		})
		pass(20 * time.Second)
		var reasons []string
		for l := range g.src.Letters(t.Context(), "") {
			reasons = append(reasons, l.Reason)
		}
		if calls != 2 || len(reasons) != 1 || !strings.Contains(reasons[0], "took longer than 1s") {
			t.Errorf("%d calls, dead letters because of %q", calls, reasons)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}
