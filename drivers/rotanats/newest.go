package rotanats

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// newest has the newest revision of each key that this process has seen in a replicated
// bucket. A server that was deposed as its leader and has not noticed answers from an older
// copy: what it says is older than what was seen.
type newest struct {
	mu  sync.Mutex
	all map[string]rota.Rev
}

// mostNewest limits the keys. With more, all are forgotten: then an older answer is not
// noticed until the key was seen again.
const mostNewest = 1 << 16

func (n *newest) get(key string) rota.Rev {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[key]
}

func (n *newest) add(key string, rev rota.Rev) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if rev > n.all[key] {
		n.put(key, rev)
	}
}

// set makes a revision the newest although a newer one was seen.
func (n *newest) set(key string, rev rota.Rev) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put(key, rev)
}

func (n *newest) put(key string, rev rota.Rev) {
	if n.all == nil || len(n.all) >= mostNewest {
		n.all = map[string]rota.Rev{}
	}
	n.all[key] = rev
}

// forget forgets all revisions: those of another bucket begin at 1.
func (n *newest) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = nil
}

// see notes a revision that the bucket certainly has, or had.
func (s *store) see(key string, rev rota.Rev) {
	if s.replicated() {
		s.newest.add(key, rev)
	}
}

// deposedTime is how long answers are older than what was seen before they count. Servers
// that have lost data also give such answers; a server that was frozen while it led notices
// within moments that it no longer does.
const deposedTime = time.Second

// read is get for callers to whom an older version than one that was seen would mean that
// the bucket has lost data.
func (s *store) read(ctx context.Context, key string) (version, error) {
	for begun, wait := time.Now(), time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		v, err := s.get(ctx, key)
		if err != nil && !errors.Is(err, rota.ErrNotFound) {
			return v, err
		}
		switch {
		case v.Rev >= s.newest.get(key):
			s.see(key, v.Rev)
			return v, err
		case time.Since(begun) > deposedTime:
			s.newest.set(key, v.Rev)
			return v, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return version{}, s.explain(ctx.Err())
		}
	}
}
