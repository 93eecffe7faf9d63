package rotazk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

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

	mu      sync.Mutex
	dirty   map[string]bool // nodes to read
	reading map[string]bool // nodes that are being read
	found   map[string]data // what was read, and the caller does not know yet
	since   time.Time       // since when there are such reads
	owed    map[string]bool // nodes that the first batch must have, and that were not read yet
	failed  error           // of a read
	wake    chan struct{}   // has room for one
}

func (s *store) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		w := &watch{s: s, prefix: prefix, shown: map[string]rota.Rev{}, heard: map[string]bool{}, dirty: map[string]bool{}, reading: map[string]bool{}, found: map[string]data{}, wake: make(chan struct{}, 1)}
		if err := w.begin(ctx); err != nil {
			yield(nil, err)
			return
		}
		defer w.end()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // of reads in flight
		for first := true; ; {
			batch, due, err := w.read(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if due && (first || len(batch) > 0) && !yield(batch, nil) {
				return
			}
			first = first && !due
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
	w.rouse()
}

func (w *watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// read reads what has changed, and returns what is new to the caller, if it is time for
// that. Of many nodes it begins to read those that have changed, and returns what was found
// until now.
func (w *watch) read(ctx context.Context) (batch []rota.Entry, due bool, err error) {
	w.mu.Lock()
	root := w.dirty[w.root]
	delete(w.dirty, w.root)
	w.mu.Unlock()
	if root {
		ctx, cancel := within(ctx)
		defer cancel()
		if !w.many() {
			batch, err = w.readOne(ctx)
			return batch, true, err
		}
		names, err := w.list(ctx)
		if err != nil {
			return nil, false, err
		}
		w.compare(names)
	}
	w.fetch(ctx)
	found, err := w.collect()
	for node, d := range found {
		batch = append(batch, w.news(node, d)...)
	}
	return batch, found != nil, err
}

// compare makes the watch read the nodes that the caller does not know, and those that it
// knows and that are not in the list any more: a read that is on its way may have found one
// of them, and only a read after that one tells that it is gone. What is being read needs no
// second read for being in the list: if it is not found, it is listed again.
func (w *watch) compare(names map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.owed == nil
	if first {
		w.owed = map[string]bool{}
	}
	for node := range names {
		_, known := w.shown[node]
		if d, read := w.found[node]; read {
			known = d.stat != nil
		}
		if !known && !w.reading[node] {
			w.dirty[node] = true
			if first {
				w.owed[node] = true
			}
		}
	}
	for node := range w.shown {
		if names[node] == "" {
			w.dirty[node] = true
		}
	}
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

// fetches is how many nodes are read at the same time. With few, a watch of a thousand
// members that all change would be the slowest of all clients: each of the others has a
// request in flight, too.
const fetches = 512

// fetch begins to read the nodes that have changed.
func (w *watch) fetch(ctx context.Context) {
	for _, node := range w.pick() {
		w.hear(node)
		go func() {
			ctx, cancel := within(ctx)
			defer cancel()
			d, err := w.get(ctx, node)
			w.got(node, d, err)
		}()
	}
}

// pick returns nodes to read now. One that is being read is read again afterwards, so that
// the caller gets the newer version last.
func (w *watch) pick() (nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reading) == 0 && len(w.found) == 0 {
		w.since = time.Now()
	}
	for node := range w.dirty {
		if len(w.reading) == fetches {
			break
		}
		if !w.reading[node] && node != w.root {
			delete(w.dirty, node)
			w.reading[node] = true
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// got takes a node that was read. The data of one that is gone has no stat. It may have been
// made anew before it was read, and listed while the caller still knew it: it is listed again.
func (w *watch) got(node string, d data, err error) {
	w.mu.Lock()
	delete(w.reading, node)
	delete(w.owed, node)
	switch {
	case err == nil:
		w.found[node] = d
	case errors.Is(err, zk.ErrNoNode):
		w.found[node] = data{}
		w.dirty[w.root] = true
	default:
		w.failed = err
	}
	w.mu.Unlock()
	w.rouse()
}

// soon is how long what was found waits for what is being read with it. The caller gets what
// changed together in few batches, and is not left without news while a thousand nodes are
// read: it would believe that nobody follows those who came first.
const soon = 40 * time.Millisecond

// collect returns what was found, or nil if it is not time for that.
func (w *watch) collect() (map[string]data, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy := len(w.reading) > 0 || len(w.dirty) > 0
	if w.failed != nil || len(w.owed) > 0 || busy && time.Since(w.since) < soon {
		return nil, w.failed
	}
	found := w.found
	w.found, w.since = map[string]data{}, time.Now()
	return found, nil
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
// its parent changes too. A read that is on its way may find it again, and then we listen.
func (w *watch) gone(node string) []rota.Entry {
	w.mu.Lock()
	again := w.reading[node]
	w.mu.Unlock()
	if w.many() && w.heard[node] && !again {
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
