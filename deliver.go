package rota

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/rule"
)

// deliver is the Deliver that Consume gets.
func (r *run) deliver(ctx context.Context, msgs ...Message) (n int, err error) {
	for i := range msgs {
		r.own(&msgs[i])
	}
	r.beginDelivery()
	defer r.endDelivery()
	r.turn.Bring(len(msgs))
	c := &r.s.m.cfg
	switch {
	case c.HandleBatch != nil:
		return r.batch(ctx, msgs)
	case c.Parallel > 1:
		return r.parallel(ctx, msgs)
	}
	for n < len(msgs) {
		if err := r.goOn(); err != nil {
			return n, err
		}
		done, failed, err := r.some(ctx, msgs[n:])
		if n += done; err != nil {
			return n, err
		}
		if failed == nil {
			continue
		}
		if err := r.one(ctx, &msgs[n], failed); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// own fills in what a message has from its owner.
func (r *run) own(msg *Message) {
	msg.Partition, msg.Token, msg.Session = r.name, Token(r.token), r.by
	msg.Attempt = max(msg.Attempt, 1)
	msg.own = Ownership{r}
}

// finishTime is for messages that were fetched before a stop and are quick: if all of
// them are finished, most sources hand the partition over sooner than if some go back.
// A source that fetches ahead for longer than this gives the rest back.
const finishTime = 100 * time.Millisecond

// goOn returns an error if no further message may be begun, because the run is to stop
// and one more message would take longer than finishTime allows, judged by the last
// one. So a stop waits for the message in hand, and for no slow one behind it.
func (r *run) goOn() error {
	asked := r.askedAt.Load()
	switch {
	case asked == nil || time.Since(*asked)+time.Duration(r.took.Load()) <= finishTime:
		return nil
	case r.lost.Load():
		return ErrLost
	}
	return ErrStop
}

// To enter and to leave costs many times what the quickest handlers take. So quick messages
// enter together: few enough that partitions stay in step.
const (
	someMost = 16
	someTime = 50 * time.Microsecond
)

// some handles messages one after the other, for as long as they are quick and none fails.
// Each asks the lease itself. It returns how many are done, and what the handler said of the
// next one.
func (r *run) some(ctx context.Context, msgs []Message) (n int, failed, err error) {
	at, err := r.enter(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer func() { r.leave(at, n) }()
	for {
		if failed = r.handle(msgs[n]); failed != nil {
			return n, failed, nil
		}
		if n++; n == len(msgs) || n == someMost || time.Since(at) > someTime || r.check() != nil {
			return n, nil, nil
		}
	}
}

// one handles one message, which may have failed already. It retries until the message is
// done or dead, or the partition must be given up.
func (r *run) one(ctx context.Context, msg *Message, failed error) error {
	t := r.newRetry()
	defer t.end()
	for {
		if failed != nil {
			if err := t.failed(msg, failed); err != nil {
				return err
			}
		}
		at, err := r.enter(ctx)
		if err != nil {
			return err
		}
		if failed = r.handle(*msg); failed == nil {
			r.leave(at, 1)
			return nil
		}
		r.leave(at, 0)
	}
}

// handle calls the handler with one message.
func (r *run) handle(msg Message) error {
	r.trace(EventHandle, msg, nil)
	err := r.call(func(ctx context.Context) error {
		if c := &r.s.m.cfg; c.Handle != nil {
			return c.Handle(ctx, msg)
		}
		n, err := r.s.m.cfg.HandleBatch(ctx, []Message{msg})
		if n > 0 {
			return nil
		}
		return cmp.Or(err, errNoneDone)
	})
	r.trace(EventHandled, msg, err)
	return err
}

var errNoneDone = errors.New("the handler finished no message and returned no error")

// enter waits until it is this partition's turn and a slot is free, counts the delivery
// as busy and then checks the lease. In this order: if abort finds no busy handler after
// the lease has expired, none can begin later.
func (r *run) enter(ctx context.Context) (at time.Time, err error) {
	at, err = r.turn.Wait(r.ctx, r.stop)
	if err != nil || ctx.Err() != nil || r.lost.Load() {
		return at, ErrLost
	}
	now := int64(at.Sub(r.s.began)) // the clock is read as rarely as possible
	select {
	case r.slots <- struct{}{}:
	default: // all are in use; to ask for one alone is several times cheaper
		select {
		case r.slots <- struct{}{}:
			now = r.s.elapsed()
		case <-r.ctx.Done():
			return at, ErrLost
		}
	}
	r.pulse.called.Store(now) // before it counts as busy
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
		<-r.slots
		return at, err
	}
	return at, nil
}

// leave records that the handler which entered at the given time has returned with n
// messages done.
func (r *run) leave(at time.Time, n int) {
	r.busy.Add(-1)
	<-r.slots
	r.moved.Add(int64(n))
	passed := r.turn.Done(at, n)
	r.worked.Add(int64(passed))
	r.took.Store(int64(max(passed/time.Duration(max(n, 1)), 1)))
	r.pulse.called.Store(int64(at.Sub(r.s.began) + passed))
	r.goesOn()
	if n > 0 && r.refused.Swap(0) > 0 {
		r.s.conditions.over(ConditionTokenRefused, r.name)
	}
}

// batch calls HandleBatch with all messages, and again with those that are not done.
func (r *run) batch(ctx context.Context, msgs []Message) (n int, err error) {
	t := r.newRetry()
	defer func() { t.end() }()
	for n < len(msgs) {
		if err := r.goOn(); err != nil {
			return n, err
		}
		at, err := r.enter(ctx)
		if err != nil {
			return n, err
		}
		r.traceAll(EventHandle, msgs[n:], nil)
		k := 0
		err = r.call(func(ctx context.Context) (err error) {
			k, err = r.s.m.cfg.HandleBatch(ctx, msgs[n:])
			return err
		})
		k = min(max(k, 0), len(msgs)-n)
		r.traceAll(EventHandled, msgs[n:n+k], nil)
		r.leave(at, k)
		if err == nil && k == 0 {
			err = errNoneDone
		}
		if k > 0 {
			t.end()
			n, t = n+k, r.newRetry()
		}
		if err == nil || n == len(msgs) {
			continue
		}
		r.trace(EventHandled, msgs[n], err)
		if err := t.failed(&msgs[n], err); err != nil {
			return n, err
		}
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
		if errs[i] = r.goOn(); errs[i] != nil {
			break
		}
		wg.Go(func() {
			errs[i] = r.one(ctx, &msgs[i], nil)
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
