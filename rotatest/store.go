// Package rotatest holds what drivers of rota are tested with: suites that every
// driver calls and none can opt out of, a store and a source in memory, and a
// wrapper that injects what networks and servers do.
package rotatest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/rota-dev/rota"
)

// MemStore is a Store in memory: linearizable, and as fast as a store can be. It
// is good for one process, and gone with it.
type MemStore struct {
	mu      sync.Mutex
	cells   map[string]rota.Entry
	rev     rota.Rev
	changed chan struct{} // closed at the next change
	log     []rota.Entry  // every change, oldest first, since base
	base    int
	closed  bool
}

// NewMemStore makes an empty store.
func NewMemStore() *MemStore {
	return &MemStore{cells: map[string]rota.Entry{}, changed: make(chan struct{})}
}

var errClosed = errors.New("rotatest: the store is closed")

func (m *MemStore) Get(ctx context.Context, key string) (rota.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return rota.Entry{}, err
	}
	e, ok := m.cells[key]
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return 0, err
	}
	if m.cells[key].Rev != prev {
		return 0, rota.ErrConflict
	}
	m.rev++
	e := rota.Entry{Key: key, Value: slices.Clone(value), Rev: m.rev}
	m.cells[key] = e
	m.tell(e)
	return e.Rev, nil
}

func (m *MemStore) Delete(ctx context.Context, key string, prev rota.Rev) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	if e, ok := m.cells[key]; !ok || e.Rev != prev {
		return rota.ErrConflict
	}
	delete(m.cells, key)
	m.rev++
	m.tell(rota.Entry{Key: key, Rev: m.rev, Deleted: true})
	return nil
}

// logSize is how many changes a watcher may be behind before it has a gap.
const logSize = 1 << 14

func (m *MemStore) tell(e rota.Entry) {
	m.log = append(m.log, e)
	if len(m.log) > 2*logSize {
		m.base += logSize
		m.log = slices.Delete(m.log, 0, logSize)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *MemStore) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		batch, at, err := m.all(ctx, prefix)
		for {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(batch, nil) {
				return
			}
			if batch, at, err = m.since(ctx, prefix, at); ctx.Err() != nil {
				return
			}
		}
	}
}

func under(prefix, key string) bool {
	return key == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(key, prefix)
}

// all is everything under prefix now, and how far the log has come.
func (m *MemStore) all(ctx context.Context, prefix string) ([]rota.Entry, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, 0, err
	}
	var out []rota.Entry
	for k, e := range m.cells {
		if under(prefix, k) {
			e.Value = slices.Clone(e.Value)
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b rota.Entry) int { return strings.Compare(a.Key, b.Key) })
	return out, m.base + len(m.log), nil
}

// since waits for changes under prefix from log position at on: the newest
// version per key.
func (m *MemStore) since(ctx context.Context, prefix string, at int) ([]rota.Entry, int, error) {
	for {
		m.mu.Lock()
		if err := m.ready(ctx); err != nil {
			m.mu.Unlock()
			return nil, at, err
		}
		if at < m.base {
			m.mu.Unlock()
			return nil, at, errors.New("rotatest: the watcher fell behind")
		}
		newest := map[string]int{}
		var out []rota.Entry
		for _, e := range m.log[at-m.base:] {
			if !under(prefix, e.Key) {
				continue
			}
			e.Value = slices.Clone(e.Value)
			if i, ok := newest[e.Key]; ok {
				out[i] = e
			} else {
				newest[e.Key] = len(out)
				out = append(out, e)
			}
		}
		at = m.base + len(m.log)
		changed := m.changed
		m.mu.Unlock()
		if len(out) > 0 {
			return out, at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, at, ctx.Err()
		}
	}
}

// Close ends the store: calls fail from now on, and watches end.
func (m *MemStore) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.changed)
		m.changed = make(chan struct{})
	}
	return nil
}

// Class is B: one server, whose log is as durable as the process that uses it.
func (m *MemStore) Class() rota.Class { return rota.ClassB }
