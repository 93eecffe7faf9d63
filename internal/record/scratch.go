package record

import (
	"slices"
	"sync"
)

// scratch is what the checks of a plan and a roster need and throw away. Every member makes
// them whenever either changes: it is used again, since for many members of one process it
// would be a tenth of all that they allocate in a burst.
type scratch struct {
	names []string
	slots []uint16
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// borrow returns room for n names.
func borrow(n int) *scratch {
	s := scratches.Get().(*scratch)
	s.names = slices.Grow(s.names[:0], n)[:n]
	return s
}

// table returns an empty hash table of 1<<width indices.
func (s *scratch) table(width int) []uint16 {
	s.slots = slices.Grow(s.slots[:0], 1<<width)[:1<<width]
	clear(s.slots)
	return s.slots
}

func (s *scratch) giveBack() {
	clear(s.names)
	scratches.Put(s)
}
