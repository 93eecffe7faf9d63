package record

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Columns read 8 bytes for each entry, whatever its width, and return the numbers
// that were written.
func TestColumnsAgreeWithTheirEntries(t *testing.T) {
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		width := rnd.IntN(9)
		entries := make([]uint64, 1+rnd.IntN(40))
		least := rnd.Uint64() >> rnd.IntN(64)
		for i := range entries {
			v := rnd.Uint64() >> rnd.IntN(64)
			if rnd.IntN(4) > 0 { // most of them alike, so that limits and duplicates occur
				v = least + rnd.Uint64N(3)
			}
			entries[i] = v & (1<<(8*width) - 1)
		}
		w := &writer{}
		w.packed(entries, 0, width)
		c := makeColumn(uint64(rnd.IntN(3)), len(entries), width, w.b)
		checkColumn(t, &c, entries, rnd)
		if t.Failed() {
			t.Fatalf("seed %d: width %d: %x", seed, width, entries)
		}
	}
}

func checkColumn(t *testing.T, c *column, entries []uint64, rnd *rand.Rand) {
	top := slices.Max(entries)
	base, width := c.tight()
	if base != slices.Contains(entries, 0) || width != (bytesFor(top) == c.width) {
		t.Errorf("tight: %v, %v", base, width)
	}
	for _, limit := range []uint64{0, top - min(top, 1), top, entries[0], rnd.Uint64()} {
		if c.within(limit) != (top <= limit) {
			t.Errorf("within %x: %v", limit, top > limit)
		}
	}
	for _, v := range append(slices.Clone(entries), top+1, rnd.Uint64()) {
		from := rnd.IntN(len(entries) + 1)
		want := slices.Index(entries[from:], v) + from
		if want < from {
			want = len(entries)
		}
		if got := c.find(c.base+v, from); got != want {
			t.Errorf("find %x from %d: %d, want %d", v, from, got, want)
		}
	}
	for i, v := range entries {
		if c.at(i) != c.base+v {
			t.Errorf("at %d: %x", i, c.at(i))
		}
	}
}
