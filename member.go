package rota

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/rule"
)

// The errors of Run. It returns nil after the member has left in good order.
var (
	// ErrFenced means that the group has declared this session dead or evicted it,
	// or that its record is gone. Everything has stopped.
	ErrFenced = errors.New("rota: fenced: the group has ended this session")
	// ErrOrphaned means that the store could not be reached for longer than the
	// lease and the orphan time. Everything had stopped by the end of the lease. The
	// error of Run also wraps the last error of the store.
	ErrOrphaned = errors.New("rota: orphaned: no lease for too long")
	// ErrStoreLost means that the store has lost writes it had acknowledged. Every
	// session ends, and a new incarnation begins.
	ErrStoreLost = errors.New("rota: the store has lost acknowledged writes")
	// ErrPlanUnwritable means that this member led, and could write its heartbeats
	// but not its plans.
	ErrPlanUnwritable = errors.New("rota: the plan could not be written for longer than a lease")
	// ErrBug means that an assertion of rota itself was broken. Everything was
	// stopped.
	ErrBug = errors.New("rota: bug")
)

// A Member takes part in a group.
type Member struct {
	cfg            Config
	timing         core.Timing
	name           string
	log            *slog.Logger
	clock          clock.Clock
	ring           ring
	ran            atomic.Bool
	asks           chan func(*session) // questions for the loop
	cur            atomic.Pointer[session]
	handlerPause   backoff
	stallTime      time.Duration // 0: stalls are not looked for
	sourceFailures int           // how often a source may fail in a row before its partition is given up
	testPause      func()        // tests stop a member, as SIGSTOP does, by blocking here
	ahead          int64         // pace.Gate.Ahead; set by tests only
	sourceAnswered atomic.Bool   // it has listed partitions, or consumed one
	sourceListsAll atomic.Bool   // it has said so of a list
	storeAnswered  atomic.Bool
	reported       reportedOnce // conditions that are reported once
	repeats        repeats      // conditions and errors that are reported again after a while
	joins          int          // sessions so far, the running one included
	ended          chan struct{}
}

// leaseClock is the clock that a member measures its lease by.
func leaseClock() clock.Clock {
	// clock-counts-suspend: The clock of a lease counts the time that the machine sleeps.
	// Without it: C1's machine sleeps past the lease, and q goes to C2. C1 wakes up with a
	// clock that stood still, and goes on with q under a lease that looks valid.
	if rule.ClockCountsSuspend.Off() {
		return clock.Runtime(time.Now())
	}
	return clock.New()
}

func (m *Member) now() core.Time { return core.Time(m.clock.Now()) }

// New checks the configuration. It does not connect to anything; Run does.
func New(cfg Config) (*Member, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if b, ok := cfg.Source.(Binder); ok {
		if err := b.Bind(cfg.Group); err != nil {
			return nil, fmt.Errorf("rota: Config.Source refuses Config.Group %s: %w", cfg.Group, err)
		}
	}
	if b, ok := cfg.Scaler.(Binder); ok {
		if err := b.Bind(cfg.Group); err != nil {
			return nil, fmt.Errorf("rota: Config.Scaler refuses Config.Group %s: %w", cfg.Group, err)
		}
	}
	m := &Member{cfg: cfg, timing: cfg.timing(), name: cfg.Name, log: cfg.Log, clock: leaseClock(),
		asks: make(chan func(*session)), ended: make(chan struct{})}
	if m.name == "" {
		m.name = defaultName()
	}
	if m.log == nil {
		m.log = defaultLog()
	}
	if m.cfg.Abort == nil {
		m.cfg.Abort = func(err error) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
	}
	m.handlerPause = cfg.handlerPause()
	m.stallTime = orDefault(cfg.StallTime, time.Minute)
	m.sourceFailures = 5
	return m, nil
}

// Name is the member's name.
func (m *Member) Name() string { return m.name }

// Run joins the group and consumes its partitions until ctx ends; then it hands
// them over, leaves and returns nil. It returns an error when the session ended in
// another way, unless Config.Rejoin starts a new one. Handlers, Store and Source see
// the values of ctx. When Run returns, all its goroutines have ended; Store and Source
// are still open, and the caller's to close. It can be called once.
//
// An outage is waited for: of the source without limit, of the store until ErrOrphaned,
// which has the store's last error. It is logged at once, then with growing pauses. An
// error that wraps ErrPermanent ends Run at once if the Store, or the Source, has never
// answered this Member.
func (m *Member) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return errors.New("rota: Run was called before: make another Member")
	}
	defer close(m.ended)
	m.tellTight()
	for {
		s := newSession(ctx, m)
		m.cur.Store(s)
		err := s.run(ctx)
		if err == nil || !m.cfg.Rejoin || ctx.Err() != nil || errors.Is(err, ErrBug) || s.refused != nil {
			return err
		}
		m.tellRejoin(err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(m.timing.Retry):
		}
	}
}

// tellRejoin is not inlined, see tellRun.
//
//go:noinline
func (m *Member) tellRejoin(because error) {
	m.log.Info("joining again under a new session", "member", m.name, "because", because)
}

// tellTight is not inlined, see tellRun.
//
//go:noinline
func (m *Member) tellTight() {
	if note, ok := tight(m.timing); ok {
		e := Event{Kind: EventCondition, Condition: ConditionTightLease, Because: note}
		m.emit(e)
		m.logEvent(&e, 1)
	}
}

func (m *Member) emit(e Event) {
	e.Member = m.name
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	m.ring.add(e)
	if m.cfg.Trace != nil {
		m.cfg.Trace(e)
	}
}

// trace gives an event to Config.Trace alone: Events does not show it.
func (m *Member) trace(e Event) {
	e.Member = m.name
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	m.cfg.Trace(e)
}

func random() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return max(binary.LittleEndian.Uint64(b[:]), 1)
}

// endError is the error of Run for the cause that the core gives.
func endError(c core.Cause) error {
	switch c {
	case core.ByLeave:
		return nil
	case core.ByFence:
		return ErrFenced
	case core.ByOrphan:
		return ErrOrphaned
	case core.ByStore:
		return ErrStoreLost
	case core.ByFailure:
		return ErrPlanUnwritable
	}
	return nil
}
