package rota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/scenario"
)

// TestScenariosWithWholeMembers plays every scenario file with members as users
// run them, goroutines and all, over a store in memory and in virtual time.
func TestScenariosWithWholeMembers(t *testing.T) { playAll(t, "") }

// playAll plays the scenarios whose names begin so.
func playAll(t *testing.T, prefix string) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(s *scenario.Scenario) bool { return !strings.HasPrefix(s.Name, prefix) })
	if len(all) == 0 {
		t.Fatalf("no scenario is called %s…", prefix)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPlay(t)
				defer w.close()
				if err := s.Run(w); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// play is a scenario's world made of whole members.
type play struct {
	t       *testing.T
	began   time.Time
	cfg     rota.Config
	tune    map[string][]string
	fails   int             // how often a source may fail in a row
	funcs   bool            // the source is rota.Func
	returns bool            // an Abort ends the handlers that have overstayed, and returns
	cut     map[string]bool // where a process that starts is cut off
	begun   map[string]bool // who has been started once
	emptied bool            // the store has lost even its plan
	depot   *depot
	meter   playMeter
	scaler  playScaler
	started []*proc  // by w.mu
	names   []string // partitions that the source lists
	wg      sync.WaitGroup

	mu     sync.Mutex
	lines  []line
	checks check.Checker
	bad    error
	parts  []string
	whos   []uint64
	roster *record.Roster
	aloft  []effect
	sink   map[string]effect
	orders record.Orders
}

type line struct {
	text, who, verb string
	items           []string
}

type effect struct {
	p     *proc
	part  string
	token rota.Token
	who   uint64
}

// proc is one process of the play.
type proc struct {
	w       *play
	label   string
	m       *rota.Member
	link    *link
	cancel  context.CancelFunc
	up      atomic.Bool
	worksOn atomic.Bool // without a lease
	leaves  bool
	done    chan struct{}

	mu     sync.Mutex
	frozen chan struct{} // closed on waking; nil when not frozen
	mode   string        // how handlers stop
	slow   time.Duration
	freed  chan struct{} // closed when handlers work again
	ended  chan struct{} // closed when handlers that were cancelled are ended by force
	fails  bool
	fault  string // how it fails
	silent bool
	trip   chan struct{}       // closed when the source fails what runs
	failed map[rota.Token]bool // ownerships whose source has failed
	owns   map[string]rota.Ownership
	held   []effect // begun before it was frozen, not sent yet
}

func newPlay(t *testing.T) *play {
	w := &play{t: t, fails: 1, began: time.Now(), tune: map[string][]string{}, cut: map[string]bool{}, begun: map[string]bool{}, sink: map[string]effect{}}
	w.depot = &depot{cells: map[string]rota.Entry{}, wrote: w.wrote, class: rota.ClassB}
	w.cfg = rota.Config{Group: "play", NewGroup: true}
	w.checks.Reset(16, 0)
	w.lists(6)
	return w
}

func (w *play) lists(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = nil
	for i := range n {
		w.names = append(w.names, "q"+strconv.Itoa(i))
	}
}

// close ends everybody and waits for them.
func (w *play) close() {
	w.depot.mu.Lock()
	w.depot.stall, w.depot.refuse = time.Time{}, false
	w.depot.mu.Unlock()
	for _, p := range w.procs() {
		p.kill()
	}
	w.wg.Wait()
	time.Sleep(2 * time.Minute) // what is still on its way arrives
}

func (w *play) hear(l line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.verb != "" {
		for i := range w.lines {
			if o := &w.lines[i]; o.who == l.who && o.verb == l.verb {
				o.items = append(o.items, l.items...)
				return
			}
		}
	}
	w.lines = append(w.lines, l)
}

func (w *play) say(format string, args ...any) { w.hear(line{text: fmt.Sprintf(format, args...)}) }

// Seen implements scenario.World.
func (w *play) Seen() ([]string, error) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, l := range w.lines {
		if l.verb == "" {
			out = append(out, l.text)
			continue
		}
		slices.SortStableFunc(l.items, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		})
		out = append(out, l.who+" "+l.verb+" "+strings.Join(l.items, " "))
	}
	w.lines = nil
	return out, w.bad
}

// observe gives the checkers an event, with everybody's lease as it is now.
func (w *play) observe(e check.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.began)
	for _, p := range w.started {
		if id := p.m.SessionID(); id != 0 && p.up.Load() {
			w.see(check.Event{Kind: check.Lease, Who: w.who(id), At: int64(now), Until: int64(now + p.m.LeaseRemaining())})
		}
	}
	e.At = int64(now)
	w.see(e)
}

func (w *play) see(e check.Event) {
	if v := w.checks.See(e); v != nil && w.bad == nil {
		w.bad = fmt.Errorf("a promise is broken: %w", v)
	}
}

func (w *play) who(session uint64) int32 {
	if i := slices.Index(w.whos, session); i >= 0 {
		return int32(i)
	}
	w.whos = append(w.whos, session)
	return int32(len(w.whos) - 1)
}

func (w *play) part(name string) int32 {
	if i := slices.Index(w.parts, name); i >= 0 {
		return int32(i)
	}
	w.parts = append(w.parts, name)
	w.checks.Grow(len(w.parts))
	return int32(len(w.parts) - 1)
}

func (w *play) procs() []*proc {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.started)
}

func (w *play) proc(label string) *proc {
	for _, p := range slices.Backward(w.procs()) {
		if p.label == label {
			return p
		}
	}
	return nil
}

// nameOf is the label of the process that had a session, with a mark if it was
// an earlier one of that label.
func (w *play) nameOf(session uint64) string {
	for _, p := range w.procs() {
		if p.m.SessionID() == session {
			if w.proc(p.label) != p {
				return p.label + "′"
			}
			return p.label
		}
	}
	return "nobody"
}

func (w *play) byText(session string) string {
	id, _ := strconv.ParseUint(session, 16, 64)
	return w.nameOf(id)
}

// join starts a process.
func (w *play) join(label string) {
	p := &proc{w: w, label: label, link: w.depot.link(), done: make(chan struct{}), owns: map[string]rota.Ownership{}, freed: make(chan struct{}), ended: make(chan struct{}), trip: make(chan struct{}), failed: map[rota.Token]bool{}}
	p.up.Store(true)
	cfg := w.cfg
	cfg.Name, _, _ = strings.Cut(label, "/")
	cfg.Store, cfg.Source = p.link, p
	cfg.NewGroup = cfg.NewGroup && !w.begun[label] && !w.emptied // said once, and true then
	w.begun[label] = true
	p.link.mu.Lock() // the writes of others are shown to it already
	p.link.cutIn, p.link.cutOut = w.cut[label], w.cut[label]
	p.link.mu.Unlock()
	cfg.Handle = p.handle
	if w.funcs {
		names, _ := p.Partitions(context.Background())
		var all []string
		for _, n := range names {
			all = append(all, n.Name)
		}
		cfg.Handle = nil
		cfg.Source = rota.Func(all, func(ctx context.Context, own rota.Ownership) error { return p.Consume(ctx, own, nil) })
	}
	cfg.Abort = func(error) {
		if !p.up.Load() {
			return // a dead process says nothing
		}
		if w.returns {
			p.mu.Lock()
			close(p.ended)
			p.ended = make(chan struct{})
			p.mu.Unlock()
			return
		}
		w.say("%s ends itself: a handler outlived its time", label)
		p.kill()
	}
	if cfg.Scaling.Max > 0 {
		cfg.Scaler = p
	}
	for _, kv := range w.tune[label] {
		k, v, _ := strings.Cut(kv, "=")
		if k == "took" {
			p.link.opens, _ = time.ParseDuration(v)
			continue
		}
		setting(&cfg, k, v)
	}
	m, err := rota.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	p.m = m
	m.TestPause(p.stand)
	m.SourceFailures(w.fails)
	w.mu.Lock()
	w.started = append(w.started, p)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	events := m.Events(context.Background())
	told := make(chan struct{})
	w.wg.Go(func() {
		defer close(told)
		for e := range events {
			if p.up.Load() {
				p.transcribe(e)
			}
		}
	})
	w.wg.Go(func() {
		err := m.Run(ctx)
		<-told // its last events come before its end
		if p.up.Swap(false) {
			w.observe(check.Event{Kind: check.Gone, Who: w.whoLocked(m.SessionID())})
			w.say("%s ends: %s", label, ending(err))
		}
		close(p.done)
	})
}

func (w *play) whoLocked(id uint64) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.who(id)
}

func ending(err error) string {
	for e, s := range map[error]string{rota.ErrFenced: "fenced", rota.ErrOrphaned: "orphaned", rota.ErrStoreLost: "store lost writes", rota.ErrPlanUnwritable: "cannot write the plan"} {
		if errors.Is(err, e) {
			return s
		}
	}
	if err == nil {
		return "left"
	}
	return err.Error()
}

// kill ends a process as SIGKILL does: from now on nothing of it is heard or
// seen, whatever its goroutines still do.
func (p *proc) kill() {
	if !p.up.Swap(false) {
		return
	}
	p.w.observe(check.Event{Kind: check.Gone, Who: p.w.whoLocked(p.m.SessionID())})
	p.link.mu.Lock()
	p.link.cutIn, p.link.cutOut = true, true
	p.link.mu.Unlock()
	close(p.link.gone)
	p.wake()
	p.cancel()
}

// stand blocks while the process is frozen.
func (p *proc) stand() {
	p.mu.Lock()
	f := p.frozen
	p.mu.Unlock()
	if f != nil {
		<-f
	}
}

func (p *proc) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

func (p *proc) wake() {
	p.mu.Lock()
	f, held := p.frozen, p.held
	p.frozen, p.held = nil, nil
	p.mu.Unlock()
	if f == nil {
		return
	}
	if p.up.Load() { // a handler's thread may well be the first to run
		p.w.mu.Lock()
		p.w.aloft = append(p.w.aloft, held...)
		p.w.mu.Unlock()
	}
	close(f)
}

// Partitions implements rota.Source.
func (p *proc) Partitions(ctx context.Context) ([]rota.Partition, error) {
	time.Sleep(latency)
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	if silent {
		return nil, errors.New("the broker does not answer")
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	var out []rota.Partition
	for _, n := range p.w.names {
		out = append(out, rota.Partition{Name: n})
	}
	return out, nil
}

// ListsAll says that the plays' source asks its broker.
func (p *proc) ListsAll() bool { return true }

// Consume implements rota.Source: nothing arrives, but stopping takes as long as
// the play says.
func (p *proc) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	w := p.w
	item := fmt.Sprintf("%s@%d", own.Partition(), uint32(own.Token()))
	if p.up.Load() {
		w.hear(line{who: p.label, verb: "starts", items: []string{item}})
	}
	p.mu.Lock()
	again := p.failed[own.Token()]
	p.mu.Unlock()
	if again {
		p.observe(check.Resume, own)
	}
	p.observe(check.Start, own)
	p.mu.Lock()
	p.owns[own.Partition()] = own
	fails, fault, trip := p.fails, p.fault, p.trip
	p.mu.Unlock()
	defer func() {
		p.stand()
		p.mu.Lock()
		delete(p.owns, own.Partition())
		p.mu.Unlock()
		if p.up.Load() {
			w.hear(line{who: p.label, verb: "stops", items: []string{item}})
			p.observe(check.Stop, own)
		}
	}()
	time.Sleep(latency)
	if fails {
		p.mu.Lock()
		p.failed[own.Token()] = true
		p.mu.Unlock()
		return errors.New(fault)
	}
	own.Started()
	select {
	case <-own.Stop():
		p.mu.Lock()
		mode := p.mode
		p.mu.Unlock()
		if mode != "" {
			deliver(ctx, rota.Message{ID: "last"}) // one that takes its time
		}
	case <-ctx.Done():
	case <-p.link.gone:
	case <-trip:
		p.mu.Lock()
		p.failed[own.Token()] = true
		p.mu.Unlock()
		return errors.New("the source failed")
	}
	return nil
}

func (p *proc) observe(k check.Kind, own rota.Ownership) {
	if !p.up.Load() {
		return
	}
	w := p.w
	id, _ := strconv.ParseUint(own.Session(), 16, 64)
	w.mu.Lock()
	e := check.Event{Kind: k, Who: w.who(id), Part: w.part(own.Partition()), Token: record.Token(own.Token())}
	w.mu.Unlock()
	w.observe(e)
}

// handle is a handler that stops as the play says.
func (p *proc) handle(ctx context.Context, _ rota.Message) error {
	p.mu.Lock()
	mode, slow, freed := p.mode, p.slow, p.freed
	p.mu.Unlock()
	cancelled := ctx.Done()
	var after <-chan time.Time
	switch mode {
	case "slow":
		after = time.After(slow)
	case "stubborn":
		cancelled = nil
	}
	for {
		p.mu.Lock()
		ended := p.ended
		p.mu.Unlock()
		select {
		case <-after:
		case <-cancelled:
		case <-freed:
		case <-p.link.gone:
		case <-ended:
			if ctx.Err() == nil {
				continue // its time is not over
			}
		}
		return nil
	}
}

// transcribe turns a member's event into a line.
func (p *proc) transcribe(e rota.Event) {
	w := p.w
	about := func() string { return w.byText(e.About) }
	switch e.Kind {
	case rota.EventLeader:
		w.say("%s leads", p.label)
	case rota.EventDead:
		w.say("%s declares %s dead", p.label, about())
	case rota.EventEvicted:
		w.say("%s evicts %s", p.label, about())
	case rota.EventLapsed:
		w.say("%s lapses: no lease", p.label)
	case rota.EventWorksOn:
		p.worksOn.Store(true)
		w.say("%s works on: the store does not answer", p.label)
	case rota.EventResumed:
		p.worksOn.Store(false)
		w.say("%s resumes: its lease is back", p.label)
		w.observe(check.Event{Kind: check.Resume, Who: w.whoLocked(p.m.SessionID())})
	case rota.EventLeaving:
		w.say("%s is leaving", p.label)
	case rota.EventSize:
		p.sized(e)
	case rota.EventFenced, rota.EventOrphaned, rota.EventWritesLost:
		if w.cfg.Rejoin { // otherwise it is told by what Run returns
			ends := map[rota.EventKind]string{rota.EventFenced: "fenced", rota.EventOrphaned: "orphaned", rota.EventWritesLost: "store lost writes"}
			w.say("%s ends: %s", p.label, ends[e.Kind])
		}
	case rota.EventCondition:
		p.condition(e, about)
	}
}

func (p *proc) condition(e rota.Event, about func() string) {
	w := p.w
	switch e.Condition {
	case rota.ConditionWritesLost:
		w.say("%s finds that the store lost acknowledged writes", p.label)
	case rota.ConditionTwins:
		w.say("%s sees two processes called %s", p.label, about())
	case rota.ConditionQuarantined:
		w.say("%s quarantines %s", p.label, e.Partition)
	case rota.ConditionStuck:
		w.say("%s finds %s@%d stuck: granted, never started", p.label, e.Partition, uint32(e.Token))
	case rota.ConditionBlocked:
		w.say("%s waits: %s ended on a bug over this plan", p.label, about())
	case rota.ConditionRosterMissing:
		w.say("%s waits for a roster as new as the plan", p.label)
	case rota.ConditionReturned:
		w.say("%s gives %s its place back", p.label, about())
	case rota.ConditionHoldOver:
		w.say("%s ends the hold", p.label)
	case rota.ConditionTokensUsedUp:
		w.say("%s finds the tokens of %s used up", p.label, e.Partition)
	case rota.ConditionLeaseTooLong:
		w.say("%s does not take %s: its lease is too long", p.label, about())
	case rota.ConditionNeededAgain:
		w.say("%s wants %s back", p.label, about())
	case rota.ConditionNotRemoved:
		w.say("%s uses %s again: it has not vanished", p.label, about())
	case rota.ConditionPinIgnored:
		w.say("%s ignores a pin to a member that is not here", p.label)
	}
}
