package rotatest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/rota-dev/rota"
)

// odd is a connection to a MemStore. Each field that is set replaces a method by a
// wrong one.
type odd struct {
	*MemStore
	get   func(ctx context.Context, key string) (rota.Entry, error)
	put   func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error)
	del   func(ctx context.Context, key string, prev rota.Rev) error
	watch func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool)
	close func() error
	list  func(groups []string) []string
}

// openedOnce is a connection that cannot be opened twice.
type openedOnce struct {
	rota.Store
	opened bool
}

func (o *openedOnce) Open(context.Context) error {
	if o.opened {
		return errOdd
	}
	o.opened = true
	return nil
}

func (o *odd) Groups(ctx context.Context) ([]string, error) {
	groups, err := o.MemStore.Groups(ctx)
	if o.list != nil {
		groups = o.list(groups)
	}
	return groups, err
}

func (o *odd) Get(ctx context.Context, key string) (rota.Entry, error) {
	if o.get != nil {
		return o.get(ctx, key)
	}
	return o.MemStore.Get(ctx, key)
}

func (o *odd) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if o.put != nil {
		return o.put(ctx, key, value, prev)
	}
	return o.MemStore.Put(ctx, key, value, prev)
}

func (o *odd) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if o.del != nil {
		return o.del(ctx, key, prev)
	}
	return o.MemStore.Delete(ctx, key, prev)
}

func (o *odd) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	if o.watch != nil {
		return func(yield func([]rota.Entry, error) bool) { o.watch(ctx, prefix, yield) }
	}
	return o.MemStore.Watch(ctx, prefix)
}

func (o *odd) Close() error {
	if o.close != nil {
		return o.close()
	}
	return o.MemStore.Close()
}

// rev is the revision of a cell, for flaws that do not compare it.
func (o *odd) rev(key string) rota.Rev {
	e, _ := o.MemStore.Get(context.Background(), key)
	return e.Rev
}

// with makes a function that opens connections to one store, each with a flaw of its
// own.
func with(spoil func(*odd)) func() func() rota.Store {
	return func() func() rota.Store {
		mem := NewMemStore()
		return func() rota.Store {
			o := &odd{MemStore: mem.Open()}
			spoil(o)
			return o
		}
	}
}

// shared is with for a flaw that all connections share.
func shared(spoil func() func(*odd)) func() func() rota.Store {
	return func() func() rota.Store { return with(spoil())() }
}

// watching spoils each batch of a watch but the first.
func watching(change func(batch []rota.Entry) []rota.Entry) func() func() rota.Store {
	return with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			first := true
			for batch, err := range o.MemStore.Watch(ctx, prefix) {
				if !first && err == nil {
					batch = change(batch)
				}
				first = false
				if !yield(batch, err) {
					return
				}
			}
		}
	})
}

// matching replaces the test whether a key belongs to a watch.
func matching(match func(prefix, key string) bool) func() func() rota.Store {
	return with(func(o *odd) {
		o.watch = func(ctx context.Context, prefix string, yield func([]rota.Entry, error) bool) {
			root := prefix[:strings.Index(prefix, "/")+1]
			for batch, err := range o.MemStore.Watch(ctx, root) {
				batch = slices.DeleteFunc(batch, func(e rota.Entry) bool { return !match(prefix, e.Key) })
				if !yield(batch, err) {
					return
				}
			}
		}
	})
}

var errOdd = errors.New("odd")
