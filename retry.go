package rota

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"time"
)

// ErrBad is for a handler that finds a message bad: it is dead-lettered at once, however
// many attempts are left. Return an error that wraps it and says why.
var ErrBad = errors.New("rota: the message is bad")

// deadError is ErrDead with the handler's error as its text, which is the reason that a
// dead letter shows.
type deadError struct {
	cause   error
	attempt int // how often the message was tried
}

func (e deadError) Error() string   { return e.cause.Error() }
func (e deadError) Unwrap() []error { return []error{ErrDead, e.cause} }

// backoff is the pause before a retry. It doubles from the first to the last.
type backoff struct{ next, last time.Duration }

func (b *backoff) step() time.Duration {
	d := b.next
	b.next = min(2*b.next, b.last)
	return d
}

// A retry is what happens to one message until it is done, dead or given back.
type retry struct {
	r     *run
	pause backoff
	tries int // that failed
}

func (r *run) newRetry() *retry { return &retry{r: r, pause: r.s.m.handlerPause} }

// failed reports the handler's error about a message and waits before the next attempt.
// It returns an error if there is none.
func (t *retry) failed(msg *Message, err error) error {
	r := t.r
	lost, untried := r.check() != nil, errors.Is(err, ErrUntried)
	if t.tries++; t.tries == 1 {
		r.failing.begin()
	}
	switch {
	case errors.Is(err, ErrLost) && !lost:
		r.tokenRefused(err)
		return ErrLost
	case untried:
		r.notTried(t.tries, err)
	default:
		r.handlerFailed(msg, err)
	}
	switch {
	case lost:
		return ErrLost
	case untried:
	case errors.Is(err, ErrBad), r.s.m.cfg.Attempts > 0 && msg.Attempt >= r.s.m.cfg.Attempts:
		return deadError{err, msg.Attempt}
	default:
		msg.Attempt++
	}
	return r.rest(t.pause.step())
}

// end says that the message fails no more.
func (t *retry) end() {
	if t.tries > 0 {
		t.r.handlerWorks()
	}
}

// rest is the back-off before a retry. A stop ends it, and the message goes back to
// the broker.
func (r *run) rest(d time.Duration) error {
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

// call calls the handler with a ctx that ends with the ownership, or after
// Config.HandleTime. A handler that overstays is waited for: were it abandoned, two
// could act on the partition.
func (r *run) call(handle func(context.Context) error) error {
	limit := r.s.m.cfg.HandleTime
	if limit == 0 {
		return handle(r.ctx)
	}
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	err := handle(ctx)
	if err != nil && ctx.Err() != nil && r.ctx.Err() == nil {
		err = fmt.Errorf("the handler took longer than %v: %w", limit, err)
	}
	return err
}

// failing are the messages of one partition that fail: one, or several with
// Config.Parallel.
type failing struct {
	mu    sync.Mutex
	n     int
	since time.Time
}

func (f *failing) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.n == 1 {
		f.since = time.Now()
	}
}

// end tells whether no message fails any more.
func (f *failing) end() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	return f.n == 0
}

func (f *failing) began() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.since
}

// sayNow tells whether the nth repetition is worth a line: the pauses between lines
// grow, and nobody reads the same sentence every ten seconds.
func sayNow(n int) bool { return bits.OnesCount(uint(n)) == 1 }

// handlerFailed reports an error of the handler as an event, and as a condition for as
// long as it lasts.
func (r *run) handlerFailed(msg *Message, err error) {
	if sayNow(msg.Attempt) {
		r.s.tellFailed(r, msg, err)
	}
	r.s.conditions.begin(ConditionInfo{ConditionHandlerFails, r.name, fmt.Sprintf("its handler has failed since %s, %s: %s",
		clockTime(r.failing.began()), attempts(msg.Attempt), strings.TrimPrefix(err.Error(), "rota: "))}, r.failing.began())
}

func (r *run) handlerWorks() {
	if r.failing.end() {
		r.s.conditions.over(ConditionHandlerFails, r.name)
		r.s.conditions.over(ConditionUntried, r.name)
	}
}

func (r *run) notTried(tries int, err error) {
	c := ConditionInfo{ConditionUntried, r.name, strings.TrimPrefix(err.Error(), "rota: ")}
	if sayNow(tries) {
		r.s.report(c, tries)
	}
	r.s.conditions.begin(c, r.failing.began())
}

// tokenRefused reports that the sink has seen a newer owner, or says so. Nothing more is
// delivered or settled: Consume ends, and is called again after a back-off for as long
// as the plan names this member.
func (r *run) tokenRefused(err error) {
	c := ConditionInfo{ConditionTokenRefused, r.name, fmt.Sprintf("the sink refused token %d of this member, so the partition rests: %s",
		uint64(r.token), strings.TrimPrefix(err.Error(), ErrLost.Error()+": "))}
	r.halted.Store(true)
	if times := int(r.refused.Add(1)); sayNow(times) {
		r.s.report(c, times)
	}
	r.s.conditions.begin(c, time.Now())
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// clockTime is for sentences that people read in other places.
func clockTime(t time.Time) string { return t.UTC().Format("Jan 2 15:04:05 UTC") }
