package record

import (
	"cmp"
	"fmt"
)

func (*History) kind() kind { return kindHistory }

// Append appends the encoding of x to dst.
func (x *History) Append(dst []byte) []byte {
	w := write(dst, kindHistory)
	appendList(w, x.Plans, func(w *writer, p Past) {
		w.uvarint(p.ID)
		w.uvarint(p.Gen)
		w.time(p.At)
		appendList(w, p.Causes, func(w *writer, c Cause) {
			w.text(c.Why)
			appendList(w, c.Members, (*writer).text)
			w.uvarint(uint64(c.More))
		})
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
			Causes:  list(r, "causes", 3, readCause),
			Moves:   r.uint32("moves"),
			Members: r.uint32("members"),
		}
	})}
	return checked(r, x)
}

func readCause(r *reader) Cause {
	return Cause{Why: r.text("cause"), Members: r.texts("members of a cause"), More: r.uint32("more members")}
}

func (x *History) check() error {
	for i := range x.Plans {
		for _, c := range x.Plans[i].Causes {
			if err := cmp.Or(name("cause", c.Why, maxCode), names("member of a cause", c.Members, maxMember)); err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
		}
	}
	return nil
}
