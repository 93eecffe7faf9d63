package rotatest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// TestStoreSuiteBites gives the suite stores that each have one flaw. The case for
// that flaw must complain.
func TestStoreSuiteBites(t *testing.T) {
	bitten := map[string]bool{}
	for _, f := range storeFlaws {
		bitten[f.by] = true
		t.Run(f.name, func(t *testing.T) {
			i := slices.IndexFunc(storeCases, func(c storeCase) bool { return c.name == f.by })
			if i < 0 {
				t.Fatalf("no case %q", f.by)
			}
			bites(t, f.says, func(tb testing.TB) { storeCases[i].run(newStoreTest(tb, f.store())) })
		})
	}
	for _, c := range storeCases {
		if !bitten[c.name] {
			t.Errorf("nothing shows that %q can fail", c.name)
		}
	}
}

var storeFlaws = []struct {
	name, by, says string
	store          func() func() rota.Store
}{
	{"opening fails the second time", "a store that can be opened answers then", "Open: odd", func() func() rota.Store {
		all := NewMemStore()
		return func() rota.Store { return &openedOnce{Store: all.Open()} }
	}},
	{"a group is not listed", "a store that lists its groups lists all", "with 1 groups", with(func(o *odd) {
		o.list = func(groups []string) []string { return groups[:max(0, len(groups)-1)] }
	})},
	{"nothing is an empty cell", "nothing is not found", "want ErrNotFound", with(func(o *odd) {
		o.get = func(ctx context.Context, key string) (rota.Entry, error) {
			e, err := o.MemStore.Get(ctx, key)
			if errors.Is(err, rota.ErrNotFound) {
				return rota.Entry{Key: key}, nil
			}
			return e, err
		}
	})},
	{"deleted cells are still read", "nothing is not found", "want ErrNotFound", with(func(o *odd) {
		o.del = func(ctx context.Context, key string, prev rota.Rev) error {
			_, err := o.MemStore.Put(ctx, key, nil, prev)
			return err
		}
	})},
	{"creation overwrites", "a cell is created once", "want ErrConflict", with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			if prev == 0 {
				prev = o.rev(key)
			}
			return o.MemStore.Put(ctx, key, value, prev)
		}
	})},
	{"writes ignore the revision", "a wrong revision changes nothing", "want ErrConflict", with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, _ rota.Rev) (rota.Rev, error) {
			return o.MemStore.Put(ctx, key, value, o.rev(key))
		}
	})},
	{"a refused write is written", "a wrong revision changes nothing", `holds "x"`, with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			rev, err := o.MemStore.Put(ctx, key, value, prev)
			if err != nil {
				o.MemStore.Put(ctx, key, value, o.rev(key))
			}
			return rev, err
		}
	})},
	{"the same value is no write", "a wrong revision changes nothing", "kept revision", with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			if e, err := o.MemStore.Get(ctx, key); err == nil && e.Rev == prev && bytes.Equal(e.Value, value) {
				return prev, nil
			}
			return o.MemStore.Put(ctx, key, value, prev)
		}
	})},
	{"revisions count from one in each life", "a revision never comes again", "came again", shared(versionsPerLife)},
	{"deletion ignores the revision", "only what is there is deleted", "want ErrConflict", with(func(o *odd) {
		o.del = func(ctx context.Context, key string, _ rota.Rev) error {
			return o.MemStore.Delete(ctx, key, o.rev(key))
		}
	})},
	{"deleting nothing succeeds", "only what is there is deleted", "deleting nothing", with(func(o *odd) {
		o.del = func(ctx context.Context, key string, prev rota.Rev) error {
			if o.rev(key) == 0 {
				return nil
			}
			return o.MemStore.Delete(ctx, key, prev)
		}
	})},
	{"revision zero deletes anything", "only what is there is deleted", "without a revision", with(func(o *odd) {
		o.del = func(ctx context.Context, key string, prev rota.Rev) error {
			if prev == 0 {
				prev = o.rev(key)
			}
			return o.MemStore.Delete(ctx, key, prev)
		}
	})},
	{"large values are cut", "any value is kept", "holds", with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			return o.MemStore.Put(ctx, key, value[:min(len(value), 512<<10)], prev)
		}
	})},
	{"values are text", "any value is kept", "holds", with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			return o.MemStore.Put(ctx, key, bytes.ToValidUTF8(value, []byte("?")), prev)
		}
	})},
	{"an empty value is nothing", "any value is kept", "Get(", with(func(o *odd) {
		o.get = func(ctx context.Context, key string) (rota.Entry, error) {
			e, err := o.MemStore.Get(ctx, key)
			if err == nil && len(e.Value) == 0 {
				return rota.Entry{}, rota.ErrNotFound
			}
			return e, err
		}
	})},
	{"an empty value is shown as deleted", "any value is kept", "an empty value", watching(func(batch []rota.Entry) []rota.Entry {
		for i := range batch {
			batch[i].Deleted = len(batch[i].Value) == 0
		}
		return batch
	})},
	{"keys are cut", "any key is kept", "Put(", with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			return o.MemStore.Put(ctx, key[:min(len(key), 127)], value, prev)
		}
	})},
	{"keys have no case", "any key is kept", "Put(", with(func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			return o.MemStore.Put(ctx, strings.ToLower(key), value, prev)
		}
	})},
	{"a deletion takes what is under it along", "any key is kept", "a/b", with(func(o *odd) {
		o.del = func(ctx context.Context, key string, prev rota.Rev) error {
			o.MemStore.Delete(ctx, key+"/b", o.rev(key+"/b"))
			return o.MemStore.Delete(ctx, key, prev)
		}
	})},
	{"a write keeps the caller's bytes", "values are copies", `"xyz"`, shared(func() func(*odd) {
		kept := map[rota.Rev][]byte{}
		return func(o *odd) {
			o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
				rev, err := o.MemStore.Put(ctx, key, value, prev)
				kept[rev] = value
				return rev, err
			}
			o.get = func(ctx context.Context, key string) (rota.Entry, error) {
				e, err := o.MemStore.Get(ctx, key)
				e.Value = kept[e.Rev]
				return e, err
			}
		}
	})},
	{"a connection reads from its cache", "a write is seen by others at once", "holds", with(func(o *odd) {
		cache := map[string]rota.Entry{}
		o.get = func(ctx context.Context, key string) (rota.Entry, error) {
			e, err := o.MemStore.Get(ctx, key)
			if old, ok := cache[key]; ok {
				e = old
			} else if err == nil {
				cache[key] = e
			}
			return e, err
		}
	})},
	{"one call connects, the others do not wait", "first calls may come together", "odd", with(func(o *odd) {
		var calls atomic.Int32
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			if calls.Add(1) > 1 {
				return 0, errOdd // no connection yet
			}
			return o.MemStore.Put(ctx, key, value, prev)
		}
	})},
	{"compare and set are two steps", "increments add up", "together", with(twoSteps)},
	{"compare and set are two steps", "histories are right", "a fork", with(twoSteps)},
	{"reads are stale now and then", "histories are right", "out of order", stale},
	{"requests are sent twice", "histories are right", "a refused write has happened", func() func() rota.Store {
		mem := NewMemStore()
		return func() rota.Store {
			f := Faulty(mem.Open(), 1)
			f.Chance(Repeated, 0.5)
			return f
		}
	}},
	{"calls fail now and then", "histories are right", "though nothing was wrong", func() func() rota.Store {
		mem := NewMemStore()
		return func() rota.Store {
			f := Faulty(mem.Open(), 1)
			f.Chance(LostRequest, 0.1)
			return f
		}
	}},
	{"calls ignore their ctx", "a ctx that has ended ends a call", "succeeded", with(func(o *odd) {
		o.put = func(_ context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			return o.MemStore.Put(context.Background(), key, value, prev)
		}
	})},
	{"calls wait though their ctx has ended", "a ctx that has ended ends a call", "did not return", with(func(o *odd) {
		o.get = func(ctx context.Context, key string) (rota.Entry, error) {
			e, err := o.MemStore.Get(ctx, key)
			<-time.After(10 * time.Second)
			return e, err
		}
	})},
	{"Close does nothing", "a closed store answers nothing", "goes on", with(func(o *odd) {
		o.close = func() error { return nil }
	})},
	{"Close ends watches alone", "a closed store answers nothing", "Get after Close", with(func(o *odd) {
		other := o.Open()
		o.get = other.Get
	})},
	{"a watch of nothing waits", "a watch begins with all there is", "not even an empty batch", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if (len(batch) > 0 || err != nil) && !yield(batch, err) {
					return
				}
			}
		}
	})},
	{"a watch begins in pieces", "a watch begins with all there is", "begins with", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				for len(batch) > 1 {
					if !yield(batch[:1], nil) {
						return
					}
					batch = batch[1:]
				}
				if !yield(batch, err) {
					return
				}
			}
		}
	})},
	{"a watch begins with what a cache holds", "a watch begins with all there is", "begins with", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			first := true
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if first && len(batch) > 0 {
					batch = batch[1:]
				}
				first = false
				if !yield(batch, err) {
					return
				}
			}
		}
	})},
	{"a watch begins with tombstones", "a watch begins with all there is", "which is deleted", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			first := true
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if first {
					batch = append(batch, rota.Entry{Key: prefix, Rev: 1, Deleted: true})
				}
				first = false
				if !yield(batch, err) {
					return
				}
			}
		}
	})},
	{"a prefix is any beginning", "a watch sees its prefix and nothing else", "showed", matching(func(prefix, key string) bool {
		return strings.HasPrefix(key, prefix)
	})},
	{"a prefix is without its slash", "a watch sees its prefix and nothing else", "showed", matching(func(prefix, key string) bool {
		return key == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(key+"/", prefix)
	})},
	{"a prefix ends one step down", "a watch sees its prefix and nothing else", "did not show", matching(func(prefix, key string) bool {
		rest, ok := strings.CutPrefix(key, prefix)
		return rest == "" || ok && strings.HasSuffix(prefix, "/") && !strings.Contains(rest, "/")
	})},
	{"_ in a prefix is any character", "a watch sees its prefix and nothing else", "showed", matching(func(prefix, key string) bool {
		if !strings.HasSuffix(prefix, "/") || len(key) < len(prefix) {
			return key == prefix
		}
		for i := range prefix {
			if prefix[i] != '_' && prefix[i] != key[i] {
				return false
			}
		}
		return true
	})},
	{"deletions are not shown", "changes arrive", "deleted", watching(func(batch []rota.Entry) []rota.Entry {
		return slices.DeleteFunc(batch, func(e rota.Entry) bool { return e.Deleted })
	})},
	{"deletions have the last value", "changes arrive", "deleted, with a value", watching(func(batch []rota.Entry) []rota.Entry {
		for i := range batch {
			if batch[i].Deleted {
				batch[i].Value = []byte("5")
			}
		}
		return batch
	})},
	{"a batch shows a key twice", "changes arrive", "twice in one batch", watching(func(batch []rota.Entry) []rota.Entry {
		return append(batch, batch...)
	})},
	{"a watch has other revisions", "changes arrive", "did not show", watching(func(batch []rota.Entry) []rota.Entry {
		for i := range batch {
			batch[i].Rev += 7
		}
		return batch
	})},
	{"a watch ends without a word", "changes arrive", "without an error", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			n := 0
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if n++; n > 2 || !yield(batch, err) {
					return
				}
			}
		}
	})},
	{"a watch reads five hundred cells, and forgets the others", "many cells change at once", "begins with", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if !yield(batch[:min(500, len(batch))], err) {
					return
				}
			}
		}
	})},
	{"a watch forgets a cell that was deleted", "cells are made anew", "did not show", shared(hidesTheDeleted)},
	{"a watch reads first and listens then", "a watch begins in time", "did not show", with(readsThenListens)},
	{"a watch listens when it is asked for more", "a watch misses nothing at its beginning", "in the loop over its first batch", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			old, _ := o.under(ctx, prefix)
			if yield(old, nil) {
				o.changes(ctx, prefix, yield)
			}
		}
	})},
	{"a watch listens when it has read", "a watch misses nothing at its beginning", "when the watch began", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			old, _ := o.under(ctx, prefix)
			<-time.After(time.Millisecond)
			first := true
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if first {
					batch = old
				}
				first = false
				if !yield(batch, err) {
					return
				}
			}
		}
	})},
	{"versions are shown in any order", "many watchers see the newest, and never go back", "after", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			var kept []rota.Entry
			n := 0
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if n++; n == 2 {
					kept = batch
				}
				if !yield(batch, err) || n == 3 && !yield(kept, nil) {
					return
				}
			}
		}
	})},
	{"writers wait for watchers", "a slow watcher holds nobody back", "Put(", shared(writersWait)},
	{"what a slow watcher cannot take is dropped", "a slow watcher holds nobody back", "nor hear of a gap", shared(dropsWhenSlow)},
	{"a watch leaves a goroutine behind", "a watch ends with its loop and its ctx", "goroutines behind", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			go func() { <-time.After(time.Minute) }()
			o.MemStore.Watch(ctx, prefix)(yield)
		}
	})},
	{"a watch ignores its ctx", "a watch ends with its loop and its ctx", "did not return", with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			o.MemStore.Watch(ctx, prefix)(yield)
		}
	})},
}

// versionsPerLife has the revisions of a ZooKeeper node: they restart when it is
// created again.
func versionsPerLife() func(*odd) {
	var mu sync.Mutex
	version := map[string]rota.Rev{}
	real := map[string]rota.Rev{}
	return func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			mu.Lock()
			defer mu.Unlock()
			if prev != version[key] {
				return 0, rota.ErrConflict
			}
			rev, err := o.MemStore.Put(ctx, key, value, real[key])
			if err != nil {
				return 0, err
			}
			version[key]++
			real[key] = rev
			return version[key], nil
		}
		o.get = func(ctx context.Context, key string) (rota.Entry, error) {
			mu.Lock()
			defer mu.Unlock()
			e, err := o.MemStore.Get(ctx, key)
			e.Rev = version[key]
			return e, err
		}
		o.del = func(ctx context.Context, key string, prev rota.Rev) error {
			mu.Lock()
			defer mu.Unlock()
			if prev != version[key] {
				return rota.ErrConflict
			}
			err := o.MemStore.Delete(ctx, key, real[key])
			delete(version, key)
			delete(real, key)
			return err
		}
	}
}

func twoSteps(o *odd) {
	o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
		if o.rev(key) != prev {
			return 0, rota.ErrConflict
		}
		for {
			<-time.After(time.Millisecond)
			if rev, err := o.MemStore.Put(ctx, key, value, o.rev(key)); !errors.Is(err, rota.ErrConflict) {
				return rev, err
			}
		}
	}
}

func stale() func() rota.Store {
	f := Faulty(NewMemStore(), 1)
	f.Chance(StaleRead, 0.05)
	return func() rota.Store { return &keepOpen{f} }
}

// keepOpen makes Close do nothing, so that several can share one connection.
type keepOpen struct{ rota.Store }

func (keepOpen) Close() error { return nil }

// hidesTheDeleted makes a watch that shows nothing of a key that was ever deleted.
func hidesTheDeleted() func(*odd) {
	var gone sync.Map
	return func(o *odd) {
		o.del = func(ctx context.Context, key string, prev rota.Rev) error {
			gone.Store(key, true)
			return o.MemStore.Delete(ctx, key, prev)
		}
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				batch = slices.DeleteFunc(slices.Clone(batch), func(e rota.Entry) bool {
					_, forgotten := gone.Load(e.Key)
					return forgotten
				})
				if !yield(batch, err) {
					return
				}
			}
		}
	}
}

func readsThenListens(o *odd) {
	o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
		old, err := o.under(ctx, prefix)
		if !yield(old, err) || err != nil {
			return
		}
		<-time.After(time.Millisecond)
		o.changes(ctx, prefix, yield)
	}
}

// under are the current entries.
func (o *odd) under(ctx context.Context, prefix string) ([]rota.Entry, error) {
	for batch, err := range o.MemStore.Watch(ctx, prefix) {
		return batch, err
	}
	return nil, ctx.Err()
}

// changes is a watch without its first batch.
func (o *odd) changes(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
	first := true
	for batch, err := range o.MemStore.Watch(ctx, prefix) {
		if !first && !yield(batch, err) {
			return
		}
		first = false
	}
}

// writersWait makes each write wait until every watcher has got the change.
func writersWait() func(*odd) {
	var mu sync.Mutex
	watching := 0
	taken := make(chan struct{})
	return func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			rev, err := o.MemStore.Put(ctx, key, value, prev)
			mu.Lock()
			n := watching
			mu.Unlock()
			for range n {
				select {
				case <-taken:
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
			return rev, err
		}
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			mu.Lock()
			watching++
			mu.Unlock()
			first := true
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if !first {
					select {
					case taken <- struct{}{}:
					case <-ctx.Done():
					}
				}
				first = false
				if !yield(batch, err) {
					return
				}
			}
		}
	}
}

// dropsWhenSlow has a queue per watcher and drops changes silently when it is full.
func dropsWhenSlow() func(*odd) {
	var mu sync.Mutex
	queues := map[chan rota.Entry]bool{}
	return func(o *odd) {
		o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
			rev, err := o.MemStore.Put(ctx, key, value, prev)
			mu.Lock()
			defer mu.Unlock()
			for q := range queues {
				select {
				case q <- rota.Entry{Key: key, Value: value, Rev: rev}:
				default:
				}
			}
			return rev, err
		}
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			q := make(chan rota.Entry, 64)
			e, _ := o.MemStore.Get(ctx, prefix)
			q <- e
			mu.Lock()
			queues[q] = true
			mu.Unlock()
			for {
				select {
				case e := <-q:
					if !yield([]rota.Entry{e}, nil) {
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}
	}
}
