package record

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A column holds one number per row in frame-of-reference encoding: base is the
// smallest number, and each row stores its distance from base in width
// little-endian bytes. The width is the least that is enough; it is 0 if all
// numbers are equal. Because the width is fixed, a member can read its own rows
// only.
//
// Scans go entry by entry. Scans of 8 bytes at once would open a plan of 10,000
// rows in 30 µs instead of 75 µs (BenchmarkOpenMine), once per plan and member: too
// little for 47 lines of masks.
type column struct {
	base  uint64
	rows  int
	width int
	mask  uint64 // of width bytes
	data  []byte
}

func makeColumn(base uint64, rows, width int, data []byte) column {
	return column{base, rows, width, math.MaxUint64 >> (64 - 8*width), data}
}

func bytesFor(v uint64) int { return (bits.Len64(v) + 7) / 8 }

func (c *column) at(i int) uint64 {
	return c.base + load(c.data, i*c.width, c.width, c.mask)
}

// load reads the entry of a column's data that starts at off. Except at the very
// end that is one load of 8 bytes, whatever the width. It is not a method, because
// in the loops below the compiler would then reload the fields for each row.
func load(data []byte, off, width int, mask uint64) uint64 {
	if off+8 <= len(data) {
		return binary.LittleEndian.Uint64(data[off:]) & mask
	}
	return last(data[off : off+width])
}

func last(entry []byte) (v uint64) {
	for i, b := range entry {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// tight tells whether base and width are the canonical ones: some entry is zero,
// and some entry needs its highest byte.
func (c *column) tight() (base, width bool) {
	if c.width == 0 {
		return true, true
	}
	narrow := c.mask >> 8
	for off := 0; off < len(c.data) && !(base && width); off += c.width {
		v := load(c.data, off, c.width, c.mask)
		base, width = base || v == 0, width || v > narrow
	}
	return base, width
}

// within tells whether no entry is above limit.
func (c *column) within(limit uint64) bool {
	if c.mask <= limit {
		return true
	}
	top := uint64(0)
	data, width, mask := c.data, c.width, c.mask
	for off := 0; off < len(data); off += width {
		top = max(top, load(data, off, width, mask))
	}
	return top <= limit
}

// find returns the first row from i on whose number is v, or rows if there is none.
func (c *column) find(v uint64, i int) int {
	v -= c.base
	if v > c.mask {
		return c.rows
	}
	data, width, mask := c.data, c.width, c.mask
	off := i * width
	for ; i < c.rows && load(data, off, width, mask) != v; i++ {
		off += width
	}
	return i
}

func (w *writer) column(values []uint64) {
	lo, hi := uint64(math.MaxUint64), uint64(0)
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	width := bytesFor(hi - lo)
	w.byte(byte(width))
	w.uvarint(lo)
	w.packed(values, lo, width)
}

func (w *writer) packed(values []uint64, base uint64, width int) {
	for _, v := range values {
		w.fixed(v - base)
		w.b = w.b[:len(w.b)-8+width]
	}
}

// column reads a column of rows > 0 numbers up to limit, and refuses any encoding
// but the canonical one.
func (r *reader) column(field string, rows int, limit uint64) (c column) {
	width := int(r.byte(field))
	if width > 8 {
		r.fail("%s column: width %d is more than 8 bytes", field, width)
		return c
	}
	base := r.uvarint(field)
	c = makeColumn(base, rows, width, r.bytes(field, rows*width))
	if r.err != nil {
		return c
	}
	tightBase, tightWidth := c.tight()
	switch {
	case !tightBase:
		r.fail("%s column: base %d is below every row", field, base)
	case !tightWidth:
		r.fail("%s column: width %d is more than the rows need", field, width)
	case base > limit || !c.within(limit-base):
		r.fail("%s column: %d is above %d, the most it can be", field, c.top(), limit)
	}
	return c
}

// top returns the largest number, for an error message. A number that overflows
// counts as the largest uint64.
func (c *column) top() (top uint64) {
	for i := range c.rows {
		v := c.at(i)
		if v < c.base {
			v = math.MaxUint64
		}
		top = max(top, v)
	}
	return top
}
