package rotatest

import (
	"fmt"
	"testing"

	"github.com/rota-dev/rota"
)

// WithCompaction lets the suite make the server forget all former versions of all cells.
// It is for stores whose watches read the history of the server.
func WithCompaction(compact func(t testing.TB)) StoreOption {
	return storeOption(func(t *storeTest) { t.compact = compact })
}

// compactionCases are the cases for stores whose server keeps former versions.
var compactionCases = []storeCase{
	{"a watch across a compaction shows everything or ends", watchAcrossCompaction},
}

// watchAcrossCompaction changes a cell and compacts everything while a watch of it begins,
// many times. There are no later changes that could hide a gap.
func watchAcrossCompaction(t *storeTest) {
	w, r := t.open(), t.open()
	const rounds = 40
	newest, views := make([]rota.Rev, rounds), make([]*view, rounds)
	for i := range rounds {
		dir := t.key(fmt.Sprintf("%d/", i))
		views[i] = t.viewing(r, dir, func(rota.Entry) {})
		for range 3 { // the watch may have read what there was, and not begun to follow
			newest[i] = w.put(dir+"k", "v", newest[i])
		}
		t.compact(t.TB)
	}
	gaps := 0
	for i, v := range views {
		v.wait("the newest version, after compactions", func() bool { return v.err != nil || v.cells[v.prefix+"k"].Rev == newest[i] })
		v.mu.Lock()
		if v.err != nil {
			gaps++
		}
		v.mu.Unlock()
	}
	t.Logf("%d of %d watches ended for a gap", gaps, rounds)
}
