package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MaxSize is the most bytes that one record may have: every store accepts values of
// this size, with room to spare. It also keeps every list length and every index
// below 1<<20, so the lists need no limit of their own.
const MaxSize = 768 << 10

// maxID bounds partition IDs.
const maxID = 1 << 24

// version is the newest version that this code reads, and the one that it writes. It is
// that of the first release; records of version 1 are from before, and no two of those
// are sure to have the same fields.
//
// Version 3 of a record adds fields after the last one of version 2; its decoder
// ends with `if r.version >= 3 { x.New = r.uvarint("new") }` and older records keep
// the field's zero value or a default. The encoder then always writes version 3,
// and only that encoding is canonical. Members of version 2 refuse such a record,
// so a release that writes version 3 has to come after one that reads it.
const version = 2

// A kind is the first byte of every record: a letter, for people with a hex dump.
type kind byte

const (
	kindPlan    kind = 'P'
	kindRoster  kind = 'R'
	kindOrders  kind = 'O'
	kindMember  kind = 'M'
	kindHistory kind = 'H'
	kindLoads   kind = 'L'
)

// names returns the words for the kind: the one that opens a message, and the one
// that stands inside a message.
func (k kind) names() (short, long string) {
	switch k {
	case kindPlan:
		return "plan", "a plan"
	case kindRoster:
		return "roster", "a roster"
	case kindOrders:
		return "orders", "an orders record"
	case kindMember:
		return "member", "a member record"
	case kindHistory:
		return "history", "a history"
	case kindLoads:
		return "loads", "a record of loads"
	}
	return "", ""
}

// A Record is one of *Plan, *Roster, *Orders, *Member, *History and *Loads.
type Record interface {
	// Append appends the encoding, valid or not; before a write use Encode.
	Append(dst []byte) []byte

	check() error
	kind() kind
}

// Encode checks x as the decoder would, and encodes it. Its result can be read
// back; a record that it refuses must not be written.
func Encode(x Record) ([]byte, error) {
	short, _ := x.kind().names()
	if err := x.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", short, err)
	}
	b := x.Append(nil)
	if err := fits(x.kind(), len(b)); err != nil {
		return nil, err
	}
	return b, nil
}

func fits(k kind, size int) error {
	if size <= MaxSize {
		return nil
	}
	short, _ := k.names()
	return fmt.Errorf("%s: %d bytes, more than the %d a record may have", short, size, MaxSize)
}

// checked ends the decoding of x: no bytes may be left, and x must be valid.
func checked[T Record](r *reader, x T) (T, error) {
	var none T
	if err := r.end(); err != nil {
		return none, err
	}
	if err := x.check(); err != nil {
		short, _ := r.kind.names()
		return none, fmt.Errorf("%s: %w", short, err)
	}
	return x, nil
}

// A writer appends fields. It never fails, because Encode checks the record before.
type writer struct{ b []byte }

func write(dst []byte, k kind) *writer { return &writer{append(dst, byte(k), version)} }

func (w *writer) byte(v byte)            { w.b = append(w.b, v) }
func (w *writer) uvarint(v uint64)       { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) count(n int)            { w.uvarint(uint64(n)) }
func (w *writer) fixed(v uint64)         { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) session(s Session)      { w.fixed(uint64(s)) }
func (w *writer) text(s string)          { w.count(len(s)); w.b = append(w.b, s...) }
func (w *writer) time(ms int64)          { w.uvarint(uint64(ms)<<1 ^ uint64(ms>>63)) }
func (w *writer) token(t Token)          { w.uvarint(uint64(t.Incarnation())); w.uvarint(uint64(t.Counter())) }
func (w *writer) pair(p Pair)            { w.text(p.Key); w.text(p.Value) }
func (w *writer) id(id ID, next *uint64) { w.uvarint(uint64(id) - *next); *next = uint64(id) + 1 }

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *writer) ids(list []ID) {
	w.count(len(list))
	var next uint64
	for _, id := range list {
		w.id(id, &next)
	}
}

// appendList writes a list; the function list reads it.
func appendList[T any](w *writer, xs []T, one func(*writer, T)) {
	w.count(len(xs))
	for _, x := range xs {
		one(w, x)
	}
}

// A reader takes fields off the front of a record. The first error stays in err and
// every later read returns zero, so that a decoder reads as a list of its fields
// and checks err once. Only one encoding of each value is accepted.
type reader struct {
	b       []byte
	kind    kind
	version byte
	err     error
}

// read opens a record of kind k.
func read(b []byte, k kind) *reader {
	r := &reader{b: b, kind: k}
	if err := fits(k, len(b)); err != nil {
		r.b, r.err = nil, err
		return r
	}
	found := kind(r.byte("kind"))
	r.version = r.byte("version")
	if r.err != nil {
		return r
	}
	_, want := k.names()
	switch _, is := found.names(); {
	case found == k && r.version == 0:
		r.fail("version 0 does not exist")
	case found == k && r.version == 1:
		r.fail("version 1 was written by a development version of rota, before the first release: end its members, then rota group repair takes it away")
	case found == k && r.version > version:
		r.fail("version %d, but this member reads versions up to %d: upgrade this member", r.version, version)
	case found != k && is != "":
		r.fail("this is %s, not %s", is, want)
	case found != k:
		r.fail("kind %#02x is unknown: this is not %s, or it was written by a newer rota: then upgrade this member", byte(found), want)
	}
	return r
}

// end returns the first error. Bytes after the last field are an error, too.
func (r *reader) end() error {
	if len(r.b) > 0 {
		r.fail("%d bytes after the last field", len(r.b))
	}
	return r.err
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		short, _ := r.kind.names()
		r.err = fmt.Errorf(short+": "+format, args...)
	}
	r.b = nil
}

func (r *reader) bytes(field string, n int) []byte {
	if n > len(r.b) {
		r.fail("%s: cut short: %d bytes wanted, %d left", field, n, len(r.b))
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte(field string) byte {
	if b := r.bytes(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bool(field string) bool {
	v := r.byte(field)
	if v > 1 {
		r.fail("%s: %d is neither 0 nor 1", field, v)
	}
	return v == 1
}

func (r *reader) uvarint(field string) uint64 {
	v, n := binary.Uvarint(r.b)
	switch {
	case n == 0:
		r.fail("%s: cut short", field)
	case n < 0:
		r.fail("%s: a number of more than 64 bits", field)
	case n > 1 && r.b[n-1] == 0:
		r.fail("%s: %d in %d bytes, not in its shortest form", field, v, n)
	default:
		r.b = r.b[n:]
		return v
	}
	return 0
}

func (r *reader) uint32(field string) uint32 {
	v := r.uvarint(field)
	if v > math.MaxUint32 {
		r.fail("%s: %d has more than 32 bits", field, v)
	}
	return uint32(v)
}

func (r *reader) fixed(field string) uint64 {
	if b := r.bytes(field, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) session(field string) Session { return Session(r.fixed(field)) }

func (r *reader) time(field string) int64 {
	v := r.uvarint(field)
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) token(field string) Token {
	incarnation := r.uint32(field)
	return MakeToken(incarnation, r.uint32(field))
}

// count reads the length of a list whose entries take at least size bytes each. A
// length that the remaining bytes cannot hold is refused before anything is
// allocated.
func (r *reader) count(field string, size int) int {
	n := r.uvarint(field)
	if n > uint64(len(r.b)/size) {
		r.fail("%s: %d entries do not fit in the %d bytes left", field, n, len(r.b))
		return 0
	}
	return int(n)
}

func (r *reader) text(field string) string {
	return string(r.bytes(field, r.count(field, 1)))
}

func (r *reader) pair(field string) Pair {
	key := r.text(field)
	return Pair{key, r.text(field)}
}

func (r *reader) pairs(field string) []Pair {
	return list(r, field, 2, func(r *reader) Pair { return r.pair(field) })
}

func (r *reader) texts(field string) []string {
	return list(r, field, 1, func(r *reader) string { return r.text(field) })
}

// id reads one ID of an ascending list. It is written as its distance from next,
// the lowest ID that it can be, so that such a list cannot be out of order.
func (r *reader) id(field string, next *uint64) ID {
	gap := r.uvarint(field)
	id := *next + min(gap, math.MaxUint32) // next is small: no overflow
	if id >= maxID {
		r.fail("%s: id %d is not below %d", field, id, maxID)
		return 0
	}
	*next = id + 1
	return ID(id)
}

func (r *reader) ids(field string) []ID {
	var next uint64
	return list(r, field, 1, func(r *reader) ID { return r.id(field, &next) })
}

// list reads a list; an empty one is nil.
func list[T any](r *reader, field string, size int, one func(*reader) T) []T {
	n := r.count(field, size)
	if n == 0 {
		return nil
	}
	xs := make([]T, n)
	for i := range xs {
		if xs[i] = one(r); r.err != nil {
			return nil
		}
	}
	return xs
}
