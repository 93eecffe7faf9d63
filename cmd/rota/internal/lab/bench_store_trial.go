package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

const (
	trialCall  = 10 * time.Second // a call that takes longer has failed
	trialFails = 3                // so many failures in a row end the trial
	planTime   = 30 * time.Second // for a plan to reach everybody
	planRounds = 5
	beatBytes  = 256 // about the size of a member's record
	watchers   = 3   // a leader and its deputies watch all members
)

var planSizes = []int{1 << 10, 10 << 10, 100 << 10}

// A storeTrial measures a store through connections of its own, in a group that has no
// members.
type storeTrial struct {
	dial    func() (rota.Store, error)
	group   string
	members int
	each    time.Duration
	say     func(string) // on the way

	main    rota.Store
	used    bool // the store has answered
	conns   []rota.Store
	watches sync.WaitGroup
	stop    context.CancelFunc // ends the watches
	seen    chan sighting
	gaps    atomic.Int64
}

// A sighting is a plan that a member's watch has shown.
type sighting struct {
	member int
	rev    rota.Rev
	at     time.Time
}

func newStoreTrial(dial func() (rota.Store, error), members int, each time.Duration, say func(string)) *storeTrial {
	return &storeTrial{dial: dial, members: members, each: each, say: say, group: benchGroup(),
		stop: func() {}, seen: make(chan sighting, 64*members)}
}

// run measures everything. Whatever comes of it, remove has to be called.
func (t *storeTrial) run(ctx context.Context) (r *storeReport, err error) {
	if t.main, err = t.dial(); err != nil {
		return nil, err
	}
	if err := t.reach(ctx); err != nil {
		return nil, err
	}
	r = &storeReport{Members: t.members}
	t.say(fmt.Sprintf("compare-and-set, one at a time, for %v", t.each))
	if r.CAS, err = t.oneByOne(ctx); err != nil {
		return nil, fmt.Errorf("compare-and-set: %w", err)
	}
	t.say("connecting " + cli.Count(t.members, "member"))
	began := time.Now()
	if err := t.join(ctx); err != nil {
		return nil, fmt.Errorf("connecting members: %w", err)
	}
	r.Connected = ms(time.Since(began))
	for _, size := range planSizes {
		t.say(fmt.Sprintf("plans of %d KB to all of them", size>>10))
		f, err := t.fanOut(ctx, size)
		if err != nil {
			return nil, fmt.Errorf("fan-out: %w", err)
		}
		r.FanOut = append(r.FanOut, f)
	}
	t.say(fmt.Sprintf("heartbeats of all of them, for %v", t.each))
	if r.Heartbeats, r.PerSecond, err = t.allAtOnce(ctx); err != nil {
		return nil, fmt.Errorf("heartbeats: %w", err)
	}
	if c, ok := t.main.(rota.Classifier); ok {
		r.Class = c.Class()
	}
	r.Gaps = int(t.gaps.Load())
	r.Recommended = advise(r)
	return r, ctx.Err()
}

func (t *storeTrial) planKey() string { return t.group + "/plan" }

func (t *storeTrial) memberKey(i int) string { return fmt.Sprintf("%s/member/%016x", t.group, i+1) }

// A writer writes one record over and over.
type writer struct {
	store rota.Store
	key   string
	rev   rota.Rev

	calls  []time.Duration
	failed int // of the calls
	row    int // failures in a row
}

// write is one compare-and-set. It is not given up when ctx ends, since a write that was
// given up may arrive when everything is removed. It returns an error when the store has
// failed several times in a row.
func (w *writer) write(ctx context.Context, value []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialCall)
	defer cancel()
	began := time.Now()
	rev, err := w.store.Put(ctx, w.key, value, w.rev)
	w.calls = append(w.calls, time.Since(began))
	if err == nil {
		w.rev, w.row = rev, 0
		return nil
	}
	w.failed++
	if w.row++; w.row >= trialFails {
		return err
	}
	return w.readBack(ctx)
}

// readBack finds the revision after a write of unknown outcome.
func (w *writer) readBack(ctx context.Context) error {
	e, err := w.store.Get(ctx, w.key)
	switch {
	case err == nil:
		w.rev = e.Rev
	case errors.Is(err, rota.ErrNotFound):
		w.rev = 0
	}
	return nil // if the store is away, the next write tells
}

// writeFor writes until the time is over. The first write, which creates the record, does
// not count.
func (w *writer) writeFor(ctx context.Context, each time.Duration) error {
	value := make([]byte, beatBytes)
	if err := w.write(ctx, value); err != nil {
		return err
	}
	w.calls, w.failed = w.calls[:0], 0
	for until := time.Now().Add(each); time.Now().Before(until); {
		if err := w.write(ctx, value); err != nil {
			return err
		}
	}
	return nil
}

func (t *storeTrial) oneByOne(ctx context.Context) (timings, error) {
	w := &writer{store: t.main, key: t.memberKey(t.members)}
	err := w.writeFor(ctx, t.each)
	return sumUp(w.calls, w.failed), err
}

// join opens a connection for each member. It returns when each has seen the plan.
func (t *storeTrial) join(ctx context.Context) error {
	for range t.members {
		s, err := t.dial()
		if err != nil {
			return err
		}
		t.conns = append(t.conns, s)
	}
	// The context of the watches ends when everything is removed, and no earlier.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	for i, s := range t.conns {
		t.watches.Go(func() { t.watch(watching, s, i) })
	}
	_, err := t.toEveryone(ctx, &writer{store: t.main, key: t.planKey()}, make([]byte, planSizes[0]))
	return err
}

// watch reports each plan that a member sees.
func (t *storeTrial) watch(ctx context.Context, s rota.Store, member int) {
	t.follow(ctx, s, t.planKey(), func(e rota.Entry) {
		select {
		case t.seen <- sighting{member, e.Rev, time.Now()}:
		case <-ctx.Done():
		}
	})
}

// follow watches until ctx ends, and begins anew after a gap.
func (t *storeTrial) follow(ctx context.Context, s rota.Store, prefix string, show func(rota.Entry)) {
	for ctx.Err() == nil {
		for batch, err := range s.Watch(ctx, prefix) {
			if err != nil {
				break
			}
			for _, e := range batch {
				show(e)
			}
		}
		if ctx.Err() != nil {
			return
		}
		t.gaps.Add(1)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// fanOut writes plans of one size.
func (t *storeTrial) fanOut(ctx context.Context, size int) (fanOut, error) {
	value := make([]byte, size)
	rand.Read(value) // or the connection may compress it
	w := &writer{store: t.main, key: t.planKey()}
	var took []time.Duration
	for range planRounds {
		d, err := t.toEveryone(ctx, w, value)
		if err != nil {
			return fanOut{}, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return fanOut{Bytes: size, Times: planRounds, Median: ms(took[planRounds/2]), Worst: ms(took[planRounds-1])}, nil
}

// toEveryone writes a plan and waits until each member has seen it.
func (t *storeTrial) toEveryone(ctx context.Context, w *writer, value []byte) (time.Duration, error) {
	if w.rev == 0 {
		if err := w.readBack(ctx); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for failed := -1; failed != w.failed; { // a plan whose outcome is unknown is written again
		failed = w.failed
		began = time.Now()
		if err := w.write(ctx, value); err != nil {
			return 0, err
		}
	}
	reached := map[int]bool{}
	last := began
	timeout := time.After(planTime)
	for len(reached) < t.members {
		select {
		case s := <-t.seen:
			if s.rev == w.rev {
				reached[s.member] = true
				last = s.at
			}
		case <-timeout:
			return 0, fmt.Errorf("a plan of %d KB reached %d of %s within %v", len(value)>>10, len(reached), cli.Count(t.members, "member"), planTime)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return last.Sub(began), nil
}

// allAtOnce lets every member write its record as fast as it can.
func (t *storeTrial) allAtOnce(ctx context.Context) (timings, float64, error) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watches, writes sync.WaitGroup
	defer watches.Wait()
	defer stop()
	for _, s := range t.conns[:min(watchers, len(t.conns))] {
		watches.Go(func() { t.follow(watching, s, t.group+"/member/", func(rota.Entry) {}) })
	}
	all := make([]*writer, len(t.conns))
	errs := make([]error, len(t.conns))
	began := time.Now()
	for i, s := range t.conns {
		all[i] = &writer{store: s, key: t.memberKey(i)}
		writes.Go(func() { errs[i] = all[i].writeFor(ctx, t.each) })
	}
	writes.Wait()
	took := time.Since(began)
	var calls []time.Duration
	failed := 0
	for _, w := range all {
		calls, failed = append(calls, w.calls...), failed+w.failed
	}
	return sumUp(calls, failed), float64(len(calls)-failed) / took.Seconds(), cmp.Or(errs...) // what fails, fails for most of them
}

// remove ends the watches, deletes all records of the group and closes everything. A
// member's connection may serve the others, so they close in reverse order.
func (t *storeTrial) remove() error {
	t.stop()
	t.watches.Wait()
	if !t.used {
		return nil
	}
	// Ctrl-C has ended the command's own context.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := clearGroup(ctx, t.main, t.group)
	for _, s := range slices.Backward(t.conns) {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, t.main.Close())
}
