package record

import "fmt"

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
