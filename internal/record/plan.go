package record

import (
	"cmp"
	"fmt"
	"slices"
)

func (*Plan) kind() kind { return kindPlan }

// Append appends the encoding of x to dst.
func (x *Plan) Append(dst []byte) []byte {
	x = x.Full()
	w := write(dst, kindPlan)
	w.uvarint(uint64(x.Incarnation))
	w.uvarint(x.Gen)
	w.fixed(x.Write)
	w.uvarint(x.Decided)
	w.text(x.Server)
	w.bool(x.Hold)
	w.uvarint(x.Term)
	w.session(x.Leader)
	w.uvarint(x.ID)
	w.byte(byte(x.Mode))
	w.uvarint(x.Roster)
	w.uvarint(x.Orders)
	w.kills(x.Kills)
	appendList(w, x.Returns, func(w *writer, t Return) {
		w.text(t.Name)
		w.uvarint(uint64(t.Count))
	})
	w.uvarint(uint64(x.Size.Wanted))
	appendList(w, x.Size.Chosen, (*writer).session)
	w.rows(x)
	return w.b
}

func (w *writer) kills(list []Kill) {
	var next uint64
	appendList(w, list, func(w *writer, k Kill) {
		w.id(k.ID, &next)
		w.uvarint(uint64(k.Count))
		w.session(k.Last)
		w.bool(k.Elsewhere)
	})
}

// DecodePlan decodes and validates a plan with its rows.
func DecodePlan(b []byte) (*Plan, error) {
	p, err := OpenPlan(b)
	if err != nil {
		return nil, err
	}
	return p.Full(), nil
}

// OpenPlan decodes and validates a plan but leaves the rows encoded: Rows is nil,
// Len, Mine and Full work. That is all a member that does not lead needs, at a
// fraction of the cost.
func OpenPlan(b []byte) (*Plan, error) {
	r := read(b, kindPlan)
	p := &Plan{
		Incarnation: r.uint32("incarnation"),
		Gen:         r.uvarint("gen"),
		Write:       r.fixed("write"),
		Decided:     r.uvarint("decided"),
		Server:      r.text("server"),
		Hold:        r.bool("hold"),
		Term:        r.uvarint("term"),
		Leader:      r.session("leader"),
		ID:          r.uvarint("id"),
		Mode:        Mode(r.byte("mode")),
		Roster:      r.uvarint("roster"),
		Orders:      r.uvarint("orders"),
		Kills:       r.kills(),
		Returns: list(r, "returns", 2, func(r *reader) Return {
			return Return{Name: r.text("returns"), Count: r.uint32("returns")}
		}),
	}
	p.Size = Size{Wanted: r.uint32("wanted"), Chosen: list(r, "chosen", 8, func(r *reader) Session { return r.session("chosen") })}
	c := r.columns(p)
	if err := r.end(); err != nil {
		return nil, err
	}
	if err := cmp.Or(p.checkHead(), c.check(p)); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

func (r *reader) kills() []Kill {
	var next uint64
	return list(r, "kills", 11, func(r *reader) Kill {
		return Kill{ID: r.id("kills", &next), Count: r.uint32("kills count"), Last: r.session("kills last"), Elsewhere: r.bool("kills elsewhere")}
	})
}

// Len is the number of rows, in either form.
func (p *Plan) Len() int {
	if p.lazy() {
		return len(p.cols.state)
	}
	return len(p.Rows)
}

// Full returns the plan with its rows: p itself if it has them, or a new plan. A
// lazy plan decodes them at each call.
func (p *Plan) Full() *Plan {
	if !p.lazy() {
		return p
	}
	full := *p
	full.Rows, full.cols = p.cols.rows(), nil
	return &full
}

// lazy tells whether the rows are still encoded in cols. A copy of a lazy plan that
// was given Rows is not lazy: those count.
func (p *Plan) lazy() bool { return p.Rows == nil && p.cols != nil }

// OwnRow is a row together with its partition.
type OwnRow struct {
	ID ID
	Row
}

// Mine appends the rows that session owns, with their IDs, to dst.
func (p *Plan) Mine(session Session, dst []OwnRow) []OwnRow {
	if p.lazy() {
		return p.cols.mine(session, dst)
	}
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Owner == session && r.State != Free {
			dst = append(dst, OwnRow{ID(i), *r})
		}
	}
	return dst
}

func (x *Plan) check() error {
	x = x.Full()
	if err := cmp.Or(x.checkHead(), unique(x.Members)); err != nil {
		return err
	}
	for i := range x.Rows {
		if err := x.checkRow(&x.Rows[i]); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// checkHead checks all but sessions and rows.
func (x *Plan) checkHead() error {
	if err := cmp.Or(
		incarnation("incarnation", x.Incarnation),
		counted("gen", x.Gen, LastCount),
		counted("term", x.Term, LastCount),
		counted("id", x.ID, LastCount),
		counted("roster", x.Roster, LastRoster),
		counted("orders", x.Orders, LastCount),
	); err != nil {
		return err
	}
	switch {
	case x.Gen == 0:
		return fmt.Errorf("gen is 0, but starts at 1")
	case x.Decided > x.Gen:
		return fmt.Errorf("decided %d is after gen %d", x.Decided, x.Gen)
	case x.Term == 0:
		return fmt.Errorf("term is 0, but starts at 1")
	case x.Mode > Eager:
		return fmt.Errorf("mode %d is unknown", x.Mode)
	}
	if err := identity("server", x.Server); err != nil {
		return err
	}
	if err := idsOf("kills", x.Kills, func(k Kill) ID { return k.ID }); err != nil {
		return err
	}
	if n := len(x.Kills); n > 0 && int(x.Kills[n-1].ID) >= x.Len() {
		return fmt.Errorf("kills: id %d is not one of %d rows", x.Kills[n-1].ID, x.Len())
	}
	for _, t := range x.Returns {
		if err := name("returns: name", t.Name, maxMember); err != nil {
			return err
		}
	}
	if err := sorted("returns", x.Returns, func(t Return) string { return t.Name }); err != nil {
		return err
	}
	if len(x.Size.Chosen) > 0 && x.Size.Chosen[0] == 0 {
		return fmt.Errorf("chosen: entry 0 is zero, which is no session")
	}
	return sorted("chosen", x.Size.Chosen, func(s Session) Session { return s })
}

// checkRow checks a row against the plan. Neither Owner nor To has to be a member:
// the owner may be dead, and To may be a session that has ended.
func (x *Plan) checkRow(r *Row) error {
	switch {
	case r.State > Revoking:
		return fmt.Errorf("state %d is unknown", r.State)
	case r.Reason > Failing:
		return fmt.Errorf("reason %d is unknown", r.Reason)
	case r.State == Free && r.Owner != 0:
		return fmt.Errorf("free, but with the owner %v", r.Owner)
	case r.State == Owned && r.Owner == 0:
		return fmt.Errorf("owned without an owner")
	case r.State == Revoking && r.Owner == 0:
		return fmt.Errorf("revoking without an owner")
	case r.State != Free && r.Token.Counter() == 0:
		return fmt.Errorf("token %v, but the counter of a grant starts at 1", r.Token)
	case r.Token.Incarnation() > x.Incarnation:
		return fmt.Errorf("token %v is of a later incarnation than the plan's, %d", r.Token, x.Incarnation)
	case r.Rev > x.Gen:
		return fmt.Errorf("rev %d is after gen %d", r.Rev, x.Gen)
	}
	return nil
}

// unique checks that no session is zero or appears twice. Members check every plan,
// so for usual numbers it uses a hash table; for more, where an attacker could
// choose sessions that make a hash table slow, it sorts.
func unique(sessions []Session) error {
	if slices.Contains(sessions, 0) {
		return fmt.Errorf("sessions: entry %d is zero, which is no session", slices.Index(sessions, 0))
	}
	if len(sessions) > 1<<12 {
		list := slices.Clone(sessions)
		slices.Sort(list)
		return sorted("sessions", list, func(s Session) Session { return s })
	}
	shift := 62
	for 1<<(64-shift) < 2*len(sessions) {
		shift--
	}
	s := borrow(0)
	defer s.giveBack()
	slots := s.table(64 - shift) // index in sessions plus 1; 0 is an empty slot
	for n, s := range sessions {
		i := int(uint64(s) * 0x9e3779b97f4a7c15 >> shift)
		for ; slots[i] != 0; i = (i + 1) & (len(slots) - 1) {
			if sessions[slots[i]-1] == s {
				return fmt.Errorf("sessions: %v appears twice", s)
			}
		}
		slots[i] = uint16(n + 1)
	}
	return nil
}
