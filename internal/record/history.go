package record

import "fmt"

func (*History) kind() kind { return kindHistory }

// Append appends the encoding of x to dst.
func (x *History) Append(dst []byte) []byte {
	w := write(dst, kindHistory)
	appendList(w, x.Plans, func(w *writer, p Past) {
		w.uvarint(p.ID)
		w.uvarint(p.Gen)
		w.time(p.At)
		w.text(p.Cause)
		w.uvarint(uint64(p.Moves))
		w.uvarint(uint64(p.Members))
	})
	return w.b
}

// DecodeHistory decodes and validates a history.
func DecodeHistory(b []byte) (*History, error) {
	r := read(b, kindHistory)
	x := &History{Plans: list(r, "plans", 6, func(r *reader) Past {
		return Past{
			ID:      r.uvarint("id"),
			Gen:     r.uvarint("gen"),
			At:      r.time("at"),
			Cause:   r.text("cause"),
			Moves:   r.uint32("moves"),
			Members: r.uint32("members"),
		}
	})}
	return checked(r, x)
}

func (x *History) check() error {
	for i := range x.Plans {
		if err := prose("cause", x.Plans[i].Cause); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}
