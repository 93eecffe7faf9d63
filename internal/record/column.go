package record

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A column is one number per row in frame of reference: base is the smallest of
// them, each row keeps what it has above base in width little-endian bytes, and
// width is the least that serves; none if all are equal. Fixed width is what lets
// a member look at its own rows only.
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

// load reads the entry of a column's data that starts at off. Everywhere but at
// the very end that is one load of 8 bytes, whatever the width. (No method: in the
// loops below the compiler would fetch the fields anew for each row.)
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

// lanes are the masks to work on all entries of one word at once, for the widths
// that divide it: ones and highs have the lowest and the highest bit of each lane,
// even has every other lane, tops the highest bit of each pair of lanes; shift
// divides by the width.
var lanes = [9]struct {
	ones, highs, even, tops uint64
	shift                   uint8
}{
	1: {0x0101010101010101, 0x8080808080808080, 0x00ff00ff00ff00ff, 0x8000800080008000, 0},
	2: {0x0001000100010001, 0x8000800080008000, 0x0000ffff0000ffff, 0x8000000080000000, 1},
	4: {0x0000000100000001, 0x8000000080000000, 0x00000000ffffffff, 0x8000000000000000, 2},
}

// tight says whether base and width are the only right ones: some entry is zero,
// and some entry needs its highest byte.
func (c *column) tight() (base, width bool) {
	if c.width == 0 {
		return true, true
	}
	off, narrow := 0, c.mask>>8
	if m := &lanes[c.width]; m.ones != 0 {
		// Subtracting one sets a lane's highest bit, where it was not set before,
		// only if some lane is zero.
		ones, highs, large := m.ones, m.highs, ^(m.ones * narrow)
		var zero, wide uint64
		for ; off+8 <= len(c.data) && (zero == 0 || wide == 0); off += 8 {
			v := binary.LittleEndian.Uint64(c.data[off:])
			zero |= (v - ones) &^ v & highs
			wide |= v & large
		}
		base, width = zero != 0, wide != 0
	}
	for ; off < len(c.data) && !(base && width); off += c.width {
		v := load(c.data, off, c.width, c.mask)
		base, width = base || v == 0, width || v > narrow
	}
	return base, width
}

// within says that no entry is above limit.
func (c *column) within(limit uint64) bool {
	if c.mask <= limit {
		return true
	}
	off, top := 0, uint64(0)
	if m := &lanes[c.width]; m.ones != 0 {
		// Of a pair of lanes, one of them blanked, the highest bit survives the
		// subtraction from top+limit only if the other lane is not above limit.
		even, limits, kept, lane := m.even, m.tops|m.ones&m.even*limit, m.tops, uint(8*c.width)
		for ; off+8 <= len(c.data); off += 8 {
			v := binary.LittleEndian.Uint64(c.data[off:])
			kept &= (limits - v&even) & (limits - v>>(lane&63)&even)
		}
		if kept != m.tops {
			return false
		}
	}
	data, width, mask := c.data, c.width, c.mask
	for ; off < len(data); off += width {
		top = max(top, load(data, off, width, mask))
	}
	return top <= limit
}

// find returns the first row from i on that has v, or rows if none has.
func (c *column) find(v uint64, i int) int {
	v -= c.base
	if v > c.mask {
		return c.rows
	}
	data, width, mask := c.data, c.width, c.mask
	off := i * width
	if m := &lanes[width]; m.ones != 0 {
		ones, highs, all := m.ones, m.highs, m.ones*v
		for ; off+8 <= len(data); off += 8 {
			x := binary.LittleEndian.Uint64(data[off:]) ^ all // zero in the lanes that have v
			if x = (x - ones) &^ x & highs; x != 0 {
				return (off + bits.TrailingZeros64(x)/8) >> (m.shift & 7)
			}
		}
		i = off >> (m.shift & 7)
	}
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

// column reads a column of rows > 0 numbers up to limit, and refuses any but its
// one encoding.
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

// top is the largest number, for a message: one that overflows is shown as the
// largest there is.
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
