package rota_test

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// stage is one member whose end a test brings about.
type stage struct {
	t      *testing.T
	m      *rota.Member
	store  *rotatest.MemStore
	net    *wire
	cancel context.CancelFunc
	broken atomic.Bool // an assertion of ours
	full   atomic.Bool // the disk
}

// key is the store's key for the member's record.
func (s *stage) key() string { return "test/member/" + record.Session(s.m.SessionID()).String() }

// declare changes the member's record, as other members may.
func (s *stage) declare(state record.MemberState) {
	ctx := context.Background()
	for {
		e, err := s.store.Get(ctx, s.key())
		if err != nil {
			s.t.Error(err)
			return
		}
		r, err := record.DecodeMember(e.Value)
		if err != nil {
			s.t.Error(err)
			return
		}
		r.State = state
		b, _ := record.Encode(r)
		if _, err := s.store.Put(ctx, e.Key, b, e.Rev); err == nil {
			return
		}
	}
}

// disk is the member's store: it may be too full for plans.
type disk struct {
	*wire
	full *atomic.Bool
}

func (d disk) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if d.full.Load() && strings.HasSuffix(key, "/plan") {
		time.Sleep(10 * time.Millisecond)
		return 0, errors.New("disk full")
	}
	return d.wire.Put(ctx, key, value, prev)
}

// Watch takes a while to end: a session that does not wait for it leaks it.
func (d disk) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		defer time.Sleep(10 * time.Millisecond)
		d.wire.Watch(ctx, prefix)(yield)
	}
}

// However a session ends, all its goroutines have ended when Run returns.
func TestNothingIsLeftWhenRunReturns(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(*rota.Config)
		do   func(*stage) // one second after the start
		want error
	}{
		{"leave", nil, func(s *stage) { s.cancel() }, nil},
		{"leave without a store", nil, func(s *stage) { s.net.cut(); s.cancel() }, nil},
		{"declared dead", nil, func(s *stage) { s.declare(record.Dead) }, rota.ErrFenced},
		{"evicted", nil, func(s *stage) { s.declare(record.Evicted) }, rota.ErrFenced},
		{"record deleted", nil, func(s *stage) {
			e, _ := s.store.Get(context.Background(), s.key())
			if err := s.store.Delete(context.Background(), e.Key, e.Rev); err != nil {
				s.t.Error(err)
			}
		}, rota.ErrFenced},
		{"cut off", nil, func(s *stage) { s.net.cut() }, rota.ErrOrphaned},
		{"cut off, orphan at once", func(c *rota.Config) { c.Orphan = rota.AtOnce }, func(s *stage) { s.net.cut() }, rota.ErrOrphaned},
		{"store closed", nil, func(s *stage) { s.store.Close() }, rota.ErrOrphaned},
		{"store rolled back", nil, func(s *stage) {
			old, _ := s.store.Get(context.Background(), s.key())
			time.Sleep(5 * time.Second)
			now, _ := s.store.Get(context.Background(), s.key())
			if _, err := s.store.Put(context.Background(), now.Key, old.Value, now.Rev); err != nil {
				s.t.Error(err)
			}
		}, rota.ErrStoreLost},
		{"no plan can be written", nil, func(s *stage) {
			s.full.Store(true)
			s.store.Put(context.Background(), "test/member/00000000000000aa", newcomer(0xaa), 0)
		}, rota.ErrPlanUnwritable},
		{"a bug", nil, func(s *stage) { s.broken.Store(true) }, rota.ErrBug},
		{"fenced, back, and left", func(c *rota.Config) { c.Rejoin = true }, func(s *stage) {
			s.declare(record.Dead)
			time.Sleep(5 * time.Second)
			s.cancel()
		}, nil},
		{"fenced, and left before it is back", func(c *rota.Config) { c.Rejoin = true }, func(s *stage) {
			events := s.m.Events(context.Background())
			s.declare(record.Dead)
			for e := range events {
				if e.Kind == rota.EventFenced {
					break
				}
			}
			time.Sleep(50 * time.Millisecond)
			s.cancel()
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stage{t: t, store: rotatest.NewMemStore()}
				s.net = newWire(s.store)
				src := rotatest.NewMemSource(0, rotatest.Names(4)...)
				src.Publish("q1", make([][]byte, 500)...)
				cfg := rota.Config{Group: "test", Store: disk{s.net, &s.full}, Source: src, NewGroup: true, Parallel: 3,
					Handle: func(context.Context, rota.Message) error { time.Sleep(100 * time.Millisecond); return nil },
					Abort:  func(err error) { t.Errorf("abort: %v", err) }}
				if c.with != nil {
					c.with(&cfg)
				}
				end(t, s, cfg, c.do, c.want)
			})
		})
	}
}

func newcomer(id record.Session) []byte {
	b, _ := record.Encode(&record.Member{Session: id, Name: "newcomer", Lease: 5 * time.Second, Beat: 2 * time.Second, Seq: 1})
	return b
}

// end runs the member until do has ended it.
func end(t *testing.T, s *stage, cfg rota.Config, do func(*stage), want error) {
	var err error
	if s.m, err = rota.New(cfg); err != nil {
		t.Fatal(err)
	}
	s.m.TestPause(func() {
		if s.broken.Load() && strings.Contains(string(debug.Stack()), "(*session).step(") && s.broken.Swap(false) {
			panic(core.Bug("a test"))
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.cancel = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(time.Second)
		do(s)
	}()
	err = s.m.Run(ctx)
	if left := ours(); len(left) > 0 {
		t.Errorf("%d goroutines are left:\n\n%s", len(left), strings.Join(left, "\n\n"))
	}
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("Run returned %v, want %v", err, want)
	}
	<-done
}

// The same holds for a session that ends soon after it began.
func TestNothingIsLeftOfAShortLife(t *testing.T) {
	for _, after := range []time.Duration{0, 1, time.Microsecond, 100 * time.Millisecond, 150 * time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			m, err := rota.New(sound())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			err = m.Run(ctx)
			if left := ours(); err != nil || len(left) > 0 {
				t.Errorf("after %v Run returned %v and left\n\n%s", after, err, strings.Join(left, "\n\n"))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := sound()
		cfg.Source = struct{ rota.Source }{rotatest.NewMemSource(0)} // a list of its own, which does not change
		m, err := rota.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = m.Run(context.Background())
		if left := ours(); err == nil || len(left) > 0 {
			t.Errorf("refused: Run returned %v and left\n\n%s", err, strings.Join(left, "\n\n"))
		}
	})
}

var (
	bubble = regexp.MustCompile(`synctest bubble \d+`)
	frame  = regexp.MustCompile(`(?m)^github\.com/rota-dev/rota(/rotatest)?\.`)
)

// ours are the goroutines in the caller's bubble that run code of ours, without
// the caller. No time passes meanwhile; one that is just returning gets the
// chance to.
func ours() (left []string) {
	buf := make([]byte, 1<<20)
	mine := bubble.FindString(string(buf[:runtime.Stack(buf, false)]))
	for range 100 {
		runtime.Gosched()
		left = nil
		for i, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			head, _, _ := strings.Cut(g, "\n")
			if i > 0 && strings.Contains(head, mine+"]") && frame.MatchString(g) {
				left = append(left, g)
			}
		}
		if mine != "" && len(left) == 0 {
			break
		}
	}
	return left
}
