package record

import (
	"cmp"
	"fmt"
	"time"
)

const (
	maxConditions = 16
	maxLabels     = 64
	maxPeriod     = 24 * time.Hour // a lease or a heartbeat longer than this is a mistake of units
)

func (*Member) kind() kind { return kindMember }

// Append appends the encoding of x to dst.
func (x *Member) Append(dst []byte) []byte {
	w := write(dst, kindMember)
	w.session(x.Session)
	w.byte(byte(x.State))
	w.uvarint(uint64(x.Lease))
	w.uvarint(uint64(x.Beat))
	w.uvarint(x.Seq)
	w.uvarint(uint64(x.AckInc))
	w.uvarint(x.AckGen)
	w.ids(x.Stopping)
	w.ids(x.Starting)
	w.gaveUp(x.GaveUp)
	w.uvarint(x.Bug)
	w.bool(x.Proof)
	w.bool(x.Returning)
	w.uvarint(uint64(x.Was))
	w.uvarint(uint64(x.Took))
	w.bool(x.Continues)
	w.load(x.Load)
	w.uvarint(x.Handled)
	w.uvarint(uint64(x.Busy))
	w.text(x.Name)
	w.text(x.Host.Boot)
	w.uvarint(uint64(x.Host.PID))
	w.uvarint(x.Host.Start)
	w.uvarint(x.Host.Namespace)
	appendList(w, x.Labels, (*writer).pair)
	w.time(x.Sent)
	appendList(w, x.Conditions, func(w *writer, c Condition) {
		w.text(c.Code)
		w.text(c.Partition)
		w.text(c.Text)
	})
	w.uvarint(x.Letters)
	return w.b
}

func (w *writer) gaveUp(list []GaveUp) {
	var next uint64
	appendList(w, list, func(w *writer, g GaveUp) {
		w.id(g.ID, &next)
		w.token(g.Token)
		w.text(g.Cause)
	})
}

func (w *writer) load(list []Load) {
	var next uint64
	appendList(w, list, func(w *writer, l Load) {
		w.id(l.ID, &next)
		w.uvarint(l.Handled)
	})
}

// DecodeMember decodes and validates a member record.
func DecodeMember(b []byte) (*Member, error) {
	r := read(b, kindMember)
	x := &Member{
		Session:   r.session("session"),
		State:     MemberState(r.byte("state")),
		Lease:     time.Duration(r.uvarint("lease")),
		Beat:      time.Duration(r.uvarint("beat")),
		Seq:       r.uvarint("seq"),
		AckInc:    r.uint32("ack incarnation"),
		AckGen:    r.uvarint("ack gen"),
		Stopping:  r.ids("stopping"),
		Starting:  r.ids("starting"),
		GaveUp:    r.gaveUp(),
		Bug:       r.uvarint("bug"),
		Proof:     r.bool("proof"),
		Returning: r.bool("returning"),
		Was:       Session(r.uvarint("was")),
		Took:      time.Duration(r.uvarint("took")),
		Continues: r.bool("continues"),
		Load:      r.load(),
		Handled:   r.uvarint("handled"),
		Busy:      r.uint32("busy"),
		Name:      r.text("name"),
		Host: Host{
			Boot:      r.text("host boot"),
			PID:       r.uint32("host pid"),
			Start:     r.uvarint("host start"),
			Namespace: r.uvarint("host namespace"),
		},
		Labels: r.pairs("labels"),
		Sent:   r.time("sent"),
		Conditions: list(r, "conditions", 3, func(r *reader) Condition {
			return Condition{Code: r.text("condition code"), Partition: r.text("condition partition"), Text: r.text("condition")}
		}),
		Letters: r.uvarint("letters"),
	}
	return checked(r, x)
}

func (r *reader) gaveUp() []GaveUp {
	var next uint64
	return list(r, "gave-up", 4, func(r *reader) GaveUp {
		return GaveUp{
			ID:    r.id("gave-up", &next),
			Token: r.token("gave-up token"),
			Cause: r.text("gave-up cause"),
		}
	})
}

func (r *reader) load() []Load {
	var next uint64
	return list(r, "load", 2, func(r *reader) Load {
		return Load{ID: r.id("load", &next), Handled: r.uvarint("load handled")}
	})
}

func (x *Member) check() error {
	if x.Session == 0 {
		return fmt.Errorf("session is zero")
	}
	if x.State > Left {
		return fmt.Errorf("state %d is unknown", x.State)
	}
	if x.Busy > 1000 {
		return fmt.Errorf("busy %d is not between 0 and 1000", x.Busy)
	}
	if x.Took < 0 || x.Took > maxPeriod {
		return fmt.Errorf("took %v is not between 0 and %v", x.Took, maxPeriod)
	}
	return cmp.Or(
		counted("seq", x.Seq, LastCount),
		incarnation("ack incarnation", x.AckInc),
		counted("ack gen", x.AckGen, LastCount),
		period("lease", x.Lease),
		period("beat", x.Beat),
		name("name", x.Name, maxMember),
		idsOf("stopping", x.Stopping, func(id ID) ID { return id }),
		idsOf("starting", x.Starting, func(id ID) ID { return id }),
		idsOf("gave-up", x.GaveUp, func(g GaveUp) ID { return g.ID }),
		idsOf("load", x.Load, func(l Load) ID { return l.ID }),
		x.checkCauses(),
		identity("host boot", x.Host.Boot),
		x.checkLabels(),
		x.checkConditions(),
	)
}

func period(field string, d time.Duration) error {
	if d <= 0 || d > maxPeriod {
		return fmt.Errorf("%s %v is not between 1ns and %v", field, d, maxPeriod)
	}
	return nil
}

func (x *Member) checkCauses() error {
	for _, g := range x.GaveUp {
		if err := prose("cause", g.Cause); err != nil {
			return fmt.Errorf("gave-up %d: %w", g.ID, err)
		}
	}
	return nil
}

func (x *Member) checkLabels() error {
	if n := len(x.Labels); n > maxLabels {
		return fmt.Errorf("labels: %d pairs, more than %d", n, maxLabels)
	}
	return pairs("labels", x.Labels)
}

func (x *Member) checkConditions() error {
	if n := len(x.Conditions); n > maxConditions {
		return fmt.Errorf("conditions: %d, more than %d", n, maxConditions)
	}
	for _, c := range x.Conditions {
		err := cmp.Or(name("condition code", c.Code, maxCode), name("condition", c.Text, maxCondition))
		if err == nil && c.Partition != "" {
			err = name("condition partition", c.Partition, maxPartition)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
