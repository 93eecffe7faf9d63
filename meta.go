package rota

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rota-dev/rota/internal/record"
)

// metaCell is metadata that may change while a source reads it.
type metaCell struct {
	mu   sync.Mutex
	meta Meta
	next chan struct{}
}

func (c *metaCell) set(m Meta) {
	c.mu.Lock()
	old := c.next
	c.meta, c.next = m, make(chan struct{})
	c.mu.Unlock()
	if old != nil {
		close(old)
	}
}

func (c *metaCell) now() (Meta, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.meta), c.next
}

func (s *session) metaOf(id record.ID) Meta {
	r := s.node.Roster()
	if r == nil || int(id) >= r.Len() {
		return nil
	}
	m := Meta{}
	for _, p := range r.At(id).Meta {
		m[p.Key] = p.Value
	}
	return m
}

// usersMeta is metadata without what is rota's own.
func usersMeta(m Meta) Meta {
	users := maps.Clone(m)
	maps.DeleteFunc(users, func(k, _ string) bool { return strings.HasPrefix(k, reservedMeta) })
	return users
}

// setMeta gives the run its metadata, and to its replays what is rota's own.
func (r *run) setMeta(m Meta) {
	users := usersMeta(m)
	if old, next := r.meta.now(); next == nil || !maps.Equal(old, users) {
		r.meta.set(users)
	}
	own := Meta{replayKey: m[replayKey]}
	if old, next := r.replay.now(); next == nil || !maps.Equal(old, own) {
		r.replay.set(own)
	}
}

// tellMeta gives the running partitions their metadata from a new roster.
func (s *session) tellMeta() {
	for _, r := range s.runs {
		r.setMeta(s.metaOf(r.id))
	}
}

func pairs(m Meta) []record.Pair {
	var out []record.Pair
	for k, v := range m {
		out = append(out, record.Pair{Key: k, Value: v})
	}
	slices.SortFunc(out, func(a, b record.Pair) int { return cmp.Compare(a.Key, b.Key) })
	return out
}
