package rota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/pace"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// The back-off between two calls of Consume, or of a handler, that failed. It doubles
// from the first to the last.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

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
	isFunc bool // a function consumes it, which may act at any time

	lost  atomic.Bool   // cancelled or over: no effect is allowed any more
	over  atomic.Bool   // Consume has returned for the last time
	begun atomic.Bool   // the source has confirmed this call of Consume
	busy  atomic.Int32  // handlers that are running
	looks atomic.Uint32 // what the core knows of the function's looks at its lease: core.Looked, then core.Denied
	moved atomic.Int64  // messages handled, and units of Ownership.Progress
	turn  *pace.Turn    // keeps this partition at the rate of the others
	named time.Time     // when Abort was last called for it; used by the session's loop only
}

func (s *session) startRun(a *core.Action) {
	r := &run{s: s, id: a.ID, token: a.Token, name: a.Name, by: s.id.String(), stop: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(s.ctx)
	r.meta.set(s.metaOf(a.ID))
	r.turn = s.pace.Join()
	_, r.isFunc = s.m.cfg.Source.(*funcSource)
	s.runs[a.ID] = r
	s.tellRun(EventGrant, r, "")
	s.goDo(r.live)
}

// end makes the run stop: gracefully, or at once if now is set. because is for people.
func (r *run) end(now bool, because string) {
	if now {
		r.lost.Store(true) // before stop closes: a graceful stop would take too long
	}
	r.once.Do(func() {
		r.s.tellRun(EventStop, r, because)
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
	if r.lost.Load() || r.s.over.Load() || r.s.slept() || !rule.CheckBeforeEveryEffect.Off() && int64(r.s.m.now()) >= r.s.lease.Load() {
		return ErrLost
	}
	return nil
}

func (r *run) remaining() time.Duration {
	if r.look() != nil {
		return 0
	}
	return max(core.Time(r.s.lease.Load()).Sub(r.s.m.now()), 0)
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
	if !r.begun.Swap(true) {
		r.s.m.sourceAnswered.Store(true)
		r.s.tellRun(EventStart, r, "")
		r.s.send(core.Event{Kind: core.Started, ID: r.id, Token: r.token})
	}
}

func (r *run) progress(n int) { r.moved.Add(int64(n)) }

func (r *run) asked() bool { return r.stopAsked() || r.lost.Load() || r.ctx.Err() != nil }

func (r *run) stopAsked() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// live calls Consume until the run must end or the source has failed too often.
func (r *run) live() {
	kind, because := core.Stopped, ""
	defer func() {
		r.over.Store(true)
		r.lost.Store(true) // an Ownership that somebody kept must fail: the next owner may start now
		r.cancel()
		r.turn.Leave()
		r.s.tellRun(EventStopped, r, because)
		r.s.send(core.Event{Kind: kind, ID: r.id, Token: r.token, Text: because})
	}()
	fails, wait := 0, firstBackoff
	for {
		before := r.moved.Load()
		err := r.consume()
		if r.asked() {
			return
		}
		if r.moved.Load() != before {
			fails, wait = 0, firstBackoff
		}
		fails++
		why := "the source returned without being asked"
		if err != nil {
			why = fmt.Sprintf("the source failed: %v", err)
			r.s.sourceAway(err, ConditionSourceFailed, r.name, why)
		}
		if fails >= r.s.m.sourceFailures {
			kind, because = core.GivenUp, why
			return
		}
		select {
		case <-r.stop:
			return
		case <-r.ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, lastBackoff)
		r.begun.Store(false)
		r.s.send(core.Event{Kind: core.Retrying, ID: r.id, Token: r.token})
	}
}

func (r *run) consume() error {
	src := r.s.m.cfg.Source
	r.s.tellRun(EventStarting, r, "")
	if r.isFunc {
		r.busy.Add(1) // its function may act at any time
		defer r.busy.Add(-1)
	}
	return src.Consume(r.ctx, Ownership{r}, r.deliver)
}

// deliver is the Deliver that Consume gets.
func (r *run) deliver(ctx context.Context, msgs ...Message) (n int, err error) {
	for i := range msgs {
		msgs[i].Partition, msgs[i].Token, msgs[i].Session = r.name, Token(r.token), r.by
		msgs[i].Attempt = max(msgs[i].Attempt, 1)
		msgs[i].own = Ownership{r}
	}
	c := &r.s.m.cfg
	switch {
	case c.HandleBatch != nil:
		return r.batch(ctx, msgs)
	case c.Parallel > 1:
		return r.parallel(ctx, msgs)
	}
	for i := range msgs {
		if err := r.one(ctx, &msgs[i]); err != nil {
			return i, err
		}
	}
	return len(msgs), nil
}

// one handles one message. It retries until the message is done or dead, or the
// partition must be given up.
func (r *run) one(ctx context.Context, msg *Message) error {
	wait := firstBackoff
	for {
		at, err := r.enter(ctx)
		if err != nil {
			return err
		}
		r.trace(EventHandle, *msg, nil)
		err = r.s.m.cfg.Handle(r.ctx, *msg)
		r.trace(EventHandled, *msg, err)
		if err == nil {
			r.leave(at, 1)
			return nil
		}
		r.leave(at, 0)
		if err := r.failed(msg, err); err != nil {
			return err
		}
		if err := r.pause(wait); err != nil {
			return err
		}
		wait = min(2*wait, lastBackoff)
	}
}

// failed reports the handler's error about a message. It returns nil if the message
// is to be retried.
func (r *run) failed(msg *Message, err error) error {
	untried := errors.Is(err, ErrUntried)
	if untried {
		r.s.condition(ConditionUntried, r.name, strings.TrimPrefix(err.Error(), "rota: "))
	} else {
		r.s.tellFailed(r, msg, err)
	}
	switch {
	case r.check() != nil:
		return ErrLost
	case untried:
		return nil
	case msg.Attempt >= r.s.m.cfg.Attempts:
		return fmt.Errorf("%w: %w", ErrDead, err)
	}
	msg.Attempt++
	return nil
}

// enter waits until it is this partition's turn, counts the delivery as busy and then
// checks the lease. In this order: if abort finds no busy handler after the lease has
// expired, none can begin later.
func (r *run) enter(ctx context.Context) (at time.Time, err error) {
	at, err = r.turn.Wait(r.ctx, r.stop)
	if err != nil || ctx.Err() != nil || r.lost.Load() {
		return at, ErrLost
	}
	// busy-before-asking: A delivery counts as busy before it asks for the lease.
	// Without it: The lease ends between the question and the count. The abort finds nobody
	// busy, and the handler begins after it.
	if rule.BusyBeforeAsking.Off() && r.check() == nil {
		r.busy.Add(1)
		return at, nil
	}
	r.busy.Add(1)
	if err := r.check(); err != nil {
		r.busy.Add(-1)
		return at, err
	}
	return at, nil
}

// leave records that the handler which entered at the given time has returned with n
// messages done.
func (r *run) leave(at time.Time, n int) {
	r.busy.Add(-1)
	r.moved.Add(int64(n))
	r.turn.Done(at, n)
}

// pause is the back-off before a retry. A stop ends it, and the message goes back to
// the broker.
func (r *run) pause(d time.Duration) error {
	r.turn.Rest()
	select {
	case <-time.After(d):
		return nil
	case <-r.stop:
		return ErrStop
	case <-r.ctx.Done():
		return ErrLost
	}
}

// batch calls HandleBatch with all messages, and again with those that are not done.
func (r *run) batch(ctx context.Context, msgs []Message) (n int, err error) {
	wait := firstBackoff
	for n < len(msgs) {
		at, err := r.enter(ctx)
		if err != nil {
			return n, err
		}
		r.traceAll(EventHandle, msgs[n:], nil)
		k, err := r.s.m.cfg.HandleBatch(r.ctx, msgs[n:])
		k = min(max(k, 0), len(msgs)-n)
		r.traceAll(EventHandled, msgs[n:n+k], nil)
		r.leave(at, k)
		if err == nil && k == 0 {
			err = errors.New("the handler finished no message and returned no error")
		}
		if k > 0 {
			n, wait = n+k, firstBackoff
		}
		if err == nil || n == len(msgs) {
			continue
		}
		r.trace(EventHandled, msgs[n], err)
		if err := r.failed(&msgs[n], err); err != nil {
			return n, err
		}
		if err := r.pause(wait); err != nil {
			return n, err
		}
		wait = min(2*wait, lastBackoff)
	}
	return n, nil
}

// parallel handles several messages at once and returns how many from the front are
// done. Messages done after the first failed one will be redelivered, so no more are
// begun once one has failed.
func (r *run) parallel(ctx context.Context, msgs []Message) (int, error) {
	errs := make([]error, len(msgs))
	slots := make(chan struct{}, r.s.m.cfg.Parallel)
	var failed atomic.Bool
	var wg sync.WaitGroup
	for i := range msgs {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		wg.Go(func() {
			errs[i] = r.one(ctx, &msgs[i])
			failed.CompareAndSwap(false, errs[i] != nil)
			<-slots
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return i, err
		}
	}
	return len(msgs), nil
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
