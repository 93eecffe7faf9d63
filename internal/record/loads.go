package record

import (
	"cmp"
	"fmt"
)

// Loads is what a leader measured, and what it made of it. It is for people only: a
// leader begins anew without it.
type Loads struct {
	At      int64  // of the measurement: wall clock, Unix milliseconds
	Unit    string // what is counted
	Known   bool   // loads are known; otherwise partitions are placed by number
	Looked  int64  // when the whole plan was last looked at; 0 if it was not yet
	Moved   bool   // it moved something
	Needs   string // in words: what the load needs
	Wanted  uint32 // members that the load needs
	Used    uint32 // members that the plan gives something to
	Asked   int64  // when the Scaler was last asked; 0 if it was not
	Answer  string // what it said: empty if all was well
	Members []MemberLoad
	Parts   []PartLoad // by ID
}

// MemberLoad is what one member carries and sustains, in thousandths of a unit per second.
type MemberLoad struct {
	Session  Session
	Load     uint64
	Capacity uint64 // 0 if it is not known
}

// PartLoad is what one partition carries, in thousandths: of units per second, and of
// units.
type PartLoad struct {
	Speed   uint64
	Backlog uint64
}

func (*Loads) kind() kind { return kindLoads }

// Append appends the encoding of x to dst.
func (x *Loads) Append(dst []byte) []byte {
	w := write(dst, kindLoads)
	w.time(x.At)
	w.text(x.Unit)
	w.bool(x.Known)
	w.time(x.Looked)
	w.bool(x.Moved)
	w.text(x.Needs)
	w.uvarint(uint64(x.Wanted))
	w.uvarint(uint64(x.Used))
	w.time(x.Asked)
	w.text(x.Answer)
	appendList(w, x.Members, func(w *writer, m MemberLoad) {
		w.session(m.Session)
		w.uvarint(m.Load)
		w.uvarint(m.Capacity)
	})
	appendList(w, x.Parts, func(w *writer, p PartLoad) {
		w.uvarint(p.Speed)
		w.uvarint(p.Backlog)
	})
	return w.b
}

// DecodeLoads decodes and validates a record of loads.
func DecodeLoads(b []byte) (*Loads, error) {
	r := read(b, kindLoads)
	x := &Loads{
		At:     r.time("at"),
		Unit:   r.text("unit"),
		Known:  r.bool("known"),
		Looked: r.time("looked"),
		Moved:  r.bool("moved"),
		Needs:  r.text("needs"),
		Wanted: r.uint32("wanted"),
		Used:   r.uint32("used"),
		Asked:  r.time("asked"),
		Answer: r.text("answer"),
		Members: list(r, "members", 10, func(r *reader) MemberLoad {
			return MemberLoad{Session: r.session("session"), Load: r.uvarint("load"), Capacity: r.uvarint("capacity")}
		}),
		Parts: list(r, "partitions", 2, func(r *reader) PartLoad {
			return PartLoad{Speed: r.uvarint("speed"), Backlog: r.uvarint("backlog")}
		}),
	}
	return checked(r, x)
}

func (x *Loads) check() error {
	if err := cmp.Or(name("unit", x.Unit, maxCode), prose("needs", x.Needs), prose("answer", x.Answer)); err != nil {
		return err
	}
	for i := range x.Members {
		if x.Members[i].Session == 0 {
			return fmt.Errorf("member %d: session is zero", i)
		}
	}
	return nil
}
