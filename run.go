package rota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/pace"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// sourceBackoff is the back-off between two calls of Consume that failed.
var sourceBackoff = backoff{100 * time.Millisecond, 10 * time.Second}

// A run consumes one partition: it calls Source.Consume, again if that fails, until
// the plan revokes the partition or the lease lapses.
type run struct {
	s      *session
	id     record.ID
	token  record.Token
	name   string
	by     string // the session, as in Message.Session
	ctx    context.Context
	cancel context.CancelFunc
	stop   chan struct{}
	once   sync.Once
	meta   metaCell
	topic  atomic.Pointer[string]
	isFunc bool          // a function consumes it, which may act at any time
	replay metaCell      // the order to replay letters, if there is one
	slots  chan struct{} // a semaphore: one element per handler that is running

	askedAt atomic.Pointer[time.Time] // when stop was closed

	lost    atomic.Bool   // cancelled or over: no effect is allowed any more
	over    atomic.Bool   // Consume has returned for the last time
	begun   atomic.Bool   // the source has confirmed this call of Consume
	busy    atomic.Int32  // handlers that are running
	looks   atomic.Uint32 // what the core knows of the function's looks at its lease: core.Looked, then core.Denied
	moved   atomic.Int64  // messages handled, and units of Ownership.Progress
	settled atomic.Int64  // what moved was at the last settlement
	turn    *pace.Turn    // keeps this partition at the rate of the others
	halted  atomic.Bool   // the sink refused our token: no effect is allowed before the next call of Consume
	refused atomic.Int32  // how often the sink refused our token, since a message was last handled
	failing failing
	pulse   pulse
	took    atomic.Int64 // nanoseconds that the last message took; 0 if none was handled yet
	worked  atomic.Int64 // nanoseconds that handlers have worked
	named   time.Time    // when Abort was last called for it; used by the session's loop only
}

func (s *session) startRun(a *core.Action) {
	r := &run{s: s, id: a.ID, token: a.Token, name: a.Name, by: s.id.String(), stop: make(chan struct{}),
		slots: make(chan struct{}, max(s.m.cfg.Parallel, 1))}
	r.ctx, r.cancel = context.WithCancel(s.ctx)
	r.setMeta(s.metaOf(a.ID))
	r.turn = s.pace.Join()
	_, r.isFunc = s.m.cfg.Source.(*funcSource)
	s.runs[a.ID] = r
	s.tally.start(r)
	s.tellRunMeta(EventGrant, r)
	s.goDo(r.live)
}

// end makes the run stop: gracefully, or at once if now is set. because is for people.
func (r *run) end(now bool, because string) {
	if now {
		r.lost.Store(true) // before stop closes: a graceful stop would take too long
	}
	r.once.Do(func() {
		r.s.tellRun(EventStop, r, because)
		now := time.Now()
		r.askedAt.Store(&now)
		close(r.stop)
	})
	if now {
		r.cancel()
	}
}

// check returns ErrLost if the run must not act. It is called directly before every
// delivery and every settlement, and reads the clock that counts suspend. A timer
// alone would not do: in a process that wakes after SIGSTOP a handler may run before
// the timer fires.
func (r *run) check() error {
	if r.s.m.testPause != nil {
		r.s.m.testPause()
	}
	// Ask slept before the lease is read: lookForJump withdraws the lease first and
	// stores the drift afterwards, so that one of the two always shows a sleep.
	// check-before-every-effect: The lease is asked directly before every effect.
	// Without it: C1 is frozen past its lease, and q goes to C2. C1 wakes up, and its
	// handler acts before any timer has fired.
	if r.lost.Load() || r.halted.Load() || r.s.over.Load() || r.s.slept() || !rule.CheckBeforeEveryEffect.Off() && int64(r.s.m.now()) >= r.s.trust.Load() {
		return ErrLost
	}
	return nil
}

func (r *run) remaining() time.Duration {
	if r.look() != nil {
		return 0
	}
	return max(core.Time(r.s.trust.Load()).Sub(r.s.m.now()), 0)
}

// look is check as a function of rota.Func calls it: the core learns that it asks
// before it acts, and that it was refused.
func (r *run) look() error {
	err := r.check()
	got := core.Looked
	if err != nil {
		got = core.Denied
	}
	if known := r.looks.Load(); r.isFunc && known < uint32(got) && r.looks.CompareAndSwap(known, uint32(got)) {
		select {
		case r.s.inbox <- core.Event{Kind: got, ID: r.id, Token: r.token}:
		default:
			r.looks.CompareAndSwap(uint32(got), known) // the loop is busy: the next look tells it
		}
	}
	return err
}

func (r *run) confirm() {
	if !r.begun.Load() {
		r.pulse.delivered.Store(r.s.elapsed()) // before it counts as begun
	}
	if !r.begun.Swap(true) {
		r.s.m.sourceAnswered.Store(true)
		r.s.tellRun(EventStart, r, "")
		r.s.send(core.Event{Kind: core.Started, ID: r.id, Token: r.token})
	}
}

func (r *run) progress(n int) {
	r.pulse.progressed.Store(max(r.s.elapsed(), 1))
	r.goesOn()
	r.settled.Store(r.moved.Add(int64(n)))
}

func (r *run) asked() bool { return r.stopAsked() || r.lost.Load() || r.ctx.Err() != nil }

func (r *run) stopAsked() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// live serves the partition, and tells when nothing of it runs any more.
func (r *run) live() {
	kind, because, returned := core.Stopped, "", false
	var replays sync.WaitGroup
	if from, ok := r.s.m.cfg.Source.(DeadLetters); ok {
		replays.Go(func() { r.replays(from) })
	}
	defer func() {
		if !returned { // a handler's panic must crash the process now, and not wait for a replay
			r.s.goDo(func() { r.finish(&replays, kind, because) })
		}
	}()
	kind, because = r.serve()
	returned = true
	if kind == core.Stopped && !r.lost.Load() {
		replays.Wait() // a letter in hand is finished, with its ctx
	}
	r.finish(&replays, kind, because)
}

// finish tells that nothing of the run is left. It is not inlined, see tellRun.
//
//go:noinline
func (r *run) finish(replays *sync.WaitGroup, kind core.Kind, because string) {
	r.cancel() // of a run that is given up nobody asks the replays to stop
	replays.Wait()
	r.over.Store(true)
	r.lost.Store(true) // an Ownership that somebody kept must fail: the next owner may start now
	r.turn.Leave()
	r.s.tally.end(r)
	r.s.conditions.over(ConditionTokenRefused, r.name)
	r.goesOn()
	r.s.tellRun(EventStopped, r, because)
	r.s.send(core.Event{Kind: kind, ID: r.id, Token: r.token, Text: because})
}

// serve calls Consume until the run must end or the source has failed too often.
func (r *run) serve() (kind core.Kind, because string) {
	fails, pause := 0, sourceBackoff
	for {
		before := r.moved.Load()
		err := r.consume()
		if r.asked() {
			return core.Stopped, ""
		}
		if r.halted.Load() { // no fault of the source: it is called again however often this happens
			fails = 0
		} else {
			// A source that delivers messages and cannot settle them has done nothing: they
			// are redelivered, and without the back-off at once, for ever.
			if r.settled.Load() > before {
				fails, pause = 0, sourceBackoff
			}
			fails++
			because = r.sourceFailed(err)
		}
		if fails >= r.s.m.sourceFailures {
			return core.GivenUp, because
		}
		if r.rest(pause.step()) != nil {
			return core.Stopped, ""
		}
		r.begun.Store(false)
		r.halted.Store(false)
		r.retrying()
	}
}

// retrying is not inlined, see tellRun.
//
//go:noinline
func (r *run) retrying() { r.s.send(core.Event{Kind: core.Retrying, ID: r.id, Token: r.token}) }

// sourceFailed reports that Consume returned without being asked, and says it in words.
func (r *run) sourceFailed(err error) string {
	who := "the source"
	if r.isFunc {
		who = "its function"
	}
	if err == nil {
		return who + " returned without being asked"
	}
	why := withoutName(fmt.Sprintf("%s failed: %v", who, err), r.name)
	r.s.sourceAway(err, ConditionSourceFailed, r.name, why)
	return why
}

func (r *run) consume() error {
	src := r.s.m.cfg.Source
	r.s.tellRun(EventStarting, r, "")
	r.pulse.progressed.Store(0)
	r.pulse.consuming.Store(true)
	defer r.pulse.consuming.Store(false)
	if r.isFunc {
		r.busy.Add(1) // its function may act at any time
		defer r.busy.Add(-1)
	}
	return src.Consume(r.ctx, Ownership{r}, r.deliver)
}

// abort calls Config.Abort for each of some runs that still has a busy handler at the
// end of its lease or its stop time: such a handler can only be ended with its process.
// A run without a busy handler has merely not returned yet and can have no effect, since
// check refuses every delivery; it has another Margin to return. An Abort that returns
// has ended one handler at best, so all runs are looked at again after that time, even
// if the core does not ask for it.
func (s *session) abort(late []*run) {
	for _, r := range late {
		if r.busy.Load() > 0 {
			s.name(r, handlerRuns)
			// shell-aborts-again: The shell ends every run that overstays, and looks again
			// after an abort that returned.
			// Without it: Two handlers overstay the lease. Config.Abort ends the first and
			// returns; the second works on.
			if rule.ShellAbortsAgain.Off() {
				return
			}
		}
	}
	s.abortAt = time.Now().Add(s.m.timing.Margin)
}

const (
	handlerRuns = "handler for %s is still running after its lease or stop time"
	sourceRuns  = "source of %s has not returned after its lease or stop time"
)

// forceStop repeats abort until every cancelled run has returned. It also aborts runs
// without a busy handler.
func (s *session) forceStop() {
	if s.abortAt.IsZero() || time.Now().Before(s.abortAt) {
		return
	}
	s.abortAt = time.Time{}
	for _, r := range s.late() {
		if r.busy.Load() > 0 {
			s.name(r, handlerRuns)
		} else {
			s.name(r, sourceRuns)
		}
		// shell-aborts-again: see abort.
		if rule.ShellAbortsAgain.Off() {
			return
		}
		s.abortAt = time.Now().Add(s.m.timing.Margin)
	}
}

// late are the runs that were cancelled and have not returned.
func (s *session) late() (runs []*run) {
	for _, id := range slices.Sorted(maps.Keys(s.runs)) {
		if r := s.runs[id]; r.lost.Load() && !r.over.Load() {
			runs = append(runs, r)
		}
	}
	return runs
}

// among returns those of the late runs that the core names.
func (s *session) among(ids []record.ID) []*run {
	return slices.DeleteFunc(s.late(), func(r *run) bool {
		_, named := slices.BinarySearch(ids, r.id)
		return !named
	})
}

// name calls Config.Abort for a run, at most once per Margin.
func (s *session) name(r *run, what string) {
	if !r.named.IsZero() && time.Since(r.named) < s.m.timing.Margin {
		return
	}
	s.m.cfg.Abort(fmt.Errorf("rota: %s: "+what+": aborting the process", s.m.name, r.name))
	r.named = time.Now()
}
