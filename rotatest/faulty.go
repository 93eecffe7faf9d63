package rotatest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// Fault is something that can happen to one call or one batch of a watch.
type Fault string

const (
	LostRequest  Fault = "lost request"  // an error, and nothing has happened
	LostAnswer   Fault = "lost answer"   // an error, and it has happened
	Repeated     Fault = "repeated"      // a request arrives twice; the second answer is heard
	LateWrite    Fault = "late write"    // a write that a Cut has swallowed arrives at Heal, when nobody waits for it any more
	BrokenWatch  Fault = "broken watch"  // a watch ends with an error instead of showing a batch
	DroppedBatch Fault = "dropped batch" // a watch shows less than there was, and says nothing: no good store does that
	StaleRead    Fault = "stale read"    // a Get answers an older version: no good store does that
)

// FaultyStore is a Store with what networks, servers and clients do to it in
// between. Everything can be turned on and off at any time. What happens to a
// call depends on the seed, its verb, its key and how often that was asked, and
// not on what others ask meanwhile: runs repeat as far as their callers do.
type FaultyStore struct {
	inner rota.Store
	seed  uint64

	mu      sync.Mutex
	chance  map[Fault]float64
	delay   time.Duration
	asked   map[string]uint64       // verb and key → how often
	seen    map[string][]rota.Entry // key → versions that passed by, oldest first
	count   map[Fault]int
	failing bool
	healed  chan struct{} // while cut: closed by Heal
	late    []func()
	watches []*context.CancelFunc
	mark    *MemSnapshot
}

// Faulty wraps a store. It does nothing to it until it is told to.
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

// Delay makes each request, each answer and each batch take up to most longer.
func (f *FaultyStore) Delay(most time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = most
}

// Cut makes everything hang until Heal or until its own ctx ends: a network that
// swallows what it is given. Watches fall silent.
func (f *FaultyStore) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = false
	if f.healed == nil {
		f.healed = make(chan struct{})
	}
}

// Fail makes everything fail at once until Heal: a server that is not there.
// Watches end.
func (f *FaultyStore) Fail() {
	f.mu.Lock()
	f.failing = true
	f.release()
	f.mu.Unlock()
	f.Gap()
}

// Gap ends the watches that there are with an error.
func (f *FaultyStore) Gap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cancel := range f.watches {
		(*cancel)()
	}
}

// Heal ends Cut and Fail. Writes that are to arrive late have arrived when it
// returns.
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

// release lets what hangs look again.
func (f *FaultyStore) release() {
	if f.healed != nil {
		close(f.healed)
		f.healed = nil
	}
}

// Mark remembers what the store holds, for Rollback. Both need a MemStore inside.
func (f *FaultyStore) Mark() {
	snap := f.inner.(*MemStore).Snapshot()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mark = &snap
}

// Rollback sets the store back to what it was at Mark, for everybody: see
// MemStore.Restore.
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

// fate is what happens to one call or batch.
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

// strikes says whether a fault happens, and counts it.
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

// call takes a request to the store and its answer back. What the store answers
// is do's to keep.
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
	value = slices.Clone(value) // it may arrive when the caller has gone on
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

// write is call for what may arrive late.
func (f *FaultyStore) write(ctx context.Context, verb, key string, do func(context.Context) (rota.Rev, error)) (rev rota.Rev, err error) {
	x := f.draw(verb, key)
	arrived := false
	err = f.call(ctx, x, func(ctx context.Context) (err error) {
		arrived = true
		rev, err = do(ctx)
		return err
	})
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

// enter notes a watch that Gap can end; what it returns ends it and notes that.
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

// saw keeps versions that passed by, for stale reads.
func (f *FaultyStore) saw(es ...rota.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range es {
		e.Value = slices.Clone(e.Value)
		vs := f.seen[e.Key]
		known := slices.ContainsFunc(vs, func(v rota.Entry) bool { return v.Rev == e.Rev })
		if e.Deleted { // one looks like the other
			known = len(vs) > 0 && vs[len(vs)-1].Deleted
		}
		if known {
			continue
		}
		f.seen[e.Key] = append(vs[max(0, len(vs)-7):], e)
	}
}

// older picks a version before the newest that passed by, if there is one and
// the fate is so.
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

// Class is that of the store inside.
func (f *FaultyStore) Class() rota.Class { return optional{f.inner}.Class() }

// Identity is that of the store inside, asked like anything else.
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

// Fresh is what the store inside says, asked like anything else.
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

// Warnings are those of the store inside: it asks nobody for them.
func (f *FaultyStore) Warnings() []string { return optional{f.inner}.Warnings() }
