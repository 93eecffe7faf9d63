package rota

import (
	"cmp"
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

// A session is one start of a member: one goroutine, the loop, that feeds events to
// the core and carries out its actions. Store calls, watches and partitions have
// goroutines of their own and send the loop events; all have ended when run returns.
type session struct {
	m     *Member
	id    record.Session
	cfg   *core.Config
	node  *core.Node
	inbox chan core.Event
	next  core.Event      // taken from the inbox: the loop, which waits, has a small stack
	batch []core.Event    // reused by gather
	ctx   context.Context // of everything the session starts: the values of Run's, and an end of its own
	stop  context.CancelFunc
	wg    sync.WaitGroup
	timer *time.Timer
	began time.Time

	lease atomic.Int64 // core.Time at which the lease ends
	trust atomic.Int64 // core.Time until which effects are allowed: that, or later with OnStoreLoss Continue
	over  atomic.Bool  // the session has ended: no ownership is valid any more
	plan  atomic.Uint64
	gen   atomic.Uint64
	term  atomic.Uint64
	runs  map[record.ID]*run
	pace  pace.Gate

	outage     outage
	classified bool // the class was asked after an answer of the store

	watches map[string]context.CancelFunc
	roster  *record.Roster
	ended   bool
	leaving bool
	asked   <-chan struct{} // closed when Run is asked to end
	cause   core.Cause
	refused error     // why this member cannot work: it leaves, and Run returns this
	abortAt time.Time // when forceStop looks again at runs that have not stopped
	trail   trail

	refusals   chan error // reasons for refused
	conditions conditions
	dead       atomic.Int64 // messages dead-lettered
	unreadable unreadable
	warm       warmUps
	tally      tally
	scales     scales
	fleet      fleet
	nothing    bool // the source lists no partition, as far as this leader knows

	loadsAt      core.Time // when the loads were last written
	loadsRev     atomic.Uint64
	writingLoads atomic.Bool
	holdSince    core.Time    // when this leader's hold began; 0 without one
	holdEnd      atomic.Int64 // core.Time at which it is expected to be over; 0 without one
	newGroup     atomic.Bool  // that hold is of a group without a plan
	drift        atomic.Int64 // between this machine's clocks, when last compared
	looked       core.Time    // when that was
	past         chan record.Past
	writing      atomic.Bool // a goroutine writes the history
	said         Event       // of the newest plan this leader made
	planned      uint64      // number of the newest plan that went into the history

	counted   []record.Session // members of the newest plan seen
	countedBy uint64           // number of that plan
}

// newSession makes a session whose handlers, store calls and sources see the values of
// Run's ctx. Its end is not theirs: they are needed to leave in good order.
func newSession(ctx context.Context, m *Member) *session {
	s := &session{m: m, id: record.Session(random()), inbox: make(chan core.Event, 8), refusals: make(chan error, 1),
		began: time.Now(), runs: map[record.ID]*run{}, watches: map[string]context.CancelFunc{}, pace: pace.Gate{Ahead: m.ahead}}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	// rejoined-session-is-not-fresh: Only the first session of a process takes the store
	// for new.
	// Without it: C1 was started in a new store. The store is emptied while C2 is cut off.
	// C1's next session takes it for new, holds nothing back, and starts what C2 runs.
	s.scales.gauge.Bytes = m.cfg.Packing.Unit == Bytes
	cfg := &core.Config{
		Session:    s.id,
		Name:       m.name,
		Timing:     m.timing,
		Continue:   m.cfg.OnStoreLoss == Continue,
		Quarantine: uint32(max(cmp.Or(m.cfg.Quarantine, 3), 0)),
		Fresh:      m.cfg.NewGroup && (m.joins == 0 || rule.RejoinedSessionIsNotFresh.Off()),
		Volatile:   volatile(m.cfg.Store),
		Era:        era(),
		Hash:       uint32(s.id) ^ uint32(s.id>>32),
		Self:       self(&m.cfg),
	}
	if was := m.cur.Load(); was != nil {
		cfg.Self.Was = was.id
	}
	if m.cfg.Mode == Eager {
		cfg.Mode = record.Eager
	}
	switch m.cfg.Strategy {
	case Range:
		cfg.Strategy = core.Range
	case Pack:
		cfg.Strategy, cfg.Packing = core.Pack, m.cfg.Packing.core()
		if m.cfg.Scaling.Max > 0 {
			cfg.Scaling = m.cfg.Scaling.core(m.cfg.Scaler)
		}
	}
	m.joins++
	s.cfg, s.node = cfg, core.New(cfg)
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

// volatile tells whether the store may lose acknowledged writes. One of unknown class
// may.
func volatile(st Store) bool { return classOf(st) == ClassC || classOf(st) == ClassUnknown }

// classify asks the store for its class before the core is told which server that is:
// the core needs the class for nothing else, and some stores learn theirs at the first
// call that is answered. Later the class can only get worse: the server that replaced
// another may say that it has no replica, since it was the replica itself.
func (s *session) classify() {
	s.cfg.Volatile = volatile(s.m.cfg.Store) || s.classified && s.cfg.Volatile
	s.classified = true
}

// self has the fields of a member's record that never change.
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

// run is the session's loop. It returns the error that Run returns.
func (s *session) run(ctx context.Context) (err error) {
	s.timer = time.NewTimer(0)
	defer func() {
		s.timer.Stop()
		s.stop()
		s.emptyInbox()
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
	s.asked = ctx.Done()
	s.meet(ctx, s.cfg)
	s.watch("plan", false)
	s.watch("roster", false)
	s.goDo(s.identify)
	stalls, stallTick, endTicks := newStalls(s)
	defer endTicks()
	s.happen(core.Begin)
	leave := s.asked
	for !s.ended {
		select {
		case s.next = <-s.inbox:
			s.stepNext()
		case <-s.timer.C:
			s.forceStop()
			s.happen(core.Tick)
		case <-stallTick:
			stalls.lookBeside()
		case ask := <-s.m.asks:
			ask(s)
		case err := <-s.refusals:
			if s.refused == nil && leave != nil { // not if it leaves anyway
				s.refused = err
				s.happen(core.Leave)
			}
		case <-leave:
			leave = nil
			s.goAway()
		}
	}
	if s.refused != nil && s.cause == core.ByLeave {
		return s.refused
	}
	return s.outage.cause(s.cause)
}

// stepNext is a step by the next event and those that are queued behind it. It forgets them
// then: an event may hold an older plan.
//
//go:noinline
func (s *session) stepNext() {
	s.step(s.gather()...)
	s.next = core.Event{}
	clear(s.batch)
}

// happen is a step by an event without fields. It is not inlined, see tellRun: the loop's
// stack would have room for each of these events.
//
//go:noinline
func (s *session) happen(k core.Kind) { s.step(core.Event{Kind: k}) }

// goAway begins to leave. With Config.Return set, leaving means "back soon": the leader
// keeps our partitions for us. Otherwise they are handed over first.
//
//go:noinline
func (s *session) goAway() {
	s.step(core.Event{Kind: core.Leave, Returning: s.m.timing.Return > 0})
}

// emptyInbox waits for everything the session started. It reads the inbox meanwhile,
// so that no sender blocks.
func (s *session) emptyInbox() {
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

// bug ends the session after an assertion of the core was broken. The core cannot be
// trusted any more, so everything stops.
func (s *session) bug(b core.Bug) error {
	s.over.Store(true)
	for _, r := range s.runs {
		r.end(true, "a bug")
	}
	s.obituary()
	s.m.emit(s.stamp(Event{Kind: EventCondition, Condition: ConditionBug, Because: b.Error()}))
	return fmt.Errorf("%w: %s\n%s", ErrBug, string(b), s.trail.String())
}

// obituary waits until nothing runs any more and then writes a record that says LEFT,
// ended on a bug. The order matters: LEFT frees the partitions, and their next owners
// start. The core asks for no abort any more, so the end of the lease is timed here.
func (s *session) obituary() {
	remaining := max(core.Time(s.lease.Load()).Sub(s.m.now()), 0)
	// bug-extends-no-lease: After a bug, handlers have what remains of the lease and no
	// more.
	// Without it: C1 ends by a bug with a second of lease left, and its handler has a whole
	// lease more. C2 declares C1 dead and starts q: both run it.
	if rule.BugExtendsNoLease.Off() {
		remaining = s.m.timing.Lease
	}
	limit := time.NewTimer(remaining)
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
				s.abort(s.late())
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

// gather batches the next event with the others that are queued, so that the core runs once
// for all of them. If several partitions are stopping it waits up to stopWindow, so that one
// heartbeat acknowledges them all; otherwise the others would have to wait until the
// heartbeat for the first one is written.
func (s *session) gather() []core.Event {
	s.batch = append(s.batch[:0], s.next)
	var enough <-chan time.Time
	for len(s.batch) < mostGathered {
		if len(s.inbox) == 0 {
			if s.next.Kind != core.Stopped || !s.stopping(len(s.batch)) {
				break
			}
			if enough == nil {
				enough = time.After(stopWindow)
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

// mostGathered limits the events of one step. The inbox itself is small, since every
// session has one; senders wait.
const mostGathered = 256

// stopWindow is how long partitions that were told to stop together usually take.
const stopWindow = time.Millisecond

// stopping tells whether more than n partitions were told to stop.
func (s *session) stopping(n int) bool {
	for _, r := range s.runs {
		if r.stopAsked() {
			n--
		}
	}
	return n < 0
}

// step gives events to the core and carries out its actions.
func (s *session) step(evs ...core.Event) {
	if s.m.testPause != nil {
		s.m.testPause()
	}
	refused, measured := false, false
	for i := range evs {
		switch ev := &evs[i]; ev.Kind {
		case core.Measured:
			measured = true
		case core.Stopped, core.GivenUp:
			s.dropRun(ev)
		case core.Listed:
			refused = s.refuses(ev) || refused
			s.tellNothing(ev)
		case core.Server:
			s.classify()
		}
	}
	s.lookForJump()
	s.feed(evs...)
	if refused {
		s.feed(core.Event{Kind: core.Leave})
	}
	if measured && s.node.Leads() {
		s.tellLoads()
	}
	s.keepFleet()
	if s.nothing && !s.node.Leads() {
		s.endNothing()
	}
}

// lookForJump compares two clocks of this machine. If they have come apart, the
// machine was suspended or its time was set: the lease is withdrawn. A drift that is
// slow enough for clock.SlewRate is only followed.
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
		s.drift.Store(int64(d)) // last: until the lease is withdrawn, slept must refuse
		return
	}
	s.drift.Store(int64(was + min(max(d-was, -slow), slow)))
}

// slept tells whether the machine was suspended since the loop last compared its
// clocks. It is needed only where the lease's clock does not count suspend: there the
// lease looks valid after a sleep, and the loop's timer stood still as well, so the
// loop would find out too late.
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
	case s.inbox <- core.Event{Kind: core.Tick}: // makes the loop call lookForJump
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
	s.trust.Store(int64(s.node.Trusted()))
	if was := s.lease.Swap(int64(s.node.Lease())); was != int64(s.node.Lease()) && s.m.cfg.Trace != nil && s.m.cfg.TraceMessages {
		s.m.trace(s.stamp(Event{Kind: EventLease}))
	}
	s.where()
	for i := range acts {
		s.do(&acts[i])
	}
	s.tellHold()
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

// arm sets the loop's only timer to the core's next deadline or abortAt, whichever is
// earlier.
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
	case core.DoMeasure:
		s.measure()
	case core.DoScale:
		s.scale(a.Fleet)
	case core.DoClose:
		s.goDo(func() { s.send(core.Event{Kind: core.Closed}) })
	case core.DoAbort:
		s.abort(s.among(a.Late))
	case core.DoEnd:
		s.ended, s.cause = true, a.Cause
		s.over.Store(true)
		s.tellEnd(a.Cause)
	case core.DoNote:
		s.note(a)
	}
}

// goDo runs f in a goroutine that the session waits for before it ends.
func (s *session) goDo(f func()) { s.wg.Go(f) }

// send gives an event to the loop, unless the session is over.
func (s *session) send(ev core.Event) {
	select {
	case s.inbox <- ev:
	case <-s.ctx.Done():
	}
}
