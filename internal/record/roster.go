package record

import (
	"fmt"
	"hash/maphash"
	"math/bits"
)

func (*Roster) kind() kind { return kindRoster }

// Append appends the encoding of x to dst.
func (x *Roster) Append(dst []byte) []byte {
	x = x.Full()
	w := write(dst, kindRoster)
	w.uvarint(x.Ver)
	appendList(w, x.Entries, func(w *writer, p Partition) {
		w.text(p.Name)
		w.text(p.Topic)
		appendList(w, p.Meta, (*writer).pair)
		w.bool(p.Removed)
	})
	return w.b
}

// DecodeRoster decodes and validates a roster with its entries.
func DecodeRoster(b []byte) (*Roster, error) {
	x, err := OpenRoster(b)
	if err != nil {
		return nil, err
	}
	return x.Full(), nil
}

// OpenRoster decodes and validates a roster but leaves the entries encoded: Entries is
// nil, Len, At and Full work. That is all a member that does not lead needs, in a fifth
// of the memory. The roster keeps b, which must not be changed any more.
func OpenRoster(b []byte) (*Roster, error) {
	r := read(b, kindRoster)
	x := &Roster{Ver: r.uvarint("ver")}
	n := r.count("entries", 4)
	x.packed = &packed{b: b, n: n, at: make([]uint32, 0, (n+stride-1)/stride)}
	s := borrow(n)
	defer s.giveBack()
	names := s.names
	for i := range n {
		if i%stride == 0 {
			x.packed.at = append(x.packed.at, uint32(len(b)-len(r.b)))
		}
		p := r.partition()
		if r.err != nil {
			return nil, r.err
		}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("roster: partition %d: %w", i, err)
		}
		names[i] = p.Name
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if err := x.checkHead(s); err != nil {
		return nil, fmt.Errorf("roster: %w", err)
	}
	return x, nil
}

func (r *reader) partition() Partition {
	return Partition{Name: r.text("name"), Topic: r.text("topic"), Meta: r.pairs("metadata"), Removed: r.bool("removed")}
}

// packed are entries of a roster that are still encoded, and known to be valid.
type packed struct {
	b  []byte   // the roster
	n  int      // how many there are
	at []uint32 // where every stride-th begins
}

// stride is how many entries are read at most to find one: a member needs few, and every
// member keeps a table.
const stride = 16

func (k *packed) entry(id ID) (p Partition) {
	r := &reader{b: k.b[k.at[id/stride]:], kind: kindRoster}
	for range id%stride + 1 {
		p = r.partition()
	}
	return p
}

func (k *packed) entries() []Partition {
	if k.n == 0 {
		return nil
	}
	r := &reader{b: k.b[k.at[0]:], kind: kindRoster}
	all := make([]Partition, k.n)
	for i := range all {
		all[i] = r.partition()
	}
	return all
}

// Len is the number of entries, in either form.
func (x *Roster) Len() int {
	if x.lazy() {
		return x.packed.n
	}
	return len(x.Entries)
}

// At is the entry of one partition, in either form.
func (x *Roster) At(id ID) Partition {
	if x.lazy() {
		return x.packed.entry(id)
	}
	return x.Entries[id]
}

// Full returns the roster with its entries: x itself if it has them, or a new roster. A
// lazy roster decodes them at each call.
func (x *Roster) Full() *Roster {
	if !x.lazy() {
		return x
	}
	return &Roster{Ver: x.Ver, Entries: x.packed.entries()}
}

// lazy tells whether the entries are still encoded. A copy of a lazy roster that was
// given Entries is not lazy: those count.
func (x *Roster) lazy() bool { return x.Entries == nil && x.packed != nil }

func (x *Roster) check() error {
	x = x.Full()
	s := borrow(len(x.Entries))
	defer s.giveBack()
	names := s.names
	for i := range x.Entries {
		p := &x.Entries[i]
		if err := p.check(); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
		names[i] = p.Name
	}
	return x.checkHead(s)
}

var seed = maphash.MakeSeed()

// checkHead checks all but the entries one by one. No two have the same name.
func (x *Roster) checkHead(s *scratch) error {
	names := s.names
	if err := numbered(x.Ver, LastRoster); err != nil {
		return err
	}
	if n := len(names); n > MaxPartitions {
		return fmt.Errorf("%d partitions, more than the %d a group may have, removed ones included", n, MaxPartitions)
	}
	// A hash table of indices. Every member checks the roster when it joins: sorting takes
	// ten times as long, and a map ten times the memory.
	table := s.table(bits.Len(uint(2 * len(names))))
	mask := uint64(len(table) - 1)
	for i, name := range names {
		at := maphash.String(seed, name) & mask
		for ; table[at] != 0; at = (at + 1) & mask {
			if first := int(table[at]) - 1; names[first] == name {
				return fmt.Errorf("partition %d: name %q is already that of partition %d", i, name, first)
			}
		}
		table[at] = uint16(i + 1) // MaxPartitions fits
	}
	return nil
}

func (p *Partition) check() error {
	if err := name("name", p.Name, maxPartition); err != nil {
		return err
	}
	if p.Topic != "" {
		if err := name("topic", p.Topic, maxPartition); err != nil {
			return err
		}
	}
	return pairs("metadata", p.Meta)
}

// MaxPartitions is how many partitions a roster may name, removed ones included.
// With so many, the plan and every member's record still fit into a store's value,
// whatever their rows and lists hold.
const MaxPartitions = 1 << 15
