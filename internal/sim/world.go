// Package sim plays many cores against one faulty store in virtual time. A run
// is a seed: the same seed gives the same run, event for event. The same world,
// without chance, also plays scenario files.
package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/speed"
)

// A World is one store, its members and everything that happens between them.
type World struct {
	opt    Options
	seed   uint64
	rng    *rand.Rand
	pcg    rand.PCG
	calm   bool // no chance at all: scenarios
	healed bool // the second phase: no more faults

	now    int64 // true time, ns; no member knows it
	queue  queue
	cur    item // the one that happens now
	store  store
	meter  meter
	scaler scaler
	hosts  []*host
	era    uint32
	server string // the store's identity, where a play gives it one
	chunk  []core.Entry

	// Partitions and sessions by the numbers that the checkers know.
	names []string
	who   []record.Session
	hash  map[record.Session]int32

	sink    []sinkCell
	begun   map[uint32]uint64 // incarnations, and the write that began each
	granted map[grant]int32   // who was given a token
	aloft   []item            // effects that a play has not let land yet
	checks  check.Checker
	bad     *check.Violation
	final   check.Final
	stats   Stats
	marks   *Marks

	twins   bool      // there have been two processes of one name
	lossy   bool      // the store has lost something
	emptied bool      // even the plan
	blind   int64     // until then only the sink is sure
	doubted uint32    // incarnations up to this one suffer from a loss
	lostAt  int64     // when the store last lost something
	script  *scripted // the play is a script, and more can be asked of it

	tell *teller // writes the schedule down as a script

	log  func(at int64, line string)
	hear func(seenLine)
	tap  func(n *core.Node, now core.Time, ev *core.Event) // sees every step before it is taken
	acts func(a *core.Action)                              // sees what a node wants done

	// Where clocks, revisions and incarnations begin: must make no difference.
	shift    int64
	firstRev core.Rev
	firstEra uint32
}

// A host is one place where a member runs: one name, one process at a time.
type host struct {
	name     string
	index    int
	node     *core.Node
	cfg      core.Config
	who      int32
	epoch    uint32 // of the process: what was meant for an earlier one is dropped
	up       bool
	paused   bool
	held     []item // events waiting for a paused process
	rate     int64  // clock rate, parts per million off
	base     int64  // local time at true time zero
	suspend  int64  // how long its clock has stood still (only with a bad clock)
	tick     int64  // when the next tick is queued for
	lease    core.Time
	cutOut   bool // its requests do not arrive
	cutIn    bool // answers and watches do not arrive
	watch    core.Watch
	calls    []call
	nextCall uint32
	starts   uint32
	runs     []hrun
	trouble
	plan     string // what it said of its newest plan
	ended    core.Cause
	restart  bool
	removed  bool // a Scaler ends it
	asleep   bool // paused with the whole machine
	pausedAt int64
	woke     int64          // when it was last heard of again, after a pause or a cut
	troubled bool           // a play has done something to it
	was      record.Session // its session before, if the process lived on
	begun    bool           // it has had a session: the next is not its first
	server   string         // identity of the store's server, as last told
	silent   bool           // the source does not tell it its partitions
	short    bool           // or not all of them
	gauge    speed.Gauge
}

// trouble is what ails a process, until it is started again.
type trouble struct {
	mute       int64  // since when the store does not answer its calls; 0 if it does
	late       []item // answers that are delayed meanwhile
	slow       bool   // handlers take long to stop
	slowFor    int64  // at least so long
	hung       bool   // handlers do not stop when asked
	stubborn   bool   // nor when cancelled
	fails      bool   // the source does not confirm starts
	refuses    bool   // and its reason is another one
	watchDrops bool   // watches show nothing
	watchLate  int64  // or late
	outLate    int64  // its requests take longer
	inLate     int64  // answers to it take longer
	outLost    bool   // or do not arrive
	inLost     bool
	noReads    bool   // its reads fail
	hides      string // whom its listings lack
	leaves     bool   // it was told to leave
	gaveUp     int    // starts that failed
}

// A call is a store call under way, as its caller sees it.
type call struct {
	id   uint32
	key  core.Key
	verb core.Verb
}

// hrun is one partition as the host runs it.
type hrun struct {
	id     record.ID
	part   int32
	token  record.Token
	asked  bool // told to stop
	cancel bool
	busy   bool   // a handler is at work
	nth    uint32 // which start of the process: a word about an earlier one is stale
	failed int    // how often its source has failed in a row
	idle   bool   // it waits until the source is tried again
}

type sinkCell struct {
	token record.Token
	who   int32
	any   bool
}

// A grant is one ownership of one partition.
type grant struct {
	part  int32
	token record.Token
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

// local turns true time into the host's.
func (h *host) local(now int64) core.Time {
	t := now - h.suspend
	return core.Time(h.base + t + t/1_000_000*h.rate)
}

// global turns the host's time into true time, never too early.
func (h *host) global(t core.Time) int64 {
	if t == core.Never {
		return int64(core.Never)
	}
	d := int64(t) - h.base
	g := d - d/(1_000_000+h.rate)*h.rate
	for h.local(g+h.suspend) < t {
		g += 1000
	}
	return g + h.suspend
}

// entry gives memory for one store entry that lives as long as the run.
func (w *World) entry(e core.Entry) []core.Entry {
	if len(w.chunk) == cap(w.chunk) {
		w.chunk = make([]core.Entry, 0, 256)
	}
	w.chunk = append(w.chunk, e)
	n := len(w.chunk)
	return w.chunk[n-1 : n : n]
}

// join starts a process on h with a new session.
func (w *World) join(h *host) {
	if w.tell != nil {
		w.tell.say(w.now, "join %s", w.tell.name(h))
	}
	h.epoch++
	h.up, h.paused, h.ended = true, false, core.NotEnded
	h.runs, h.calls, h.held = h.runs[:0], h.calls[:0], h.held[:0]
	h.watch = core.Watch{}
	h.lease, h.tick = 0, int64(core.Never)
	h.trouble = trouble{}
	h.gauge = speed.Gauge{}
	h.cfg = w.opt.Config
	h.cfg.Name, _, _ = strings.Cut(h.name, "/")
	h.cfg.Session = w.session(h)
	h.cfg.Hash = uint32(uint64(h.cfg.Session)>>7) ^ uint32(h.cfg.Session)
	h.cfg.Era = w.eraNow()
	h.cfg.Fresh = h.cfg.Fresh && w.vouched(h)
	h.begun = true
	h.removed = false
	if w.opt.Tune != nil {
		w.opt.Tune(h.index, &h.cfg)
	}
	if h.was != 0 {
		self := record.Member{}
		if h.cfg.Self != nil {
			self = *h.cfg.Self
		}
		self.Was, h.was = h.was, 0
		h.cfg.Self = &self
	}
	for _, o := range w.hosts {
		if o != h && o.up && o.cfg.Name == h.cfg.Name {
			w.twins = true
			w.marks.Twins++
		}
	}
	h.node = core.New(&h.cfg)
	h.who = int32(len(w.who))
	w.who = append(w.who, h.cfg.Session)
	w.hash[h.cfg.Session] = h.who
	if w.hear == nil {
		w.say(h, "starts")
	}
	h.server = ""
	if s := h.cfg.Self; s != nil && s.Took > 0 { // the shell opens the store first
		w.push(w.now+int64(s.Took), item{kind: evBegin, host: h, epoch: h.epoch})
		return
	}
	w.begin(h)
}

func (w *World) begin(h *host) {
	w.deliver(h, &core.Event{Kind: core.Begin})
	w.identify(h)
}

// eraNow is the wall clock. Here no two looks at it are alike: that real ones are
// for 4 s, and two incarnations begun within them, is left to the documentation.
func (w *World) eraNow() uint32 {
	w.era++
	return w.era
}

// vouched: an operator says of a store that it is new (Config.NewGroup, or an
// Embed that has made its folder) when he starts a member for the first time, and
// the shell believes it for the first session of that process. Nobody says so of
// a store that has been emptied since; that one is emptied between the start of a
// process and its first plan is left to the documentation.
func (w *World) vouched(h *host) bool { return !h.begun && !w.emptied }

// session draws a session id. Without chance they are numbered, so that
// transcripts are the same for ever.
func (w *World) session(h *host) record.Session {
	if w.calm {
		return record.Session(uint64(len(w.who)+1)*1000 + uint64(h.index) + 1)
	}
	for {
		if s := record.Session(w.rng.Uint64()); s != 0 {
			return s
		}
	}
}

// identify tells h which server the store is connected to, if it can ask.
func (w *World) identify(h *host) {
	if h.up && !h.cutIn && !h.cutOut && !h.noReads && h.server != w.server {
		h.server = w.server
		w.push(w.now+w.delay(h), item{kind: evCore, host: h, epoch: h.epoch, ev: core.Event{Kind: core.Server, Text: w.server}})
	}
}

// become makes the store another server: connections break off, and whoever can
// connect again learns of it.
func (w *World) become(server string) {
	w.server = server
	for _, h := range w.hosts {
		if h.up && !h.cutIn && !h.cutOut {
			w.reconnect(h)
		}
	}
}

// kill ends the process at once. What it sent stays on its way.
func (w *World) kill(h *host) {
	if !h.up {
		return
	}
	h.up, h.was = false, 0
	h.epoch++
	h.runs, h.held = h.runs[:0], h.held[:0]
	w.judge(check.Event{Kind: check.Gone, Who: h.who})
}

// deliver steps the host's node with ev and does what it says.
func (w *World) deliver(h *host, ev *core.Event) {
	if !h.up {
		return
	}
	w.stats.Steps++
	if w.script != nil && w.stats.Steps == mostSteps {
		w.fail("busy", "%s is at it again, after %d steps", h.name, mostSteps)
	}
	if w.tap != nil {
		w.tap(h.node, h.local(w.now), ev)
	}
	acts := h.node.Step(h.local(w.now), *ev)
	if l := h.node.Lease(); l != h.lease {
		h.lease = l
		w.judge(check.Event{Kind: check.Lease, Who: h.who, Until: h.global(l)})
	}
	epoch := h.epoch
	for i := range acts {
		if h.epoch != epoch {
			return // it ended itself on the way
		}
		w.act(h, &acts[i])
	}
	if h.epoch == epoch {
		w.arm(h)
	}
}

// arm queues the tick that the node wants next.
func (w *World) arm(h *host) {
	next := h.node.Next()
	if next == core.Never {
		return
	}
	at := max(h.global(next), w.now)
	if at < h.tick || h.tick <= w.now {
		h.tick = at
		w.push(at, item{kind: evTick, host: h, epoch: h.epoch})
	}
}

func (w *World) judge(e check.Event) {
	e.At = w.now
	switch e.Kind {
	case check.Rollback:
		w.lossy, w.lostAt, w.blind = true, w.now, max(w.blind, e.Until)
		w.doubted = max(w.doubted, w.incarnation())
	case check.Sure:
		w.blind = min(w.blind, w.now)
	}
	if v := w.checks.See(e); v != nil && w.bad == nil {
		w.bad = v
	}
}

// act does one thing that a node wants done.
func (w *World) act(h *host, a *core.Action) {
	if w.acts != nil {
		w.acts(a)
	}
	switch a.Do {
	case core.DoCall:
		w.call(h, a)
	case core.DoWatch:
		w.setWatch(h, a.Watch)
	case core.DoStart:
		w.startRun(h, a)
	case core.DoStop, core.DoCancel:
		w.stopRun(h, a)
	case core.DoAsk:
		w.push(w.now+w.delay(h), item{kind: evListing, host: h, epoch: h.epoch})
	case core.DoMeasure:
		w.push(w.now+w.delay(h), item{kind: evMeasured, host: h, epoch: h.epoch})
	case core.DoScale:
		w.scale(h, a.Fleet)
	case core.DoClose:
		w.push(w.now, item{kind: evCore, host: h, epoch: h.epoch, ev: core.Event{Kind: core.Closed}})
	case core.DoAbort:
		w.abort(h, a.Late)
	case core.DoEnd:
		h.ended = a.Cause
		w.marks.end(a.Cause)
		w.sayEnd(h, a.Cause)
		w.kill(h)
		if !h.removed {
			w.restartLater(h)
		}
		if w.opt.rejoin && a.Cause != core.ByLeave {
			h.restart, h.was = true, h.cfg.Session
			w.push(w.now+int64(h.cfg.Retry), item{kind: evRestart, host: h, epoch: h.epoch})
		}
	case core.DoNote:
		w.note(h, a)
	}
}

// abort is the shell's last resort. A handler at work can only be ended with
// its process, unless Config.Abort knows better: that of `rota run` kills the
// commands whose time is over and returns. Without a handler at work, what runs
// is closed at once.
func (w *World) abort(h *host, late []record.ID) {
	busy := slices.ContainsFunc(h.runs, func(r hrun) bool { return slices.Contains(late, r.id) && (r.busy || w.opt.funcs) })
	if (busy || h.hung || h.stubborn || h.slow) && !w.opt.abortReturns {
		w.marks.Aborts++
		w.say(h, "ends itself: a handler outlived its time")
		w.kill(h)
		w.restartLater(h)
		return
	}
	for i := range h.runs {
		if r := &h.runs[i]; r.cancel {
			r.busy = false
			w.push(w.now, item{kind: evStopped, host: h, epoch: h.epoch, run: *r})
		}
	}
}

// startRun: the partition runs from the moment it is ordered, which is the
// earliest that a handler could see a message.
func (w *World) startRun(h *host, a *core.Action) {
	part := w.part(a.Name)
	h.starts++
	r := hrun{id: a.ID, part: part, token: a.Token, nth: h.starts}
	h.runs = append(h.runs, r)
	w.sayRun(h, "starts", a.Name, a.Token)
	w.judge(check.Event{Kind: check.Start, Who: h.who, Part: part, Token: a.Token})
	w.subscribe(h, r)
	w.workLater(h, r)
}

// subscribe: the source confirms the run sooner or later, or fails.
func (w *World) subscribe(h *host, r hrun) {
	at := w.now + w.delay(h)
	if w.chance(w.opt.noise.slowStart) {
		w.stats.Faults[SlowStart]++
		at += w.span(ms(200), ms(6000))
	}
	if !h.fails {
		w.push(at, item{kind: evStarted, host: h, epoch: h.epoch, run: r})
		return
	}
	// A play may give up at once, but not for ever.
	if h.gaveUp++; w.script != nil && h.gaveUp > 3 {
		at += ms(3000)
	}
	w.push(at, item{kind: evFailed, host: h, epoch: h.epoch, run: r})
}

// failed: the source has returned without being asked. The shell tries it again
// after a while, and gives the partition up when that does not help.
func (w *World) failed(h *host, r hrun) {
	i := h.find(r)
	if i < 0 || h.runs[i].asked || h.runs[i].cancel {
		return
	}
	x := &h.runs[i]
	if x.failed++; x.failed >= w.opt.failures {
		w.stopped(h, *x, core.GivenUp)
		return
	}
	x.idle = true
	w.marks.Retried++
	w.sayRun(h, "stops", w.names[x.part], x.token)
	w.judge(check.Event{Kind: check.Stop, Who: h.who, Part: x.part, Token: x.token})
	w.push(w.now+ms(100)<<(x.failed-1), item{kind: evRetry, host: h, epoch: h.epoch, run: *x})
}

// retry: the source is tried again.
func (w *World) retry(h *host, r hrun) {
	i := h.find(r)
	if i < 0 || h.runs[i].asked || h.runs[i].cancel {
		return
	}
	x := &h.runs[i]
	x.idle = false
	w.sayRun(h, "starts", w.names[x.part], x.token)
	w.judge(check.Event{Kind: check.Resume, Who: h.who})
	w.judge(check.Event{Kind: check.Start, Who: h.who, Part: x.part, Token: x.token})
	w.subscribe(h, *x)
	w.deliver(h, &core.Event{Kind: core.Retrying, ID: x.id, Token: x.token})
}

// stopRun asks a run to stop; how long that takes is the handler's affair.
func (w *World) stopRun(h *host, a *core.Action) {
	i := slices.IndexFunc(h.runs, func(r hrun) bool { return r.id == a.ID && r.token == a.Token })
	if i < 0 {
		return
	}
	r := &h.runs[i]
	if a.Do == core.DoCancel {
		r.cancel = true
		if h.stubborn {
			return
		}
	} else {
		r.asked = true
		if h.hung || h.stubborn {
			return
		}
	}
	at := w.now + w.quick()
	if h.slow && a.Do == core.DoStop {
		at = w.now + max(h.slowFor, w.span(ms(200), ms(4000)))
	}
	w.push(at, item{kind: evStopped, host: h, epoch: h.epoch, run: *r})
}

// stopped: the run is over as far as the outside can tell.
func (w *World) stopped(h *host, r hrun, kind core.Kind) {
	i := h.find(r)
	if i < 0 {
		return
	}
	idle := h.runs[i].idle
	h.runs = append(h.runs[:i], h.runs[i+1:]...)
	if !idle {
		w.sayRun(h, "stops", w.names[r.part], r.token)
		w.judge(check.Event{Kind: check.Stop, Who: h.who, Part: r.part, Token: r.token})
	}
	why := "the source failed"
	if h.refuses {
		why = "the source refused"
	}
	w.deliver(h, &core.Event{Kind: kind, ID: r.id, Token: r.token, Text: why})
}

// find looks for this very start of a run.
func (h *host) find(r hrun) int {
	return slices.IndexFunc(h.runs, func(x hrun) bool { return x.nth == r.nth })
}

// part numbers a partition by its name.
func (w *World) part(name string) int32 {
	for i, n := range w.names {
		if n == name {
			return int32(i)
		}
	}
	w.names = append(w.names, name)
	w.sink = append(w.sink, sinkCell{})
	w.checks.Grow(len(w.names))
	return int32(len(w.names) - 1)
}
