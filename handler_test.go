package rota_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// What users' code may do to a member: hang, fail, panic, eat memory.

// hang is a handler that ignores its ctx until end is closed. It fails the test
// when somebody else handles the partition meanwhile.
func (g *group) hang(name string, end <-chan struct{}) func(context.Context, rota.Message) error {
	return func(_ context.Context, msg rota.Message) error {
		g.mu.Lock()
		if o := g.owner[msg.Partition]; o != "" {
			g.t.Errorf("%s and %s handle %s at once", o, name, msg.Partition)
		}
		g.owner[msg.Partition] = name
		g.mu.Unlock()
		<-end
		g.mu.Lock()
		defer g.mu.Unlock()
		g.owner[msg.Partition] = ""
		return nil
	}
}

// crash is an Abort that stands for the end of the process: it ends the handlers that
// hang. It may be called several times at one instant only: a real one would not
// return.
type crash struct {
	t   *testing.T
	end chan struct{}
	mu  sync.Mutex
	at  time.Time
	err error
}

func newCrash(t *testing.T) *crash { return &crash{t: t, end: make(chan struct{})} }

func (c *crash) abort(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		if !c.at.Equal(time.Now()) {
			c.t.Errorf("aborted twice: %v, %v", c.err, err)
		}
		return
	}
	c.at, c.err = time.Now(), err
	close(c.end)
}

// why it aborted; nil if it has not.
func (c *crash) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *crash) check(at time.Time, says string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.t.Fatal("nobody aborted")
	}
	if !c.at.Equal(at) || !strings.Contains(c.err.Error(), says) {
		c.t.Errorf("aborted at %v because %q, want %v and %q", c.at, c.err, at, says)
	}
}

// first is when an event of this kind first happened to m. The reader runs
// until m ends.
func first(m *rota.Member, match func(rota.Event) bool) func() time.Time {
	events := m.Events(context.Background())
	var at atomic.Pointer[time.Time]
	go func() {
		for e := range events {
			if at.Load() == nil && match(e) {
				at.Store(&e.Time)
			}
		}
	}()
	return func() time.Time {
		synctest.Wait()
		if t := at.Load(); t != nil {
			return *t
		}
		return time.Time{}
	}
}

func kind(k rota.EventKind) func(rota.Event) bool {
	return func(e rota.Event) bool { return e.Kind == k }
}

func TestHungHandlerOfARevokedPartitionCostsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		g.src.Publish("q0", []byte("x"))
		g.src.Publish("q1", []byte("x"))
		boom := newCrash(t)
		m1, leave1 := g.start("c1", func(c *rota.Config) { c.Handle, c.Abort = g.hang("c1", boom.end), boom.abort })
		revoked := first(m1, kind(rota.EventStop))
		pass(time.Second)
		m2, leave2 := g.start("c2", nil)
		started := first(m2, kind(rota.EventStart))
		pass(20 * time.Second)
		if err := boom.why(); err != nil {
			t.Errorf("aborted within the stop time: %v", err)
		}
		pass(20 * time.Second)
		boom.check(revoked().Add(30*time.Second), "handler for q")
		if at := started(); at.IsZero() || at.Before(boom.at) {
			t.Errorf("c2 started at %v, c1 ended at %v", at, boom.at)
		}
		leave1()
		leave2()
		g.wg.Wait()
	})
}

// A handler that heeds its ctx gets the stop time without the last half second, and
// nothing is aborted: the next owner gets the message.
func TestDrainEndsTheHandlersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish("q0", []byte("x"))
		var ended time.Time
		m1, leave1 := g.start("c1", func(c *rota.Config) {
			c.Handle = func(ctx context.Context, msg rota.Message) error {
				<-ctx.Done()
				ended = time.Now()
				return ctx.Err()
			}
		})
		revoked := first(m1, kind(rota.EventStop))
		pass(time.Second)
		_, leave2 := g.start("c2", nil)
		pass(time.Second)
		if err := leave1(); err != nil {
			t.Error(err)
		}
		if want := revoked().Add(29500 * time.Millisecond); !ended.Equal(want) {
			t.Errorf("ctx ended at %v, want %v", ended, want)
		}
		pass(time.Second)
		if n := g.src.Backlog("q0"); n != 0 || g.count["q0"] != 1 {
			t.Errorf("the next owner handled %d, %d are left", g.count["q0"], n)
		}
		leave2()
		g.wg.Wait()
	})
}

func TestHungHandlerAtTheLeaseEndCostsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		g.src.Publish("q0", []byte("x"))
		g.src.Publish("q1", []byte("x"))
		boom, net := newCrash(t), newWire(g.store)
		m1, leave1 := g.start("c1", func(c *rota.Config) {
			c.Store, c.Handle, c.Abort = net, g.hang("c1", boom.end), boom.abort
		})
		pass(5 * time.Second)
		m2, leave2 := g.start("c2", func(c *rota.Config) { c.StopTime = time.Minute })
		started := first(m2, kind(rota.EventStart))
		pass(100 * time.Millisecond)
		net.cut()
		leaseEnd := time.Now().Add(m1.LeaseRemaining())
		pass(10 * time.Second)
		boom.check(leaseEnd, "handler for q")
		if at := started(); at.IsZero() || !at.After(leaseEnd) {
			t.Errorf("c2 started at %v, c1's lease ended at %v", at, leaseEnd)
		}
		leave1()
		leave2()
		g.wg.Wait()
	})
}

// Abort names the source that does not stop, and not a busy handler of another
// partition.
func TestAbortNamesWhatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		boom := newCrash(t)
		busy := func(ctx context.Context, msg rota.Message) error {
			select {
			case <-boom.end:
			case <-ctx.Done():
			}
			return nil
		}
		stubborn := &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
			own.Started()
			if own.Partition() == "q1" { // the one that moves
				<-boom.end
				return nil
			}
			deliver(ctx, rota.Message{})
			<-own.Stop()
			return nil
		}}
		m1, leave1 := g.start("c1", func(c *rota.Config) { c.Handle, c.Source, c.Abort = busy, stubborn, boom.abort })
		revoked := first(m1, kind(rota.EventStop))
		moved := ""
		first(m1, func(e rota.Event) bool {
			if e.Kind == rota.EventStop && moved == "" {
				moved = e.Partition
			}
			return false
		})
		pass(time.Second)
		_, leave2 := g.start("c2", nil)
		pass(time.Minute)
		boom.check(revoked().Add(30*time.Second+500*time.Millisecond), "source of q1")
		if moved != "q1" {
			t.Fatalf("%s moved, this test is about q1", moved)
		}
		leave1()
		leave2()
		g.wg.Wait()
	})
}

// pass lets time pass, and everything come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// try is one call of a handler.
type try struct {
	at      time.Time
	id      string
	attempt int
}

func TestFailingMessagesAreTriedAgainThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish("q0", []byte("good"), []byte("bad"), []byte("good"))
		var tries []try
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Attempts = 10
			c.Handle = func(ctx context.Context, msg rota.Message) error {
				tries = append(tries, try{time.Now(), msg.ID, msg.Attempt})
				if msg.Partition != "q0" || msg.Token == 0 || len(msg.Session) != 16 {
					t.Errorf("a message of %q, token %d, session %q", msg.Partition, msg.Token, msg.Session)
				}
				if string(msg.Value) == "bad" {
					return errors.New("no good")
				}
				return nil
			}
		})
		pass(2 * time.Minute)
		if len(tries) != 12 || tries[0].id != "q0-1" || tries[11].id != "q0-3" || tries[11].attempt != 1 {
			t.Fatalf("tried %v", tries)
		}
		wait := 100 * time.Millisecond
		for i := 1; i <= 10; i++ {
			if tries[i].id != "q0-2" || tries[i].attempt != i {
				t.Errorf("try %d was of %s, attempt %d", i, tries[i].id, tries[i].attempt)
			}
			if i > 1 {
				if got := tries[i].at.Sub(tries[i-1].at); got != wait {
					t.Errorf("%v between attempts %d and %d, want %v", got, i-1, i, wait)
				}
				wait = min(2*wait, 10*time.Second)
			}
		}
		if d := g.src.Dead(); len(d) != 1 || d[0].ID != "q0-2" {
			t.Errorf("dead letters: %v", d)
		}
		if n := g.src.Backlog("q0"); n != 0 {
			t.Errorf("%d messages are left", n)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// A message that failed and waits for its next try does not hold up a stop.
func TestStopEndsTheWaitForAnotherTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish("q0", []byte("bad"))
		tries := 0
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Attempts = 100
			c.Handle = func(context.Context, rota.Message) error { tries++; return errors.New("no good") }
		})
		pass(30 * time.Second) // by now it waits 10 s
		was, began := tries, time.Now()
		if err := leave(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("leaving took %v", took)
		}
		if tries != was || g.src.Backlog("q0") != 1 || len(g.src.Dead()) != 0 {
			t.Errorf("%d more tries, backlog %d, dead %d: the message should have been given back", tries-was, g.src.Backlog("q0"), len(g.src.Dead()))
		}
	})
}

// A panic in users' code is not recovered: the crash is the signal. Each child
// process panics somewhere else.
func TestPanicIsACrash(t *testing.T) {
	if where := os.Getenv("ROTA_TEST_PANIC"); where != "" {
		panicIn(t, where)
		return
	}
	t.Parallel()
	for _, where := range []string{"Handle", "HandleBatch", "Parallel", "Func", "Partitions"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPanicIsACrash$")
		cmd.Env = append(os.Environ(), "ROTA_TEST_PANIC="+where, "GORACE=atexit_sleep_ms=0")
		began := time.Now()
		out, err := cmd.CombinedOutput()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: the process died %v after the panic", where, took)
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%s: %v", where, err)
		}
		if !strings.Contains(string(out), "panic: boom") || !strings.Contains(string(out), "goroutine ") {
			t.Errorf("%s: the process did not die of the panic:\n%s", where, out)
		}
	}
}

func panicIn(t *testing.T, where string) {
	boom := func() { panic("boom") }
	src := rotatest.NewMemSource(0, "q0")
	src.Publish("q0", []byte("x"))
	cfg := rota.Config{Group: "test", Store: rotatest.NewMemStore(), Source: src, NewGroup: true}
	handle := func(context.Context, rota.Message) error { boom(); return nil }
	switch where {
	case "Handle":
		cfg.Handle = handle
	case "HandleBatch":
		cfg.HandleBatch = func(context.Context, []rota.Message) (int, error) { boom(); return 0, nil }
	case "Parallel":
		cfg.Handle, cfg.Parallel = handle, 2
	case "Func":
		cfg.Source = rota.Func([]string{"q0"}, func(context.Context, rota.Ownership) error { boom(); return nil })
	case "Partitions":
		cfg.Handle = handle
		cfg.Source = &lists{Source: src, answers: []func() ([]rota.Partition, error){func() ([]rota.Partition, error) { boom(); return nil, nil }}}
	}
	m, err := rota.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	t.Fatalf("Run returned %v", m.Run(ctx))
}

// Messages of 10 MB, and as much again made of each: nothing of them is kept.
func TestBigMessagesAreNotKept(t *testing.T) {
	const size, n = 10 << 20, 10
	big := func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
		own.Started()
		for range n {
			if _, err := deliver(ctx, rota.Message{Value: make([]byte, size)}); err != nil {
				return err
			}
		}
		<-own.Stop()
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var most uint64
		var mu sync.Mutex
		handled := 0
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Source = &source{MemSource: g.src, consume: big}
			c.Handle = func(ctx context.Context, msg rota.Message) error {
				mu.Lock()
				defer mu.Unlock()
				made := make([]byte, size)
				if handled++; handled == 2*n {
					runtime.GC()
					var mem runtime.MemStats
					runtime.ReadMemStats(&mem)
					most = mem.HeapAlloc
				}
				runtime.KeepAlive(made)
				return nil
			}
		})
		pass(time.Second)
		if err := leave(); err != nil {
			t.Error(err)
		}
		if handled != 2*n || most == 0 {
			t.Fatalf("%d messages handled", handled)
		}
		if most > before.HeapAlloc+6*size {
			t.Errorf("%d MB more in use than before, after %d messages", (most-before.HeapAlloc)>>20, handled)
		}
	})
}

// source is a MemSource with another way to consume.
type source struct {
	*rotatest.MemSource
	consume func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error
}

func (s *source) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	return s.consume(ctx, own, deliver)
}

// A Consume that returns unasked is called again after 0.1, 0.2, 0.4 and 0.8 s;
// after the fifth failure the partition goes to another member.
func TestSourceThatReturnsUnaskedIsCalledAgainThenReleased(t *testing.T) {
	for _, err := range []error{errors.New("no such queue"), nil} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 1)
			var calls []time.Time
			m1, leave1 := g.start("c1", func(c *rota.Config) {
				c.Source = &source{MemSource: g.src, consume: func(_ context.Context, own rota.Ownership, _ rota.Deliver) error {
					calls = append(calls, time.Now())
					own.Started()
					return err
				}}
			})
			drained := first(m1, kind(rota.EventStopped))
			told := first(m1, func(e rota.Event) bool {
				return e.Condition == rota.ConditionSourceFailed && e.Partition == "q0"
			})
			m2, leave2 := g.start("c2", nil)
			started := first(m2, kind(rota.EventStart))
			pass(10 * time.Second)
			if len(calls) != 5 {
				t.Fatalf("called %d times", len(calls))
			}
			wait := 100 * time.Millisecond
			for i := 1; i < 5; i++ {
				if got := calls[i].Sub(calls[i-1]); got != wait {
					t.Errorf("%v between calls %d and %d, want %v", got, i, i+1, wait)
				}
				wait *= 2
			}
			if told().IsZero() != (err == nil) {
				t.Errorf("returned %v, condition told: %v", err, !told().IsZero())
			}
			if !drained().Equal(calls[4]) {
				t.Errorf("given up at %v, last called at %v", drained(), calls[4])
			}
			if at := started(); at.Before(calls[4]) || at.After(calls[4].Add(time.Second)) {
				t.Errorf("c2 started at %v, c1 gave up at %v", at, calls[4])
			}
			if got := counts(m2.Status()); got != "map[c1:0 c2:1]" {
				t.Errorf("after that: %s", got)
			}
			leave1()
			leave2()
			g.wg.Wait()
		})
	}
}

// A settled message between two failures resets their count. A source that delivers and
// cannot settle gets on with nothing: it is called with back-off, and given up.
func TestSourceThatGetsOnIsNotReleased(t *testing.T) {
	t.Run("it settles", func(t *testing.T) { getsOn(t, nil) })
	t.Run("it cannot settle", func(t *testing.T) { getsOn(t, errors.New("the broker refuses it")) })
}

func getsOn(t *testing.T, settled error) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		calls := 0
		m1, leave1 := g.start("c1", func(c *rota.Config) {
			c.Source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
				calls++
				own.Started()
				own.Settle(func() error { return nil }) // a note of its own, before there is a message
				deliver(ctx, rota.Message{})
				own.Settle(func() error { return settled })
				return errors.New("the connection broke")
			}}
		})
		drained := first(m1, kind(rota.EventStopped))
		pass(time.Minute)
		if settled == nil && (!drained().IsZero() || calls < 500) {
			t.Errorf("%d calls, given up at %v", calls, drained())
		}
		if settled != nil && (drained().IsZero() || calls > 100) {
			t.Errorf("%d calls though nothing was settled, given up at %v", calls, drained())
		}
		leave1()
		g.wg.Wait()
	})
}
