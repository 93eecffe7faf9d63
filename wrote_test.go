package rota_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/record"
)

// wrote sees every write of the store as it happens.
func (w *play) wrote(was, is rota.Entry) {
	switch {
	case strings.HasSuffix(is.Key, "/roster"):
		r, err := record.DecodeRoster(is.Value)
		if err != nil {
			panic(err)
		}
		w.mu.Lock()
		w.roster = r
		w.mu.Unlock()
	case strings.HasSuffix(is.Key, "/plan"):
		w.wrotePlan(plan(was), plan(is))
	}
}

func plan(e rota.Entry) *record.Plan {
	if e.Rev == 0 {
		return nil
	}
	p, err := record.DecodePlan(e.Value)
	if err != nil {
		panic(err)
	}
	return p
}

func (w *play) wrotePlan(was, p *record.Plan) {
	if was == nil {
		was = &record.Plan{Incarnation: p.Incarnation}
	}
	w.mu.Lock()
	roster := w.roster
	w.mu.Unlock()
	for i := range p.Rows {
		if i < len(was.Rows) && was.Rows[i] == p.Rows[i] || roster == nil || i >= len(roster.Entries) {
			continue
		}
		r := &p.Rows[i]
		w.mu.Lock()
		e := check.Event{Kind: check.Row, Part: w.part(roster.Entries[i].Name), State: r.State, Token: r.Token, Who: check.Nobody, Eager: p.Mode == record.Eager && !w.orders.Freeze}
		if r.State != record.Free {
			e.Who = w.who(uint64(r.Owner))
		}
		w.mu.Unlock()
		w.observe(e)
	}
	if was.Incarnation != p.Incarnation {
		w.say("a new incarnation")
	}
	if was.ID == p.ID && (slices.Equal(was.Members, p.Members) || was.Gen == 0) {
		return
	}
	w.sayPlan(was, p, roster)
}

// sayPlan tells a plan when its maker's event has arrived too.
func (w *play) sayPlan(was, p *record.Plan, roster *record.Roster) {
	why := ""
	if l := w.leader(p); l != nil {
		why = l.why()
	}
	if was.ID == p.ID {
		why += ", aimed anew"
	}
	if n := len(p.Members); n > 12 {
		w.say("plan %d (%s) %d members, %d partitions", p.ID, why, n, len(p.Rows))
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "plan %d (%s)", p.ID, why)
	aims := func(mine func(*record.Row) bool) string {
		s := ""
		for i := range p.Rows {
			if mine(&p.Rows[i]) {
				s += " " + nameOfRow(roster, i)
			}
		}
		if s == "" {
			return " -"
		}
		return s
	}
	for _, m := range p.Members {
		fmt.Fprintf(&b, "  %s:%s", w.nameOf(uint64(m)), aims(func(r *record.Row) bool {
			to := r.To
			if r.State == record.Owned {
				to = r.Owner
			}
			return r.Reason == record.NoReason && to == m
		}))
	}
	for reason := record.Paused; reason <= record.Failing; reason++ {
		if s := aims(func(r *record.Row) bool { return r.Reason == reason }); s != " -" {
			fmt.Fprintf(&b, "  %s:%s", reason, s)
		}
	}
	w.say("%s", b.String())
}

// nameOfRow is what a row is about, as far as the store still knows.
func nameOfRow(r *record.Roster, i int) string {
	if i < len(r.Entries) {
		return r.Entries[i].Name
	}
	return fmt.Sprintf("partition %d", i)
}

func (w *play) leader(p *record.Plan) *proc {
	for _, x := range w.procs() {
		if x.up.Load() && x.m.SessionID() == uint64(p.Leader) {
			return x
		}
	}
	return nil
}

// whys are the reasons for a plan, as scenarios tell them.
func whys(causes []rota.Cause) string {
	var all []string
	for _, c := range causes {
		all = append(all, string(c.Why))
	}
	return strings.Join(all, ", ")
}

// why is what the member said of the plan it made last. The event precedes the
// write, so it is in the ring already.
func (p *proc) why() string {
	e := p.m.LastPlan()
	s := whys(e.Causes)
	if e.Moved > 0 {
		s += fmt.Sprintf("; %d moved", e.Moved)
	}
	if e.Placed > 0 {
		s += fmt.Sprintf("; %d placed", e.Placed)
	}
	return s
}
