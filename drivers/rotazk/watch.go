package rotazk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/rota-dev/rota"
)

// A watch reads nodes and asks, in the same request, to hear once of the next change. It
// then reads again, so that no change falls in between. What it hears is a reason to
// read and nothing more: several changes, a deletion and a creation too, are one read.
// The watch ends with its connection.
type watch struct {
	s      *store
	c      *conn
	prefix string
	root   string // the node of a single key, or the parent of all keys under the prefix

	shown map[string]rota.Rev // node → the revision that the caller knows
	heard map[string]bool     // nodes we listen to

	mu    sync.Mutex
	dirty map[string]bool // nodes to read
	wake  chan struct{}   // has room for one
}

func (s *store) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		w := &watch{s: s, prefix: prefix, shown: map[string]rota.Rev{}, heard: map[string]bool{}, dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
		if err := w.begin(ctx); err != nil {
			yield(nil, err)
			return
		}
		defer w.end()
		for first := true; ; first = false {
			batch, err := w.read(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if (first || len(batch) > 0) && !yield(batch, nil) {
				return
			}
			select {
			case <-w.wake:
			case <-w.c.ended:
				yield(nil, fmt.Errorf("rotazk: %v: the watch may have missed changes: %w", s.set, errLost))
				return
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// begin connects and makes the server catch up, so that the first batch has every write
// that was acknowledged before.
func (w *watch) begin(ctx context.Context) (err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	if w.c, err = w.s.begin(ctx, strings.TrimSuffix(w.prefix, "/")); err != nil {
		return err
	}
	_, w.root = w.s.node(w.prefix)
	if w.many() {
		parent, _, _ := strings.Cut(w.prefix, "/")
		w.root = w.s.dir(parent)
	}
	w.mark(w.root)
	return w.s.sync(ctx, w.c, w.root)
}

func (w *watch) many() bool { return strings.HasSuffix(w.prefix, "/") }

func (w *watch) end() {
	for node := range w.heard {
		w.c.ignore(node, w)
	}
}

// mark makes the watch read a node.
func (w *watch) mark(node string) {
	w.mu.Lock()
	w.dirty[node] = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// marked returns the nodes to read, and begins to note them anew.
func (w *watch) marked() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	nodes := w.dirty
	w.dirty = map[string]bool{}
	return nodes
}

// read reads the nodes that have changed and returns what is new to the caller.
func (w *watch) read(ctx context.Context) ([]rota.Entry, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	nodes := w.marked()
	if !w.many() {
		if len(nodes) == 0 {
			return nil, nil
		}
		return w.readOne(ctx)
	}
	var batch []rota.Entry
	if nodes[w.root] {
		delete(nodes, w.root)
		names, err := w.list(ctx)
		if err != nil {
			return nil, err
		}
		for node := range w.shown {
			if names[node] == "" {
				batch = append(batch, w.gone(node)...)
				delete(nodes, node)
			}
		}
		for node := range names {
			if _, known := w.shown[node]; !known {
				nodes[node] = true
			}
		}
	}
	found, err := w.fetch(ctx, nodes)
	if err != nil {
		return nil, err
	}
	for node, d := range found {
		batch = append(batch, w.news(node, d)...)
	}
	return batch, nil
}

// readOne reads the node of a single key.
func (w *watch) readOne(ctx context.Context) ([]rota.Entry, error) {
	for {
		d, err := w.get(ctx, w.root)
		if !errors.Is(err, zk.ErrNoNode) {
			if err != nil {
				return nil, err
			}
			return w.news(w.root, d), nil
		}
		there, err := w.exists(ctx, w.root)
		if err != nil {
			return nil, err
		}
		if !there {
			return w.gone(w.root), nil
		}
	}
}

// list returns the nodes under the prefix and their keys.
func (w *watch) list(ctx context.Context) (map[string]string, error) {
	for {
		w.hear(w.root)
		names, err := hearing(ctx, w.c, "list", interest{w.root, true}, func(z *zk.Conn, tell bool) (names []string, err error) {
			if tell {
				names, _, _, err = z.ChildrenW(w.root)
			} else {
				names, _, err = z.Children(w.root)
			}
			return names, err
		})
		if err == nil {
			return w.under(names), nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		there, err := w.exists(ctx, w.root)
		if err != nil || !there {
			return nil, err
		}
	}
}

// under selects the names of keys under the prefix.
func (w *watch) under(names []string) map[string]string {
	parent, _, _ := strings.Cut(w.prefix, "/")
	keys := map[string]string{}
	for _, name := range names {
		if key, ok := keyOf(parent, name); ok && strings.HasPrefix(key, w.prefix) {
			keys[w.root+"/"+name] = key
		}
	}
	return keys
}

// fetches is how many nodes are read at the same time.
const fetches = 32

// fetch reads nodes. Of those that are gone the data has no stat.
func (w *watch) fetch(ctx context.Context, nodes map[string]bool) (map[string]data, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	found := map[string]data{}
	room := make(chan struct{}, fetches)
	for node := range nodes {
		room <- struct{}{}
		w.hear(node)
		wg.Go(func() {
			defer func() { <-room }()
			d, err := w.get(ctx, node)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				cancel(err) // the remaining reads fail at once
				return
			}
			mu.Lock()
			defer mu.Unlock()
			found[node] = d
		})
	}
	wg.Wait()
	return found, context.Cause(ctx)
}

func (w *watch) get(ctx context.Context, node string) (data, error) {
	if !w.many() {
		w.hear(node)
	}
	return hearing(ctx, w.c, "get", interest{node, false}, func(z *zk.Conn, tell bool) (got data, err error) {
		if tell {
			got.bytes, got.stat, _, err = z.GetW(node)
		} else {
			got.bytes, got.stat, err = z.Get(node)
		}
		return got, err
	})
}

// exists tells whether there is a node, and makes the server report when there is.
func (w *watch) exists(ctx context.Context, node string) (bool, error) {
	w.hear(node)
	return hearing(ctx, w.c, "look for", interest{node, false}, func(z *zk.Conn, tell bool) (there bool, err error) {
		if tell {
			there, _, _, err = z.ExistsW(node)
		} else {
			there, _, err = z.Exists(node)
		}
		return there, err
	})
}

// hear listens to a node. It comes before the request, since the change may be reported
// before the request is answered.
func (w *watch) hear(node string) {
	if !w.heard[node] {
		w.heard[node] = true
		w.c.listen(node, w)
	}
}

// news returns what was read as an entry, unless the caller knows it.
func (w *watch) news(node string, d data) []rota.Entry {
	if d.stat == nil {
		return w.gone(node)
	}
	e, err := entry(w.key(node), d.bytes, d.stat)
	if err != nil {
		w.s.set.Log.Warn("a node is ignored", "node", node, "server", w.s.set, "err", err)
		return w.hidden(node)
	}
	if w.shown[node] == e.Rev {
		return nil
	}
	w.shown[node] = e.Rev
	return []rota.Entry{e}
}

// gone returns that a cell is gone, if the caller knows the cell. If it is created again,
// its parent changes too.
func (w *watch) gone(node string) []rota.Entry {
	if w.many() && w.heard[node] {
		delete(w.heard, node)
		w.c.ignore(node, w)
	}
	return w.hidden(node)
}

func (w *watch) hidden(node string) []rota.Entry {
	if _, known := w.shown[node]; !known {
		return nil
	}
	delete(w.shown, node)
	return []rota.Entry{{Key: w.key(node), Deleted: true}}
}

func (w *watch) key(node string) string {
	if !w.many() {
		return w.prefix
	}
	parent, _, _ := strings.Cut(w.prefix, "/")
	key, _ := keyOf(parent, strings.TrimPrefix(node, w.root+"/"))
	return key
}
