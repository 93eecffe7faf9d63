package record

import (
	"cmp"
	"fmt"
)

func (*Orders) kind() kind { return kindOrders }

// Append appends the encoding of x to dst.
func (x *Orders) Append(dst []byte) []byte {
	w := write(dst, kindOrders)
	w.uvarint(x.Ver)
	appendList(w, x.Add, (*writer).text)
	appendList(w, x.Remove, (*writer).text)
	appendList(w, x.Meta, func(w *writer, m Meta) {
		w.text(m.Partition)
		appendList(w, m.Pairs, (*writer).pair)
	})
	appendList(w, x.Topics, func(w *writer, t Topic) {
		w.text(t.Name)
		appendList(w, t.Pairs, (*writer).pair)
	})
	appendList(w, x.Pins, (*writer).pin)
	appendList(w, x.Bans, (*writer).pin)
	appendList(w, x.Pauses, (*writer).text)
	appendList(w, x.Drains, (*writer).text)
	appendList(w, x.Release, func(w *writer, l Release) {
		w.text(l.Partition)
		w.uvarint(uint64(l.Kills))
	})
	w.bool(x.Freeze)
	appendList(w, x.Log, func(w *writer, o Order) {
		w.time(o.At)
		w.text(o.Who)
		w.text(o.What)
		w.text(o.Why)
	})
	return w.b
}

func (w *writer) pin(p Pin) { w.text(p.Partition); w.text(p.Member) }

// DecodeOrders decodes and validates orders.
func DecodeOrders(b []byte) (*Orders, error) {
	r := read(b, kindOrders)
	x := &Orders{
		Ver:    r.uvarint("ver"),
		Add:    r.texts("add"),
		Remove: r.texts("remove"),
		Meta: list(r, "meta", 2, func(r *reader) Meta {
			return Meta{Partition: r.text("meta"), Pairs: r.pairs("meta")}
		}),
		Topics: list(r, "topics", 2, func(r *reader) Topic {
			return Topic{Name: r.text("topics"), Pairs: r.pairs("topics")}
		}),
		Pins:   r.pins("pins"),
		Bans:   r.pins("bans"),
		Pauses: r.texts("pauses"),
		Drains: r.texts("drains"),
		Release: list(r, "release", 2, func(r *reader) Release {
			return Release{Partition: r.text("release"), Kills: r.uint32("release")}
		}),
		Freeze: r.bool("freeze"),
		Log: list(r, "log", 4, func(r *reader) Order {
			return Order{At: r.time("log"), Who: r.text("log"), What: r.text("log"), Why: r.text("log")}
		}),
	}
	return checked(r, x)
}

func (r *reader) pins(field string) []Pin {
	return list(r, field, 2, func(r *reader) Pin {
		return Pin{Partition: r.text(field), Member: r.text(field)}
	})
}

func (x *Orders) check() error {
	return cmp.Or(
		numbered(x.Ver, LastCount),
		names("add: partition", x.Add, maxPartition),
		names("remove: partition", x.Remove, maxPartition),
		x.checkMeta(),
		x.checkTopics(),
		checkPins("pins", x.Pins),
		sorted("pins", x.Pins, func(p Pin) string { return p.Partition }),
		checkPins("bans", x.Bans),
		x.checkBans(),
		names("pauses: partition", x.Pauses, maxPartition),
		names("drains: member", x.Drains, maxMember),
		x.checkRelease(),
		x.checkLog(),
	)
}

func (x *Orders) checkMeta() error {
	for _, m := range x.Meta {
		if err := name("meta: partition", m.Partition, maxPartition); err != nil {
			return err
		}
		if err := pairs(fmt.Sprintf("meta of %q", m.Partition), m.Pairs); err != nil {
			return err
		}
	}
	return sorted("meta", x.Meta, func(m Meta) string { return m.Partition })
}

func (x *Orders) checkTopics() error {
	for _, t := range x.Topics {
		if err := name("topics: name", t.Name, maxPartition); err != nil {
			return err
		}
		if err := pairs(fmt.Sprintf("topics: meta of %q", t.Name), t.Pairs); err != nil {
			return err
		}
	}
	return sorted("topics", x.Topics, func(t Topic) string { return t.Name })
}

func checkPins(field string, pins []Pin) error {
	for _, p := range pins {
		if err := name(field+": partition", p.Partition, maxPartition); err != nil {
			return err
		}
		if err := name(field+": member", p.Member, maxMember); err != nil {
			return err
		}
	}
	return nil
}

func (x *Orders) checkBans() error {
	for i := 1; i < len(x.Bans); i++ {
		a, b := x.Bans[i-1], x.Bans[i]
		switch c := cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Member, b.Member)); {
		case c == 0:
			return fmt.Errorf("bans: %q from %q appears twice", b.Partition, b.Member)
		case c > 0:
			return fmt.Errorf("bans: %q from %q comes after %q from %q, but must be sorted",
				b.Partition, b.Member, a.Partition, a.Member)
		}
	}
	return nil
}

func (x *Orders) checkRelease() error {
	for _, l := range x.Release {
		if err := name("release: partition", l.Partition, maxPartition); err != nil {
			return err
		}
	}
	return nil
}

func (x *Orders) checkLog() error {
	for i, o := range x.Log {
		if err := cmp.Or(prose("who", o.Who), prose("what", o.What), prose("why", o.Why)); err != nil {
			return fmt.Errorf("log %d: %w", i, err)
		}
	}
	return nil
}
