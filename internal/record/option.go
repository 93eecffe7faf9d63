package record

import (
	"math"
	"math/bits"
	"sort"
)

// An option is a column of numbers that are zero in most rows, or in none. Its
// sparse form lists only the rows above zero; it is used if it is smaller than a
// plain column.
type option struct {
	column // of all rows or, if sparse, of those in ids
	sparse bool
	ids    column // ascending; one for each entry of the column
}

// at returns the number of row i. In a sparse option it takes a binary search: each
// is for callers that want all rows.
func (o *option) at(i int) uint64 {
	if !o.sparse {
		return o.column.at(i)
	}
	k := sort.Search(o.rows, func(k int) bool { return o.ids.at(k) >= uint64(i) })
	if k < o.rows && o.ids.at(k) == uint64(i) {
		return o.column.at(k)
	}
	return 0
}

// each calls f for every row above zero.
func (o *option) each(f func(i int, v uint64)) {
	for k := range o.rows {
		v, i := o.column.at(k), k
		if o.sparse {
			i = int(o.ids.at(k))
		}
		if v > 0 {
			f(i, v)
		}
	}
}

// A shape holds the facts that decide in which form an option is written.
type shape struct {
	rows, n        int    // how many rows there are, and how many above zero
	lo, top, least uint64 // smallest, largest, smallest above zero
}

func (s shape) sparse() bool {
	plain := 1 + uvarintLen(s.lo) + s.rows*bytesFor(s.top-s.lo)
	sparse := uvarintLen(uint64(s.n))
	if s.n > 0 {
		sparse += s.n*idWidth(s.rows) + 1 + uvarintLen(s.least) + s.n*bytesFor(s.top-s.least)
	}
	return sparse < plain
}

func idWidth(rows int) int { return bytesFor(uint64(rows - 1)) }

func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// option writes one byte for the form, then the numbers in that form.
func (w *writer) option(values []uint64) {
	s := shape{rows: len(values), lo: math.MaxUint64, least: math.MaxUint64}
	var ids, above []uint64
	for i, v := range values {
		s.lo, s.top = min(s.lo, v), max(s.top, v)
		if v > 0 {
			s.least = min(s.least, v)
			ids, above = append(ids, uint64(i)), append(above, v)
		}
	}
	s.n = len(ids)
	w.bool(s.sparse())
	if !s.sparse() {
		w.column(values)
		return
	}
	w.count(s.n)
	if s.n > 0 {
		w.packed(ids, 0, idWidth(s.rows))
		w.column(above)
	}
}

func (r *reader) option(field string, rows int, limit uint64) (o option) {
	if o.sparse = r.bool(field); o.sparse {
		r.sparse(field, &o, rows, limit)
	} else {
		o.column = r.column(field, rows, limit)
	}
	switch {
	case r.err != nil:
	case !o.sparse && o.base > 0:
		// Every row is above zero: the sparse form, which would list them all, is
		// never smaller.
	case o.shape(rows).sparse() != o.sparse:
		r.fail("%s column: not in its smaller form", field)
	}
	return o
}

func (r *reader) sparse(field string, o *option, rows int, limit uint64) {
	n, width := r.count(field, 1), idWidth(rows)
	if n == 0 {
		return
	}
	o.ids = makeColumn(0, n, width, r.bytes(field, n*width))
	o.column = r.column(field, n, limit)
	if r.err != nil {
		return
	}
	next := uint64(0)
	for k := range n {
		id := o.ids.at(k)
		if id < next || id >= uint64(rows) {
			r.fail("%s column: row %d is out of order, or not one of %d rows", field, id, rows)
			return
		}
		next = id + 1
	}
	if o.base == 0 {
		r.fail("%s column: a row is listed with the value 0", field)
	}
}

// shape returns the shape of a decoded option.
func (o *option) shape(rows int) shape {
	s := shape{rows: rows, lo: o.base, least: math.MaxUint64}
	if o.rows < rows {
		s.lo = 0
	}
	data, base, width, mask, off := o.data, o.base, o.width, o.mask, 0
	zeros := uint64(0)
	for range o.rows {
		v := base + load(data, off, width, mask)
		off += width
		zeros += (v - 1) &^ v >> 63 // 1 if v is zero; no branch, because it could not be predicted
		s.top, s.least = max(s.top, v), min(s.least, v-1)
	}
	s.n = o.rows - int(zeros)
	s.least++
	return s
}
