package rota_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// Tests make trouble on purpose, and most of them do not read the log.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// failing is a store whose calls fail with an error while there is one.
type failing struct {
	rota.Store
	err    atomic.Pointer[error]
	closed atomic.Bool
	check  error
	reads  atomic.Int32 // that failed, of plan and roster, and watches
}

func (f *failing) Check() error { return f.check }

func (f *failing) fail(err error) {
	if err == nil {
		f.err.Store(nil)
	} else {
		f.err.Store(&err)
	}
}

func (f *failing) now() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

func (f *failing) Get(ctx context.Context, key string) (rota.Entry, error) {
	if err := f.now(); err != nil {
		if !strings.Contains(key, "/member/") {
			f.reads.Add(1)
		}
		return rota.Entry{}, err
	}
	return f.Store.Get(ctx, key)
}

func (f *failing) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if err := f.now(); err != nil {
		return 0, err
	}
	return f.Store.Put(ctx, key, value, prev)
}

func (f *failing) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	if err := f.now(); err != nil {
		f.reads.Add(1)
		return func(yield func([]rota.Entry, error) bool) { yield(nil, err) }
	}
	return f.Store.Watch(ctx, prefix)
}

func (f *failing) Close() error {
	f.closed.Store(true)
	return f.Store.Close()
}

// troubled is a source whose calls fail with an error while there is one.
type troubled struct {
	*rotatest.MemSource
	err atomic.Pointer[error]
}

func (s *troubled) now() error {
	if e := s.err.Load(); e != nil {
		return *e
	}
	return nil
}

func (s *troubled) Partitions(ctx context.Context) ([]rota.Partition, error) {
	if err := s.now(); err != nil {
		return nil, err
	}
	return s.MemSource.Partitions(ctx)
}

func (s *troubled) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	if err := s.now(); err != nil {
		return err
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch.Go(func() { // a broker that fails ends its subscriptions
		for ctx.Err() == nil && s.now() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
	})
	if err := s.MemSource.Consume(ctx, own, deliver); s.now() == nil {
		return err
	}
	return s.now()
}

var (
	errGone      = errors.New("connection refused")
	errNoStream  = fmt.Errorf("no stream ORDERS: %w", rota.ErrPermanent)
	errForbidden = fmt.Errorf("user me is refused: %w", rota.ErrPermanent)
)

func TestNewAsksStoreAndSource(t *testing.T) {
	store := &failing{Store: rotatest.NewMemStore(), check: errors.New("no such parameter: durable")}
	_, err := rota.New(rota.Config{Group: "g", Store: store, Source: rotatest.NewMemSource(1, "q"), Handle: func(context.Context, rota.Message) error { return nil }})
	if want := "rota: Config.Store: no such parameter: durable"; err == nil || err.Error() != want {
		t.Errorf("New returned %v, want %s", err, want)
	}
}

func TestPermanentErrorEndsRunAtOnce(t *testing.T) {
	for _, rejoin := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 2)
			store := &failing{Store: g.store}
			store.fail(errForbidden)
			_, leave := g.start("c1", func(c *rota.Config) { c.Store, c.Rejoin = store, rejoin })
			time.Sleep(time.Second)
			if err := leave(); !errors.Is(err, rota.ErrPermanent) || !strings.Contains(err.Error(), "user me is refused") {
				t.Errorf("after a second Run returned %v, want the store's error", err)
			}
			g.wg.Wait()
		})
	}
}

// A store that has answered may be mended: what it says after that is an outage.
func TestPermanentErrorOfAKnownStoreIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		store := &failing{Store: g.store}
		m, leave := g.start("c1", func(c *rota.Config) { c.Store = store })
		time.Sleep(time.Second)
		store.fail(errForbidden)
		time.Sleep(20 * time.Second)
		store.fail(nil)
		time.Sleep(10 * time.Second)
		if got := counts(m.Status()); got != "map[c1:2]" {
			t.Errorf("after the outage: %s", got)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
	})
}

func TestOrphanedSaysWhy(t *testing.T) {
	for _, joined := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 2)
			store := &failing{Store: g.store}
			if !joined {
				store.fail(errGone)
			}
			m, leave := g.start("c1", func(c *rota.Config) { c.Store = store })
			var because string
			go func() {
				for e := range m.Events(t.Context()) {
					if e.Kind == rota.EventOrphaned {
						because = e.Because
					}
				}
			}()
			time.Sleep(time.Second)
			store.fail(errGone)
			time.Sleep(time.Minute)
			err := leave()
			if !errors.Is(err, rota.ErrOrphaned) || !errors.Is(err, errGone) {
				t.Errorf("Run returned %v, want ErrOrphaned with the store's error", err)
			}
			synctest.Wait()
			if err == nil || because != err.Error() {
				t.Errorf("the event says %q, and Run %v", because, err)
			}
		})
	}
}

// A source that will never work ends a member that never had an answer from it, also one
// that does not lead and finds out when it is to consume. The others go on.
func TestPermanentSourceErrorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		bad := &troubled{MemSource: g.src}
		bad.err.Store(&errNoStream)
		_, leave := g.start("lone", func(c *rota.Config) { c.Source = bad })
		time.Sleep(time.Second)
		if err := leave(); !errors.Is(err, rota.ErrPermanent) || !strings.Contains(err.Error(), "no stream ORDERS") {
			t.Errorf("after a second the leader's Run returned %v, want the source's error", err)
		}
		m, leaveGood := g.start("good", nil)
		time.Sleep(10 * time.Second)
		_, leave = g.start("bad", func(c *rota.Config) { c.Source = bad })
		time.Sleep(10 * time.Second)
		if got := counts(m.Status()); !strings.Contains(got, "good:2") {
			t.Errorf("after the member with the wrong source: %s", got)
		}
		for _, x := range m.Status().Members {
			if x.Name != "good" && x.State != rota.MemberLeft {
				t.Errorf("%s is %s, want LEFT", x.Name, x.State)
			}
		}
		if err := leave(); !errors.Is(err, errNoStream) {
			t.Errorf("Run returned %v, want the source's error", err)
		}
		leaveGood()
		g.wg.Wait()
	})
}

// A stream that is removed while members consume it ends none of them, not the next leader either.
func TestRemovedStreamEndsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		src := &troubled{MemSource: g.src}
		own := func(c *rota.Config) { c.Source = src }
		_, leave1 := g.start("c1", own)
		time.Sleep(time.Second)
		m2, leave2 := g.start("c2", own)
		time.Sleep(time.Second)
		src.err.Store(&errNoStream)
		time.Sleep(10 * time.Second)
		if err := leave1(); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute)
		src.err.Store(nil)
		time.Sleep(time.Minute)
		if st := m2.Status(); !strings.Contains(counts(st), "c2:4") || len(st.Waits) > 0 {
			t.Errorf("after the stream is back: %s, %v", counts(st), st.Waits)
		}
		if err := leave2(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
	})
}

// logBook collects what the default logger gets.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) lines() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func (l *logBook) with(text string) (n int) {
	for _, line := range l.lines() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// logsByDefault makes everything down to debug visible to a default logger.
func logsByDefault(t *testing.T) *logBook {
	l, was := &logBook{}, slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(was) })
	return l
}

// The log of a member that was given none has warnings only: an outage at once, then
// with growing pauses, then its end.
func TestOutageIsLoggedWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logsByDefault(t)
		g := newGroup(t, 2)
		store, src := &failing{Store: g.store}, &troubled{MemSource: g.src}
		_, leave := g.start("c1", func(c *rota.Config) { c.Store, c.Source, c.Orphan = store, src, time.Hour })
		time.Sleep(time.Minute)
		if lines := log.lines(); len(lines) != 0 {
			t.Errorf("all is well, and the log has %q", lines)
		}
		store.fail(errGone)
		time.Sleep(3 * time.Second)
		if n := log.with("store_lost"); n != 1 || log.with("connection refused") != n {
			t.Errorf("%d lines at the beginning of an outage: %q", n, log.lines())
		}
		time.Sleep(15 * time.Minute)
		if n := log.with("store_lost"); n < 5 || n > 9 {
			t.Errorf("%d lines of an outage of 15 minutes: %q", n, log.lines())
		}
		store.fail(nil)
		time.Sleep(10 * time.Second)
		if n := log.with("store_back"); n != 1 {
			t.Errorf("%d lines of its end: %q", n, log.lines())
		}
		src.err.Store(&errGone)
		time.Sleep(10 * time.Minute)
		if n := log.with("partitions-unknown"); n < 3 || n > 8 {
			t.Errorf("%d lines of a source that cannot list: %q", n, log.lines())
		}
		src.err.Store(nil)
		time.Sleep(time.Minute)
		if n := log.with("the source lists its partitions again"); n != 1 {
			t.Errorf("%d lines of the end of that: %q", n, log.lines())
		}
		empty := regexp.MustCompile(`=(""|0)?( |$)`)
		for _, line := range log.lines() {
			if !strings.Contains(line, "level=WARN") || empty.MatchString(line) {
				t.Errorf("the log has %s", line)
			}
		}
		leave()
		g.wg.Wait()
	})
}

type valueKey struct{}

// valued asks every call for the value of Run's ctx.
type valued struct {
	failing
	*rotatest.MemSource
	t    *testing.T
	mu   sync.Mutex
	seen map[string]bool
}

func (v *valued) look(ctx context.Context, where string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen[where] = true
	if ctx.Value(valueKey{}) != "trace 7" {
		v.t.Errorf("%s does not see the value of Run's ctx", where)
	}
}

func (v *valued) Get(ctx context.Context, key string) (rota.Entry, error) {
	v.look(ctx, "Get")
	return v.failing.Get(ctx, key)
}

func (v *valued) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	v.look(ctx, "Put")
	return v.failing.Put(ctx, key, value, prev)
}

func (v *valued) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	v.look(ctx, "Watch")
	return v.failing.Watch(ctx, prefix)
}

func (v *valued) Partitions(ctx context.Context) ([]rota.Partition, error) {
	v.look(ctx, "Partitions")
	return v.MemSource.Partitions(ctx)
}

func (v *valued) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	v.look(ctx, "Consume")
	return v.MemSource.Consume(ctx, own, deliver)
}

// Run closes nothing that it was given, and the values of its ctx are seen everywhere.
func TestRunLeavesOpenAndPassesValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &valued{failing: failing{Store: rotatest.NewMemStore()}, MemSource: rotatest.NewMemSource(1, "q"), t: t, seen: map[string]bool{}}
		v.Publish("q", []byte("m"))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "trace 7"))
		m, err := rota.New(rota.Config{Group: "g", Store: v, Source: v, NewGroup: true, Handle: func(ctx context.Context, _ rota.Message) error {
			v.look(ctx, "Handle")
			cancel()
			synctest.Wait() // Run has been asked to end, and the handler may still finish
			if ctx.Err() != nil {
				t.Error("the handler's ctx ended with Run's")
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
		for _, where := range []string{"Get", "Put", "Watch", "Partitions", "Consume", "Handle"} {
			if !v.seen[where] {
				t.Errorf("%s was not called", where)
			}
		}
		if v.closed.Load() {
			t.Error("Run closed what the caller opened")
		}
	})
}

// TestReadsAreSpacedInAnOutage: a store that is too slow for its members recovers only if
// they ask for less. A member goes on as soon as any call is answered.
func TestReadsAreSpacedInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		_, leave := g.start("c1", nil)
		pass(time.Second)
		f := &failing{Store: g.store}
		var back []time.Time
		f.fail(errors.New("busy"))
		_, leave2 := g.start("c2", func(c *rota.Config) {
			c.Store, c.Orphan = f, 10*time.Minute
			c.Trace = func(e rota.Event) {
				if e.Kind == rota.EventStart {
					back = append(back, e.Time)
				}
			}
		})
		pass(time.Minute)
		// A plan, a roster and two watches, each every second or so.
		if n := f.reads.Load(); n == 0 || n > 400 {
			t.Errorf("%d reads and watches in a minute", n)
		}
		f.fail(nil)
		healed := time.Now()
		pass(5 * time.Second)
		if len(back) != 1 || back[0].Sub(healed) > 2*time.Second {
			t.Errorf("started %v, healed %v", back, healed)
		}
		for _, leave := range []func() error{leave, leave2} {
			if err := leave(); err != nil {
				t.Error(err)
			}
		}
	})
}
