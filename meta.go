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

// metaOf is the metadata of a partition, with what is rota's own, and its topic.
func (s *session) metaOf(id record.ID) (m Meta, topic string) {
	r := s.node.Roster()
	if r == nil || int(id) >= r.Len() {
		return nil, ""
	}
	p := r.At(id)
	m = Meta{}
	for _, kv := range p.Meta {
		m[kv.Key] = kv.Value
	}
	return m, p.Topic
}

// usersMeta is metadata without what is rota's own.
func usersMeta(m Meta) Meta {
	users := maps.Clone(m)
	maps.DeleteFunc(users, func(k, _ string) bool { return strings.HasPrefix(k, reservedMeta) })
	return users
}

// setMeta gives the run its metadata and its topic, and to its replays what is rota's
// own. It tells whether the owner sees a change.
func (r *run) setMeta(m Meta, topic string) (changed bool) {
	users := usersMeta(m)
	old, next := r.meta.now()
	if changed = next == nil || !maps.Equal(old, users) || topic != r.topicName(); changed {
		r.topic.Store(&topic) // first: the channel of the metadata says that both are new
		r.meta.set(users)
	}
	own := Meta{replayKey: m[replayKey]}
	if old, next := r.replay.now(); next == nil || !maps.Equal(old, own) {
		r.replay.set(own)
	}
	return changed
}

func (r *run) topicName() string {
	if t := r.topic.Load(); t != nil {
		return *t
	}
	return ""
}

// tellMeta gives the running partitions their metadata from a new roster, and reports
// what has changed.
func (s *session) tellMeta() {
	for _, id := range slices.Sorted(maps.Keys(s.runs)) {
		if r := s.node.Roster(); int(id) < r.Len() && r.At(id).Removed {
			continue // it is about to stop
		}
		if r := s.runs[id]; r.setMeta(s.metaOf(r.id)) && !r.over.Load() {
			s.tellRunMeta(EventMeta, r)
		}
	}
}

// tellRunMeta reports an event of a run with its topic and metadata.
func (s *session) tellRunMeta(k EventKind, r *run) {
	m, _ := r.meta.now()
	s.tell(Event{Kind: k, Partition: r.name, Token: Token(r.token), Topic: r.topicName(), Meta: m})
}

func pairs(m Meta) []record.Pair {
	var out []record.Pair
	for k, v := range m {
		out = append(out, record.Pair{Key: k, Value: v})
	}
	slices.SortFunc(out, func(a, b record.Pair) int { return cmp.Compare(a.Key, b.Key) })
	return out
}
