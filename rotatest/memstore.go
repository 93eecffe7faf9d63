package rotatest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rota-dev/rota"
)

// MemStore is a connection to a linearizable Store in the memory of this process.
type MemStore struct {
	mem    *memory
	closed bool // guarded by mem.mu
}

// memory holds the cells that all connections share.
type memory struct {
	mu       sync.Mutex
	cells    map[string]rota.Entry
	rev      rota.Rev
	watchers map[string][]*watcher // by prefix, so that a change finds its watchers without a scan
}

// NewMemStore makes an empty store and connects to it.
func NewMemStore() *MemStore {
	return &MemStore{mem: &memory{cells: map[string]rota.Entry{}, watchers: map[string][]*watcher{}}}
}

// Open makes another connection to the same cells. Each connection has its own Close.
func (m *MemStore) Open() *MemStore { return &MemStore{mem: m.mem} }

var (
	errClosed  = errors.New("rotatest: the store is closed")
	errSetBack = errors.New("rotatest: the store was set back")
)

func (m *MemStore) Get(ctx context.Context, key string) (rota.Entry, error) {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return rota.Entry{}, err
	}
	e, ok := m.mem.cells[key]
	if !ok {
		return rota.Entry{}, rota.ErrNotFound
	}
	e.Value = slices.Clone(e.Value)
	return e, nil
}

func (m *MemStore) ready(ctx context.Context) error {
	if m.closed {
		return errClosed
	}
	return ctx.Err()
}

func (m *MemStore) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return 0, err
	}
	if m.mem.cells[key].Rev != prev {
		return 0, rota.ErrConflict
	}
	m.mem.rev++
	e := rota.Entry{Key: key, Value: slices.Clone(value), Rev: m.mem.rev}
	m.mem.cells[key] = e
	m.mem.tell(e)
	return e.Rev, nil
}

func (m *MemStore) Delete(ctx context.Context, key string, prev rota.Rev) error {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	if e, ok := m.mem.cells[key]; !ok || e.Rev != prev {
		return rota.ErrConflict
	}
	delete(m.mem.cells, key)
	m.mem.rev++
	m.mem.tell(rota.Entry{Key: key, Rev: m.mem.rev, Deleted: true})
	return nil
}

// Close ends the connection: later calls on it fail, and its watches end.
func (m *MemStore) Close() error {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	m.closed = true
	m.mem.end(errClosed, func(w *watcher) bool { return w.by == m })
	return nil
}

// Class is B: a single server. Its cells live as long as the process that uses them.
func (m *MemStore) Class() rota.Class { return rota.ClassB }

// A watcher is one loop over a Watch, with the changes it has not shown yet.
type watcher struct {
	by   *MemStore
	news []rota.Entry   // the newest version per key, in the order they first changed
	at   map[string]int // key → index in news
	err  error          // why the watch ends
	wake chan struct{}  // has capacity one: full while there may be changes
}

func (m *MemStore) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		w, batch, err := m.subscribe(ctx, prefix)
		if err != nil {
			yield(nil, err)
			return
		}
		defer m.mem.unsubscribe(w, prefix)
		for yield(batch, nil) {
			if batch, err = m.mem.next(ctx, w); ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// subscribe reads all entries under prefix and adds a watcher under one lock, so that
// there is no gap between the two.
func (m *MemStore) subscribe(ctx context.Context, prefix string) (*watcher, []rota.Entry, error) {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, nil, err
	}
	w := &watcher{by: m, at: map[string]int{}, wake: make(chan struct{}, 1)}
	m.mem.watchers[prefix] = append(m.mem.watchers[prefix], w)
	return w, m.mem.under(prefix), nil
}

func (m *memory) unsubscribe(w *watcher, prefix string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ws := m.watchers[prefix]
	ws = slices.Delete(ws, slices.Index(ws, w), slices.Index(ws, w)+1)
	if m.watchers[prefix] = ws; len(ws) == 0 {
		delete(m.watchers, prefix)
	}
}

func (m *memory) under(prefix string) []rota.Entry {
	var out []rota.Entry
	add := func(e rota.Entry) {
		e.Value = slices.Clone(e.Value)
		out = append(out, e)
	}
	if !strings.HasSuffix(prefix, "/") {
		if e, ok := m.cells[prefix]; ok {
			add(e)
		}
		return out
	}
	for k, e := range m.cells {
		if strings.HasPrefix(k, prefix) {
			add(e)
		}
	}
	slices.SortFunc(out, func(a, b rota.Entry) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// tell gives a change to the watchers of its key and of the prefixes above it.
func (m *memory) tell(e rota.Entry) {
	for i := range len(e.Key) {
		if e.Key[i] == '/' {
			m.tellWatchers(e.Key[:i+1], e)
		}
	}
	if !strings.HasSuffix(e.Key, "/") {
		m.tellWatchers(e.Key, e)
	}
}

func (m *memory) tellWatchers(prefix string, e rota.Entry) {
	for _, w := range m.watchers[prefix] {
		if i, ok := w.at[e.Key]; ok {
			w.news[i] = e
		} else {
			w.at[e.Key] = len(w.news)
			w.news = append(w.news, e)
		}
		w.rouse()
	}
}

// rouse wakes the watcher. It never blocks.
func (w *watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end ends the watches that match.
func (m *memory) end(err error, match func(*watcher) bool) {
	for _, prefix := range slices.Sorted(maps.Keys(m.watchers)) {
		for _, w := range m.watchers[prefix] {
			if match(w) && w.err == nil {
				w.err = err
				w.rouse()
			}
		}
	}
}

// next waits for changes that w has not shown.
func (m *memory) next(ctx context.Context, w *watcher) ([]rota.Entry, error) {
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if batch, err := m.pending(w); len(batch) > 0 || err != nil {
			return batch, err
		}
	}
}

// pending returns the changes that w has not shown, and forgets them.
func (m *memory) pending(w *watcher) ([]rota.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	batch := w.news
	w.news = nil
	clear(w.at)
	for i := range batch {
		batch[i].Value = slices.Clone(batch[i].Value)
	}
	return batch, nil
}

// A MemSnapshot is the content of a MemStore at one moment.
type MemSnapshot struct {
	cells map[string]rota.Entry
	rev   rota.Rev
}

// Snapshot copies the content of the store.
func (m *MemStore) Snapshot() MemSnapshot {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	return MemSnapshot{maps.Clone(m.mem.cells), m.mem.rev}
}

// Restore sets the store back to a snapshot, as a restored backup or a failover to a
// stale replica does: acknowledged writes are lost, and revisions repeat. Every watch
// ends.
func (m *MemStore) Restore(s MemSnapshot) {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	m.mem.cells, m.mem.rev = maps.Clone(s.cells), s.rev
	m.mem.end(errSetBack, func(*watcher) bool { return true })
}

// Groups returns the names of the groups that have records here.
func (m *MemStore) Groups(ctx context.Context) ([]string, error) {
	m.mem.mu.Lock()
	defer m.mem.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	groups := map[string]bool{}
	for key := range m.mem.cells {
		group, _, _ := strings.Cut(key, "/")
		groups[group] = true
	}
	return slices.Sorted(maps.Keys(groups)), nil
}
