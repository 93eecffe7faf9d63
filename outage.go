package rota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rota-dev/rota/internal/core"
)

// An outage is a time in which the store does not answer.
type outage struct {
	mu    sync.Mutex
	heard core.Time     // when the store last answered
	mute  bool          // it does not answer
	known bool          // and that was reported
	since core.Time     // when the first call was sent that it did not answer
	back  chan struct{} // closed when it answers again
	last  error         // of the last call that failed
	write error         // of the last write that failed, until one succeeds: a full store answers reads
	plan  error         // of the last write of the plan that failed
}

// storeAway paces the reports of one outage, whatever its errors say.
var storeAway = ConditionInfo{Code: Condition(EventStoreLost)}

// flicker is the longest outage that does not begin the pauses between reports anew. If a
// store refuses one kind of call, because it is full or a value too large, it answers the
// others in between: without this, every such pair of calls would be reported.
const flicker = time.Second

// hearStore reports when the store stops answering, with growing pauses while it does
// not, and when it answers again. An error that will not end by itself ends a member
// that never had an answer.
func (s *session) hearStore(a *core.Action, sent core.Time, err error) {
	if err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		s.m.storeAnswered.Store(true)
		known, lasted := s.outage.answered(s.m.now(), a.Verb == core.Put)
		if lasted > flicker {
			s.m.repeats.end(storeAway)
		}
		if known {
			s.tell(Event{Kind: EventStoreBack})
		}
		return
	}
	if s.ctx.Err() != nil {
		return // the session is over: it is not the store that failed
	}
	if err == context.DeadlineExceeded {
		err = fmt.Errorf("no answer within %v: %w", s.m.timing.CallTime(), err)
	}
	counts := s.outage.failed(sent, err, a)
	switch {
	case errors.Is(err, ErrPermanent) && !s.m.storeAnswered.Load():
		s.refuse(fmt.Errorf("rota: the store cannot be used: %w", err))
		return
	case !counts:
		return
	}
	times, due := s.m.repeats.found(storeAway)
	due, first := s.outage.report(s.m.now(), due)
	e := s.stamp(Event{Kind: EventStoreLost, Because: err.Error()})
	if first {
		s.m.emit(e)
	}
	if due {
		s.m.logEvent(&e, times)
	}
}

// report tells whether to report the outage: if it is due, and if it was not reported yet
// and is no flicker. first: it is the first report of this outage.
func (o *outage) report(now core.Time, due bool) (report, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := o.mute && !o.known
	report = due || fresh && now.Sub(o.since) > flicker
	if report {
		o.known = o.mute
	}
	return report, report && fresh
}

// answered notes an answer of the store. If it ends an outage, answered tells how long
// that has lasted and whether it was reported.
func (o *outage) answered(now core.Time, write bool) (known bool, lasted time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard, o.last = now, nil
	if write {
		o.write = nil
	}
	if o.mute {
		known, lasted = o.known, now.Sub(o.since)
		o.mute, o.known = false, false
		close(o.back)
	}
	return known, lasted
}

// failed notes a call that failed. It counts only if no other call was answered since
// it was sent.
func (o *outage) failed(sent core.Time, err error, a *core.Action) (counts bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = err
	if a.Verb == core.Put {
		o.write = err
	}
	if a.Plan != nil {
		o.plan = err
	}
	if sent < o.heard {
		return false
	}
	if !o.mute {
		o.mute, o.since, o.back = true, sent, make(chan struct{})
	}
	return true
}

// backOff waits before a read is retried: for half as long as the store has not answered, and
// no longer than until it answers something. A thousand members that all retry at once
// keep a slow store busy with questions that nobody waits for any more. Heartbeats do not
// wait, so a member learns in time that the store is back; nor do the reads of the leader,
// which all others wait for.
func (s *session) backOff() {
	o := &s.outage
	o.mu.Lock()
	mute, away, back := o.mute, time.Duration(s.m.now()-o.since), o.back
	o.mu.Unlock()
	if !mute {
		return
	}
	select {
	case <-back:
	case <-time.After(min(away/2, s.m.timing.CallTime())):
	case <-s.ctx.Done():
	}
}

// cause is the error of Run for the cause that the core gives, with the error of the
// store that led to it.
func (o *outage) cause(c core.Cause) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	why := cmp.Or(o.last, o.write)
	if c == core.ByFailure {
		why = o.plan
	}
	if (c == core.ByOrphan || c == core.ByFailure) && why != nil {
		return fmt.Errorf("%w; the last error of the store: %w", endError(c), why)
	}
	return endError(c)
}

// refuse makes the member leave, because its store or source will never work as it is
// configured. It is called from any goroutine.
func (s *session) refuse(err error) {
	select {
	case s.refusals <- err:
	default: // one reason is enough
	}
}
