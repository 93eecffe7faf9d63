package record

import (
	"cmp"
	"fmt"
	"slices"
)

func (*Roster) kind() kind { return kindRoster }

// Append appends the encoding of x to dst.
func (x *Roster) Append(dst []byte) []byte {
	w := write(dst, kindRoster)
	w.uvarint(x.Ver)
	appendList(w, x.Entries, func(w *writer, p Partition) {
		w.text(p.Name)
		appendList(w, p.Meta, (*writer).pair)
		w.bool(p.Removed)
	})
	return w.b
}

// DecodeRoster decodes and validates a roster.
func DecodeRoster(b []byte) (*Roster, error) {
	r := read(b, kindRoster)
	x := &Roster{
		Ver: r.uvarint("ver"),
		Entries: list(r, "entries", 3, func(r *reader) Partition {
			return Partition{
				Name:    r.text("name"),
				Meta:    r.pairs("metadata"),
				Removed: r.bool("removed"),
			}
		}),
	}
	return checked(r, x)
}

func (x *Roster) check() error {
	if err := numbered(x.Ver, LastRoster); err != nil {
		return err
	}
	if n := len(x.Entries); n > MaxPartitions {
		return fmt.Errorf("%d partitions, more than the %d a group may have, removed ones included", n, MaxPartitions)
	}
	seen := make(map[string]int, len(x.Entries))
	for i := range x.Entries {
		p := &x.Entries[i]
		if err := p.check(); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
		if first, twice := seen[p.Name]; twice {
			return fmt.Errorf("partition %d: name %q is already that of partition %d", i, p.Name, first)
		}
		seen[p.Name] = i
	}
	return nil
}

func (p *Partition) check() error {
	if err := name("name", p.Name, maxPartition); err != nil {
		return err
	}
	return pairs("metadata", p.Meta)
}

// MaxPartitions is how many partitions a roster may name, removed ones included.
// With so many, the plan and every member's record still fit into a store's value,
// whatever their rows and lists hold.
const MaxPartitions = 1 << 15

// MergeMeta puts pairs over base, both sorted by Key: where both have a key, pairs
// win.
func MergeMeta(base, pairs []Pair) []Pair {
	out := slices.Clone(base)
	for _, p := range pairs {
		at, ok := slices.BinarySearchFunc(out, p.Key, func(q Pair, k string) int { return cmp.Compare(q.Key, k) })
		if ok {
			out[at] = p
		} else {
			out = slices.Insert(out, at, p)
		}
	}
	return out
}

// MetaFits tells whether a partition can have this metadata.
func MetaFits(pairs []Pair) bool { return (&Partition{Name: "p", Meta: pairs}).check() == nil }
