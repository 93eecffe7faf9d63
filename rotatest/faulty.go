package rotatest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// Fault is something that can happen to one call or one batch of a watch.
type Fault string

const (
	LostRequest  Fault = "lost request"  // the call fails, and the store has done nothing
	LostAnswer   Fault = "lost answer"   // the call fails, and the store has done it
	Repeated     Fault = "repeated"      // the store gets a request twice; the caller gets the second answer
	LateWrite    Fault = "late write"    // a write that was in flight at a Cut arrives at Heal, after its caller gave up
	BrokenWatch  Fault = "broken watch"  // a watch ends with an error instead of a batch
	DroppedBatch Fault = "dropped batch" // a watch has a gap and no error: a correct store never does that
	StaleRead    Fault = "stale read"    // a Get returns an older version: a correct store never does that
)

// FaultyStore is a Store behind a faulty network. Faults can be turned on and off at
// any time. The faults of a call depend on the seed, its verb, its key and the number
// of such calls before it, and not on concurrent calls: a run is repeatable as far as
// its callers are.
type FaultyStore struct {
	inner rota.Store
	seed  uint64

	mu      sync.Mutex
	chance  map[Fault]float64
	delay   time.Duration
	asked   map[string]uint64       // verb and key → how often
	seen    map[string][]rota.Entry // key → versions that were read or written, oldest first
	count   map[Fault]int
	failed  int // calls, with neither an answer nor a refusal
	failing bool
	healed  chan struct{} // while cut: closed by Heal
	late    []func()
	watches []*context.CancelFunc
	mark    *MemSnapshot
}

// Faulty wraps a store. There are no faults until one is turned on.
func Faulty(inner rota.Store, seed uint64) *FaultyStore {
	return &FaultyStore{inner: inner, seed: seed, chance: map[Fault]float64{}, asked: map[string]uint64{}, seen: map[string][]rota.Entry{},
		count: map[Fault]int{}}
}

var errCut = errors.New("rotatest: cut off")

// Chance makes a fault happen with probability p from now on.
func (f *FaultyStore) Chance(what Fault, p float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chance[what] = p
}

// Delay delays each request, each answer and each batch by up to most.
func (f *FaultyStore) Delay(most time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = most
}

// Cut makes every call hang until Heal or until its ctx ends, like a network that
// drops all packets. Watches show nothing.
func (f *FaultyStore) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = false
	if f.healed == nil {
		f.healed = make(chan struct{})
	}
}

// Fail makes every call fail at once until Heal, like a server that is down. Watches
// end.
func (f *FaultyStore) Fail() {
	f.mu.Lock()
	f.failing = true
	f.release()
	f.mu.Unlock()
	f.Gap()
}

// Gap ends all current watches with an error.
func (f *FaultyStore) Gap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cancel := range f.watches {
		(*cancel)()
	}
}

// Heal ends Cut and Fail. When it returns, all late writes have arrived.
func (f *FaultyStore) Heal() {
	f.mu.Lock()
	f.failing = false
	f.release()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, write := range late {
		write()
	}
}

// release wakes the calls that hang, so that they look again.
func (f *FaultyStore) release() {
	if f.healed != nil {
		close(f.healed)
		f.healed = nil
	}
}

// Mark takes a snapshot for Rollback. Both need a MemStore inside.
func (f *FaultyStore) Mark() {
	snap := f.inner.(*MemStore).Snapshot()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mark = &snap
}

// Rollback restores the snapshot of Mark, for all connections: see MemStore.Restore.
func (f *FaultyStore) Rollback() {
	f.mu.Lock()
	snap := f.mark
	f.mu.Unlock()
	f.inner.(*MemStore).Restore(*snap)
}

// Count is how often a fault has happened.
func (f *FaultyStore) Count(what Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[what]
}

// writes is how often each key was put or deleted through this connection.
func (f *FaultyStore) writes() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := map[string]int{}
	for call, times := range f.asked {
		if verb, key, _ := strings.Cut(call, " "); verb == "put" || verb == "delete" {
			n[key] += int(times)
		}
	}
	return n
}

// heard counts calls that failed.
func (f *FaultyStore) heard(err error) {
	if err == nil || errors.Is(err, rota.ErrConflict) || errors.Is(err, rota.ErrNotFound) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed++
}

// failures is how many calls have failed.
func (f *FaultyStore) failures() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// fate holds the faults and delays of one call or batch.
type fate struct {
	f         *FaultyStore
	faults    map[Fault]bool
	going     time.Duration
	returning time.Duration
	pick      uint64
}

func (f *FaultyStore) draw(verb, key string) *fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := verb + " " + key
	f.asked[id]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", id, f.asked[id])
	r := rand.New(rand.NewPCG(f.seed, h.Sum64()))
	x := &fate{f: f, faults: map[Fault]bool{}}
	for _, what := range []Fault{LostRequest, LostAnswer, Repeated, LateWrite, BrokenWatch, DroppedBatch, StaleRead} {
		x.faults[what] = r.Float64() < f.chance[what]
	}
	if f.delay > 0 {
		x.going, x.returning = time.Duration(r.Int64N(int64(f.delay))), time.Duration(r.Int64N(int64(f.delay)))
	}
	x.pick = r.Uint64()
	return x
}

// strikes tells whether a fault happens, and counts it.
func (x *fate) strikes(what Fault) bool {
	if !x.faults[what] {
		return false
	}
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	x.f.count[what]++
	return true
}

// pass waits until the link is up and the delay is over.
func (f *FaultyStore) pass(ctx context.Context, delay time.Duration) error {
	f.mu.Lock()
	failing, healed := f.failing, f.healed
	f.mu.Unlock()
	if failing {
		return errCut
	}
	if healed != nil {
		select {
		case <-healed:
			return f.pass(ctx, delay)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errCut, ctx.Err())
		}
	}
	if delay == 0 {
		return nil
	}
	select {
	case <-time.After(delay):
		return f.pass(ctx, 0)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call makes the request do with the faults of x. do keeps the answer, and call
// returns the error.
func (f *FaultyStore) call(ctx context.Context, x *fate, do func(context.Context) error) error {
	if err := f.pass(ctx, x.going); err != nil {
		return err
	}
	if x.strikes(LostRequest) {
		return errors.New("rotatest: the request was lost")
	}
	err := do(ctx)
	if x.strikes(Repeated) {
		err = do(ctx)
	}
	if err := f.pass(ctx, x.returning); err != nil {
		return err
	}
	if x.strikes(LostAnswer) {
		return errors.New("rotatest: the answer was lost")
	}
	return err
}

func (f *FaultyStore) Get(ctx context.Context, key string) (e rota.Entry, err error) {
	x := f.draw("get", key)
	err = f.call(ctx, x, func(ctx context.Context) error {
		e, err = f.inner.Get(ctx, key)
		return err
	})
	f.heard(err)
	switch {
	case err == nil:
		f.saw(e)
	case errors.Is(err, rota.ErrNotFound):
		f.saw(rota.Entry{Key: key, Deleted: true})
	default:
		return rota.Entry{}, err
	}
	if old, ok := f.older(key, x); ok {
		if old.Deleted {
			return rota.Entry{}, rota.ErrNotFound
		}
		return old, nil
	}
	return e, err
}

func (f *FaultyStore) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	value = slices.Clone(value) // a late write may arrive when the caller has changed it
	return f.write(ctx, "put", key, func(ctx context.Context) (rota.Rev, error) {
		rev, err := f.inner.Put(ctx, key, value, prev)
		if err != nil {
			return 0, err
		}
		if prev == 0 {
			f.saw(rota.Entry{Key: key, Deleted: true})
		}
		f.saw(rota.Entry{Key: key, Value: value, Rev: rev})
		return rev, nil
	})
}

func (f *FaultyStore) Delete(ctx context.Context, key string, prev rota.Rev) error {
	_, err := f.write(ctx, "delete", key, func(ctx context.Context) (rota.Rev, error) { return 0, f.inner.Delete(ctx, key, prev) })
	return err
}

// write is call for requests that may arrive late.
func (f *FaultyStore) write(ctx context.Context, verb, key string, do func(context.Context) (rota.Rev, error)) (rev rota.Rev, err error) {
	x := f.draw(verb, key)
	arrived := false
	err = f.call(ctx, x, func(ctx context.Context) (err error) {
		arrived = true
		rev, err = do(ctx)
		return err
	})
	f.heard(err)
	if !arrived && errors.Is(err, errCut) && ctx.Err() != nil && x.strikes(LateWrite) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = append(f.late, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			do(ctx) // nobody waits for the answer
		})
	}
	if err != nil {
		return 0, err
	}
	return rev, nil
}

func (f *FaultyStore) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		inner, cancel := context.WithCancel(ctx)
		defer f.enter(&cancel)()
		if err := f.pass(inner, 0); err != nil {
			yield(nil, err)
			return
		}
		first := true
		for batch, err := range f.inner.Watch(inner, prefix) {
			if err != nil {
				if ctx.Err() != nil || inner.Err() == nil {
					yield(nil, err)
					return
				}
				break
			}
			x := f.draw("watch", prefix)
			if err := f.pass(inner, x.returning); err != nil {
				yield(nil, err)
				return
			}
			if x.strikes(BrokenWatch) {
				yield(nil, errors.New("rotatest: the watch broke off"))
				return
			}
			if !first && x.strikes(DroppedBatch) {
				continue
			}
			first = false
			f.saw(batch...)
			if !yield(batch, nil) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(nil, errCut)
		}
	}
}

// enter registers a watch, so that Gap can end it. leave ends and unregisters it.
func (f *FaultyStore) enter(cancel *context.CancelFunc) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches = append(f.watches, cancel)
	return func() {
		(*cancel)()
		f.mu.Lock()
		defer f.mu.Unlock()
		i := slices.Index(f.watches, cancel)
		f.watches = slices.Delete(f.watches, i, i+1)
	}
}

// saw keeps versions for stale reads.
func (f *FaultyStore) saw(es ...rota.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range es {
		e.Value = slices.Clone(e.Value)
		vs := f.seen[e.Key]
		known := slices.ContainsFunc(vs, func(v rota.Entry) bool { return v.Rev == e.Rev })
		if e.Deleted { // deletions have no revision to tell them apart by
			known = len(vs) > 0 && vs[len(vs)-1].Deleted
		}
		if known {
			continue
		}
		f.seen[e.Key] = append(vs[max(0, len(vs)-7):], e)
	}
}

// older picks a version that is older than the newest, if there is one and x has a
// StaleRead.
func (f *FaultyStore) older(key string, x *fate) (rota.Entry, bool) {
	f.mu.Lock()
	vs := slices.Clone(f.seen[key])
	f.mu.Unlock()
	if len(vs) < 2 || !x.strikes(StaleRead) {
		return rota.Entry{}, false
	}
	e := vs[x.pick%uint64(len(vs)-1)]
	e.Value = slices.Clone(e.Value)
	return e, true
}

// Close closes the store inside.
func (f *FaultyStore) Close() error { return f.inner.Close() }

// Class is the class of the store inside.
func (f *FaultyStore) Class() rota.Class { return optional{f.inner}.Class() }

// Identity is the identity of the store inside. The call has faults like any other.
func (f *FaultyStore) Identity(ctx context.Context) (name string, err error) {
	err = f.call(ctx, f.draw("identity", ""), func(ctx context.Context) error {
		name, err = optional{f.inner}.Identity(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	return name, nil
}

// Open opens the store inside. The call has faults like any other.
func (f *FaultyStore) Open(ctx context.Context) error {
	if _, ok := f.inner.(rota.Opener); !ok {
		return nil
	}
	return f.call(ctx, f.draw("open", ""), optional{f.inner}.Open)
}

// Fresh is the answer of the store inside. The call has faults like any other.
func (f *FaultyStore) Fresh(ctx context.Context) (fresh bool, err error) {
	err = f.call(ctx, f.draw("fresh", ""), func(ctx context.Context) error {
		fresh, err = optional{f.inner}.Fresh(ctx)
		return err
	})
	if err != nil {
		return false, err
	}
	return fresh, nil
}

// Warnings are the warnings of the store inside. They make no request, so they have no
// faults.
func (f *FaultyStore) Warnings() []string { return optional{f.inner}.Warnings() }

// Check is that of the inner store.
func (f *FaultyStore) Check() error { return optional{f.inner}.Check() }
