package rota

import (
	"slices"
	"sync"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// A tally counts what this session has handled, for the leader. It is asked by
// heartbeats, beside the loop.
type tally struct {
	mu       sync.Mutex
	runs     map[record.ID]*run
	ended    map[record.ID]uint64 // handled by runs that are over
	reported map[record.ID]uint64 // what the last heartbeats said
	next     record.ID            // where the next one begins
	worked   int64                // nanoseconds that handlers of runs that are over have worked
	last     int64                // all of it, at the last heartbeat
	at       time.Time            // of that heartbeat
	handled  uint64               // by runs that are over
	total    uint64               // handled, as the last heartbeat said
	busy     uint32               // as the last heartbeat said
}

// mostTallied is how many partitions one heartbeat tells of. With more, each has its turn.
const mostTallied = 128

func (t *tally) start(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil {
		t.runs, t.ended, t.reported = map[record.ID]*run{}, map[record.ID]uint64{}, map[record.ID]uint64{}
	}
	t.runs[r.id] = r
}

// all are the runs that are not over, by partition.
func (t *tally) all() (out []*run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.runs {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *run) int { return int(a.id) - int(b.id) })
	return out
}

func (t *tally) end(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs[r.id] != r {
		return
	}
	delete(t.runs, r.id)
	n := uint64(r.moved.Load())
	t.ended[r.id] += n
	t.handled += n
	t.worked += r.worked.Load()
}

// report returns what changed since the last reports: partitions with what was handled of
// each, all in all, and the busy share of the handlers that had something to do, in
// thousandths.
func (t *tally) report(now time.Time, parallel int) (load []record.Load, handled uint64, busy uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	handled = t.handled
	worked, active := t.worked, 0
	var changed []record.Load
	for id, r := range t.runs {
		n := uint64(r.moved.Load())
		handled += n
		worked += r.worked.Load()
		if n += t.ended[id]; n != t.reported[id] {
			changed = append(changed, record.Load{ID: id, Handled: n})
		}
		if n != t.reported[id] || r.busy.Load() > 0 {
			active++
		}
	}
	for id, n := range t.ended {
		if t.runs[id] == nil && n != t.reported[id] {
			changed = append(changed, record.Load{ID: id, Handled: n})
		}
	}
	slices.SortFunc(changed, func(a, b record.Load) int { return int(a.ID) - int(b.ID) })
	if most := mostTallied; len(changed) > most {
		from, _ := slices.BinarySearchFunc(changed, t.next, func(l record.Load, id record.ID) int { return int(l.ID) - int(id) })
		changed = append(changed[from:len(changed):len(changed)], changed[:from]...)[:most]
		t.next = changed[most-1].ID + 1
		slices.SortFunc(changed, func(a, b record.Load) int { return int(a.ID) - int(b.ID) })
	}
	for _, l := range changed {
		t.reported[l.ID] = l.Handled
	}
	if passed := now.Sub(t.at); !t.at.IsZero() && passed > 0 && active > 0 {
		share := float64(worked-t.last) / float64(passed) / float64(active*max(parallel, 1))
		busy = uint32(min(max(share, 0), 1) * 1000)
	}
	t.last, t.at = worked, now
	t.total, t.busy = handled, busy
	return changed, handled, busy
}

// said returns what heartbeats have told so far.
func (t *tally) said() (load []record.Load, handled uint64, busy uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, n := range t.reported {
		load = append(load, record.Load{ID: id, Handled: n})
	}
	return load, t.total, t.busy
}
