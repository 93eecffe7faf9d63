package rota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/rota-dev/rota/internal/core"
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
	pace  pacer

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
		runs: map[record.ID]*run{}, watches: map[string]context.CancelFunc{}}
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
	if m.clock.drift != nil {
		s.drift.Store(int64(m.clock.drift()))
		s.looked = m.clock.now()
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
			s.step(core.Event{Kind: core.Leave, Flag: s.m.timing.Return > 0})
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
	s.m.emit(s.stamp(Event{Kind: EventCondition, Because: b.Error()}))
	return fmt.Errorf("%w: %s\n%s", ErrBug, string(b), s.trail.String())
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
		if r.told() {
			n--
		}
	}
	return n < 0
}

// step gives the core events and does what it says.
func (s *session) step(evs ...core.Event) {
	if s.m.hold != nil {
		s.m.hold()
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
	if s.m.clock.drift == nil {
		return
	}
	d, now, was := s.m.clock.drift(), s.m.clock.now(), time.Duration(s.drift.Load())
	slow := now.Sub(s.looked) / slewRate
	s.looked = now
	if apart(d, was) {
		s.condition(fmt.Sprintf("this machine's clocks came apart by %v: trusting no lease", d-was))
		s.feed(core.Event{Kind: core.Jumped, Flag: s.m.clock.exact})
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
	if c.exact || c.drift == nil || rule.SleepIsSeen.Off() || !apart(c.drift(), time.Duration(s.drift.Load())) {
		return false
	}
	select {
	case s.inbox <- core.Event{Kind: core.Tick}: // look for yourself
	default:
	}
	return true
}

func (s *session) feed(evs ...core.Event) {
	now := s.m.clock.now()
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
		d = min(d, max(next.Sub(s.m.clock.now()), 0))
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

// ask asks the source for its partitions.
func (s *session) ask() {
	ctx, cancel := context.WithTimeout(s.ctx, max(s.m.timing.CallTime(), 5*time.Second))
	defer cancel()
	list, err := s.m.cfg.Source.Partitions(ctx)
	ev := core.Event{Kind: core.Listed}
	if l, ok := s.m.cfg.Source.(Lister); ok {
		ev.Flag = l.ListsAll()
	}
	if errors.Is(err, ErrPartial) {
		s.leftOut(parts(err))
		err = nil
	}
	if err != nil {
		ev.Outcome = core.Unknown
		s.condition(fmt.Sprintf("the source does not tell its partitions: %v", err))
	} else {
		var bad []error
		if ev.Listing, bad, err = listing(list); err != nil {
			ev.Outcome, ev.Text = core.Unknown, err.Error()
			s.condition("the source lists what cannot be served: " + ev.Text)
		}
		s.leftOut(bad)
	}
	s.send(ev)
}

// mostLeftOut is how much of what is not listed is told one by one. Whoever may
// publish can make up names, and must not crowd out other conditions.
const mostLeftOut = 8

// leftOut tells what of a listing is not served, once each.
func (s *session) leftOut(bad []error) {
	for i, b := range bad {
		if i == mostLeftOut {
			s.conditionOnce(fmt.Sprintf("the source lists more than %d names that cannot be served", mostLeftOut))
			return
		}
		s.conditionOnce(strings.TrimPrefix(b.Error(), "rota: "))
	}
}

// parts are the errors that were joined to this one.
func parts(err error) []error {
	j, ok := err.(interface{ Unwrap() []error })
	if !ok || slices.ContainsFunc(j.Unwrap(), func(p error) bool { return !errors.Is(p, ErrPartial) }) {
		return []error{err}
	}
	return j.Unwrap()
}

// errListing ends Run, also with Config.Rejoin: trying again would not help.
var errListing = errors.New("rota: Config.Source lists what cannot be served")

// refuses: what only the source can tell is checked when it first tells it. A
// group that has partitions goes on with those: a broker's bad moment must not
// end one leader after the other.
func (s *session) refuses(ev *core.Event) bool {
	if ev.Outcome != core.OK && ev.Text == "" {
		return false // it has not answered
	}
	first := !s.m.listed
	s.m.listed = true
	if !first || ev.Text == "" || s.node.Roster() != nil {
		return false
	}
	s.refused = fmt.Errorf("%w: %s", errListing, ev.Text)
	return true
}

// listing checks what a source lists. Names that cannot be served are left out: in
// many brokers whoever may publish can make up a partition, and must not keep the
// leader from planning the others.
func listing(list []Partition) (good []record.Partition, bad []error, err error) {
	if len(list) == 0 {
		return nil, nil, errors.New("no partition at all: name at least one")
	}
	seen := map[string]bool{}
	r := &record.Roster{Ver: 1}
	var first error
	for i, p := range list {
		if err := checkName("partition", p.Name, 256); err != nil {
			bad = append(bad, fmt.Errorf("not served: %w", err))
			first = cmp.Or(first, checkName(fmt.Sprintf("partition %d", i), p.Name, 256))
			continue
		}
		if seen[p.Name] {
			return nil, nil, fmt.Errorf("%q twice: names must differ", p.Name)
		}
		seen[p.Name] = true
		r.Entries = append(r.Entries, record.Partition{Name: p.Name, Meta: pairs(p.Meta)})
	}
	if len(r.Entries) == 0 {
		return nil, nil, first
	}
	if _, err := record.Encode(r); err != nil {
		return nil, bad, fmt.Errorf("%w: list less", err)
	}
	return r.Entries, bad, nil
}

// condition tells people something; it changes nothing.
func (s *session) condition(text string) {
	s.m.log.Warn(text, "member", s.m.name)
	s.conditions.add(text, time.Now())
	s.m.emit(s.stamp(Event{Kind: EventCondition, Because: text}))
}

// conditionOnce is condition for what may be found again and again: its event comes
// once, its text stays on the heartbeats for as long as it is found. What others
// can make up must not fill memory: after mostOnce texts all may be told again.
func (s *session) conditionOnce(text string) {
	if s.m.said.first(text) {
		s.condition(text)
	} else {
		s.conditions.add(text, time.Now())
	}
}

// said are texts that were told.
type said struct {
	mu    sync.Mutex
	texts map[string]bool
}

const mostOnce = 1000

func (s *said) first(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts[text] {
		return false
	}
	if s.texts == nil || len(s.texts) == mostOnce {
		s.texts = map[string]bool{}
	}
	s.texts[text] = true
	return true
}

// conditions are those of the last minute: they ride on every heartbeat.
type conditions struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// How much of it a member's record holds.
const (
	mostConditions   = 16
	longestCondition = 256
	conditionTime    = time.Minute
)

func (c *conditions) add(text string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told == nil {
		c.told = map[string]time.Time{}
	}
	text = strings.TrimSpace(strings.Map(printable, strings.ToValidUTF8(text, "?")))
	if text == "" {
		return
	}
	if len(text) > longestCondition {
		text = strings.ToValidUTF8(text[:longestCondition-3], "") + "…"
	}
	c.told[text] = now
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// now are the newest ones, sorted as records want them.
func (c *conditions) now(now time.Time) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for text, at := range c.told {
		if now.Sub(at) > conditionTime {
			delete(c.told, text)
		} else {
			out = append(out, text)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return c.told[b].Compare(c.told[a]) })
	out = out[:min(len(out), mostConditions)]
	slices.Sort(out)
	return out
}

// trail keeps the newest events, for the day an assertion breaks.
type trail struct {
	events [64]trailed
	n      int
}

type trailed struct {
	at      core.Time
	kind    core.Kind
	verb    core.Verb
	outcome core.Outcome
	key     core.Key
}

func (t *trail) add(now core.Time, ev *core.Event) {
	t.events[t.n%len(t.events)] = trailed{now, ev.Kind, ev.Verb, ev.Outcome, ev.Key}
	t.n++
}

func (t *trail) String() string {
	var b strings.Builder
	for i := max(0, t.n-len(t.events)); i < t.n; i++ {
		e := &t.events[i%len(t.events)]
		fmt.Fprintf(&b, "%d kind %d verb %d key %v outcome %d\n", e.at, e.kind, e.verb, e.key, e.outcome)
	}
	return b.String()
}
