package rota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/pace"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A session is one life of a member: one goroutine that feeds the core and does
// what it orders. Store calls, watches and partitions run beside it and come
// back as events; they are all gone when run returns.
type session struct {
	m     *Member
	id    record.Session
	cfg   *core.Config
	node  *core.Node
	inbox chan core.Event
	batch []core.Event    // taken from it at once
	ctx   context.Context // of everything the session starts; outlives the user's
	stop  context.CancelFunc
	wg    sync.WaitGroup
	timer *time.Timer

	lease atomic.Int64 // core.Time until which ownerships are trusted
	over  atomic.Bool  // the session has ended: no ownership is good any more
	plan  atomic.Uint64
	gen   atomic.Uint64
	term  atomic.Uint64
	heard atomic.Int64 // core.Time of the store's last answer
	mute  atomic.Bool  // it does not answer
	runs  map[record.ID]*run
	pace  pace.Gate

	watches map[string]context.CancelFunc
	roster  *record.Roster
	ended   bool
	leaving bool
	cause   core.Cause
	refused error     // what the source lists cannot be served: leaving
	abortAt time.Time // when to end by force what still has not stopped
	trail   trail

	conditions conditions
	unreadable unreadable
	warm       warmUps
	drift      atomic.Int64 // between this machine's clocks, as the session knows it
	looked     core.Time    // when they were last compared
	past       chan record.Past
	said       Event  // of the newest plan this leader made
	planned    uint64 // number of the newest plan that went into the history

	counted   []record.Session // members of the newest plan seen
	countedBy uint64           // and its number
}

func newSession(m *Member) *session {
	s := &session{m: m, id: record.Session(random()), inbox: make(chan core.Event, 256),
		runs: map[record.ID]*run{}, watches: map[string]context.CancelFunc{}, pace: pace.Gate{Ahead: m.ahead}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	// rejoined-session-is-not-fresh: Only the first session of a process takes the store
	// for new.
	// Without it: C1 was started in a new store. The store is emptied while C2 is cut off.
	// C1's next session takes it for new, holds nothing back, and starts what C2 runs.
	cfg := &core.Config{
		Session:  s.id,
		Name:     m.name,
		Timing:   m.timing,
		Fresh:    m.cfg.NewGroup && (m.joins == 0 || rule.RejoinedSessionIsNotFresh.Off()),
		Volatile: volatile(m.cfg.Store),
		Era:      era(),
		Hash:     uint32(s.id) ^ uint32(s.id>>32),
		Self:     self(&m.cfg),
	}
	if m.cfg.Mode == Eager {
		cfg.Mode = record.Eager
	}
	if m.cfg.Strategy == Range {
		cfg.Strategy = core.Range
	}
	m.joins++
	s.cfg, s.node = cfg, core.New(cfg)
	s.past = make(chan record.Past, 16)
	if m.clock.Drift != nil {
		s.drift.Store(int64(m.clock.Drift()))
		s.looked = m.now()
	}
	return s
}

func classOf(st Store) Class {
	if c, ok := st.(Classifier); ok {
		return c.Class()
	}
	return ClassUnknown
}

// volatile: the store may lose what it acknowledged, as far as anyone knows.
func volatile(st Store) bool { return classOf(st) == ClassC || classOf(st) == ClassUnknown }

// self is what a member says of itself in every record.
func self(c *Config) *record.Member {
	m := &record.Member{Host: thisHost()}
	for k, v := range c.Labels {
		m.Labels = append(m.Labels, record.Pair{Key: k, Value: v})
	}
	slices.SortFunc(m.Labels, func(a, b record.Pair) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return m
}

// run lives the session and returns how it ended.
func (s *session) run(ctx context.Context) (err error) {
	s.timer = time.NewTimer(0)
	defer func() {
		s.timer.Stop()
		s.stop()
		s.drainInbox()
	}()
	defer func() {
		if p := recover(); p != nil {
			bug, ok := p.(core.Bug)
			if !ok {
				panic(p) // a handler's panic is a crash, and meant to be
			}
			err = s.bug(bug)
		}
	}()
	s.meet(ctx, s.cfg)
	s.watch("plan", false)
	s.watch("roster", false)
	s.goDo(s.identify)
	s.goDo(s.writeHistory)
	s.step(core.Event{Kind: core.Begin})
	leave := ctx.Done()
	for !s.ended {
		select {
		case ev := <-s.inbox:
			s.step(s.gather(ev)...)
		case <-s.timer.C:
			s.forceStop()
			s.step(core.Event{Kind: core.Tick})
		case ask := <-s.m.asks:
			ask <- s.status()
		case <-leave:
			leave = nil
			// Who has a time to return means to. Who does not is drained first.
			s.step(core.Event{Kind: core.Leave, Returning: s.m.timing.Return > 0})
		}
	}
	if s.refused != nil && s.cause == core.ByLeave {
		return s.refused
	}
	return endError(s.cause)
}

// drainInbox waits for everything the session started, taking what it still
// sends so that nobody blocks.
func (s *session) drainInbox() {
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	for {
		select {
		case <-s.inbox:
		case <-done:
			return
		}
	}
}

// bug: an assertion of the core was broken. Whatever it would have decided next
// cannot be trusted, so everything stops; the others will see the silence.
func (s *session) bug(b core.Bug) error {
	s.over.Store(true)
	for _, r := range s.runs {
		r.end(true, "a bug")
	}
	s.obituary()
	s.m.emit(s.stamp(Event{Kind: EventCondition, Condition: ConditionBug, Because: b.Error()}))
	return fmt.Errorf("%w: %s\n%s", ErrBug, string(b), s.trail.String())
}

// obituary waits until nothing runs any more and then says that this session
// ended on a bug. In this order: LEFT frees its rows, and the next owner starts.
// The core orders no abort now, and the lease ends as it would have.
func (s *session) obituary() {
	left := max(core.Time(s.lease.Load()).Sub(s.m.now()), 0)
	// bug-extends-no-lease: After a bug, handlers have what remains of the lease and no
	// more.
	// Without it: C1 ends by a bug with a second of lease left, and its handler has a whole
	// lease more. C2 declares C1 dead and starts q: both run it.
	if rule.BugExtendsNoLease.Off() {
		left = s.m.timing.Lease
	}
	limit := time.NewTimer(left)
	defer limit.Stop()
	s.abortAt = time.Time{}
	// left-means-returned: After a bug, LEFT is written only when every handler has
	// returned.
	// Without it: C1 ends by a bug and writes LEFT while a handler still works. LEFT frees
	// q, and C2 starts it.
	for len(s.runs) > 0 && !rule.LeftMeansReturned.Off() {
		select {
		case ev := <-s.inbox:
			if ev.Kind == core.Stopped || ev.Kind == core.GivenUp {
				s.dropRun(&ev)
			}
		case <-limit.C:
			if s.abortAt.IsZero() {
				s.abort()
			} else {
				s.forceStop()
			}
			limit.Reset(s.m.timing.Margin)
		}
	}
	m, prev := s.node.Obituary()
	b, err := record.Encode(m)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
	defer cancel()
	s.m.cfg.Store.Put(ctx, key(s.m.cfg.Group, core.Key{Cell: core.MemberCell, Session: s.id}), b, Rev(prev))
}

// gather takes what else has come in with ev: the core decides once for all of
// it. When a thousand partitions stop, that is a thousand times less. Partitions
// that were told to stop together do so within a moment, and the first of them
// waits that long: otherwise all others would wait until its word is written.
func (s *session) gather(ev core.Event) []core.Event {
	s.batch = append(s.batch[:0], ev)
	var enough <-chan time.Time
	for len(s.batch) < cap(s.inbox) {
		if len(s.inbox) == 0 {
			if ev.Kind != core.Stopped || !s.stopping(len(s.batch)) {
				break
			}
			if enough == nil {
				enough = time.After(moment)
			}
		}
		select {
		case next := <-s.inbox:
			s.batch = append(s.batch, next)
		case <-enough:
			return s.batch
		}
	}
	return s.batch
}

// moment is within what partitions stop that were told to at once, if their
// handlers are quick or keep step.
const moment = time.Millisecond

// stopping: more than n partitions were told to stop.
func (s *session) stopping(n int) bool {
	for _, r := range s.runs {
		if r.stopAsked() {
			n--
		}
	}
	return n < 0
}

// step gives the core events and does what it says.
func (s *session) step(evs ...core.Event) {
	if s.m.testPause != nil {
		s.m.testPause()
	}
	refused := false
	for i := range evs {
		switch ev := &evs[i]; ev.Kind {
		case core.Stopped, core.GivenUp:
			s.dropRun(ev)
		case core.Listed:
			refused = s.refuses(ev) || refused
		}
	}
	s.lookForJump()
	s.feed(evs...)
	if refused {
		s.feed(core.Event{Kind: core.Leave})
	}
}

// lookForJump compares two clocks of this machine. If they have come apart it
// was suspended, or somebody played with its time: no lease is trusted then.
func (s *session) lookForJump() {
	if s.m.clock.Drift == nil {
		return
	}
	d, now, was := s.m.clock.Drift(), s.m.now(), time.Duration(s.drift.Load())
	slow := now.Sub(s.looked) / clock.SlewRate
	s.looked = now
	if clock.Apart(d, was) {
		s.condition(ConditionClocksApart, "", fmt.Sprintf("this machine's clocks came apart by %v: trusting no lease", d-was))
		s.feed(core.Event{Kind: core.Jumped, CountsSuspend: s.m.clock.Exact})
		s.drift.Store(int64(d)) // last: until the lease is taken back, slept has to say so
		return
	}
	s.drift.Store(int64(was + min(max(d-was, -slow), slow)))
}

// slept: the machine has been asleep since the session last compared its clocks.
// Where the lease's clock counts suspend, the lease tells that by itself.
// Elsewhere the session's loop would find out too late: its timer stood still as
// long as the clock.
func (s *session) slept() bool {
	c := &s.m.clock
	// sleep-is-seen: A sleep is noticed before every effect, also where no clock counts
	// suspend.
	// Without it: C1's machine sleeps past the lease, and q goes to C2. C1's clock stood
	// still, its timers as well, and its handler acts on q when it wakes up.
	if c.Exact || c.Drift == nil || rule.SleepIsSeen.Off() || !clock.Apart(c.Drift(), time.Duration(s.drift.Load())) {
		return false
	}
	select {
	case s.inbox <- core.Event{Kind: core.Tick}: // look for yourself
	default:
	}
	return true
}

func (s *session) feed(evs ...core.Event) {
	now := s.m.now()
	for i := range evs {
		s.trail.add(now, &evs[i])
	}
	acts := s.node.Steps(now, evs)
	if was := s.lease.Swap(int64(s.node.Lease())); was != int64(s.node.Lease()) && s.m.cfg.Trace != nil && s.m.cfg.TraceMessages {
		s.m.trace(s.stamp(Event{Kind: EventLease}))
	}
	s.where()
	for i := range acts {
		s.do(&acts[i])
	}
	s.remember()
	s.warmUp()
	if r := s.node.Roster(); r != s.roster {
		s.roster = r
		s.tellMeta()
	}
	s.arm()
}

func (s *session) dropRun(ev *core.Event) {
	if r := s.runs[ev.ID]; r != nil && r.token == ev.Token {
		delete(s.runs, ev.ID)
	}
	if len(s.runs) == 0 {
		s.abortAt = time.Time{}
	}
}

// arm sets the one timer for what comes first.
func (s *session) arm() {
	next := s.node.Next()
	d := time.Hour
	if next != core.Never {
		d = min(d, max(next.Sub(s.m.now()), 0))
	}
	if !s.abortAt.IsZero() {
		d = min(d, max(time.Until(s.abortAt), 0))
	}
	s.timer.Reset(d)
}

func (s *session) do(a *core.Action) {
	switch a.Do {
	case core.DoCall:
		s.call(*a)
	case core.DoWatch:
		s.setWatch(a.Watch)
	case core.DoStart:
		s.startRun(a)
	case core.DoStop, core.DoCancel:
		if r := s.runs[a.ID]; r != nil && r.token == a.Token {
			s.tellStop(r, a.Do == core.DoCancel)
		}
	case core.DoAsk:
		s.goDo(s.ask)
	case core.DoClose:
		s.goDo(func() { s.send(core.Event{Kind: core.Closed}) })
	case core.DoAbort:
		s.abort()
	case core.DoEnd:
		s.ended, s.cause = true, a.Cause
		s.over.Store(true)
		s.tellEnd(a.Cause)
	case core.DoNote:
		s.note(a)
	}
}

// goDo runs f beside the loop; the session waits for it before it ends.
func (s *session) goDo(f func()) { s.wg.Go(f) }

// send gives an event to the loop, unless the session is over.
func (s *session) send(ev core.Event) {
	select {
	case s.inbox <- ev:
	case <-s.ctx.Done():
	}
}
