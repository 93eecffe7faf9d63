package rota

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// mostPasts is how many plans the history keeps: their record stays well below
// 256 KB.
const mostPasts = 1000

// remember queues this leader's newest plan for the history, once the store has it.
func (s *session) remember() {
	p := s.node.Plan()
	if p == nil {
		return
	}
	was := s.counted
	// Versions of a plan mostly have the same members, and only the newest need be kept.
	if p.ID != s.countedBy || slices.Equal(was, p.Members) {
		s.counted, s.countedBy = p.Members, p.ID
	}
	if !s.node.Leads() || p.ID == 0 || p.ID == s.planned || s.said.Plan != p.ID {
		return
	}
	s.planned = p.ID
	if s.past == nil {
		s.past = make(chan record.Past, 16)
	}
	past := record.Past{ID: p.ID, Gen: p.Gen, At: time.Now().UnixMilli(), Causes: s.withNames(s.said.Causes, was, p.Members),
		Moves: uint32(s.said.Moved + s.said.Placed), Members: uint32(len(p.Members))}
	select {
	case s.past <- past:
		if !s.writing.Swap(true) {
			s.goDo(s.writeHistory)
		}
	default: // The store is slow. A gap in the history harms nobody: it is for people.
	}
}

// causes lists the reasons that the bits of w stand for.
func causes(w core.Why) (out []Cause) {
	for _, c := range []struct {
		why core.Why
		as  Why
	}{
		{core.WhyJoined, WhyJoined}, {core.WhyLeft, WhyLeft}, {core.WhyDied, WhyDied}, {core.WhyEvicted, WhyEvicted},
		{core.WhyOrders, WhyOrders}, {core.WhyRoster, WhyRoster}, {core.WhyOwnerless, WhyOwnerless}, {core.WhyReturned, WhyReturned},
		{core.WhyLoad, WhyLoad}, {core.WhySize, WhySize}, {core.WhyInterval, WhyInterval},
	} {
		if w&c.why != 0 {
			out = append(out, Cause{Why: c.as})
		}
	}
	return out
}

// mostNames is how many members a cause names.
const mostNames = 3

// withNames adds the members' names to the causes of a plan: members that are new in
// it, and members of the plan before that are not in it.
func (s *session) withNames(causes []Cause, was, is []record.Session) (out []record.Cause) {
	names := map[Why][]string{}
	for _, m := range s.node.Members() {
		var why Why
		switch in, out := slices.Contains(is, m.Session), slices.Contains(was, m.Session); {
		case in && !out:
			why = WhyJoined
		case in || !out:
			continue
		case m.State == record.Dead:
			why = WhyDied
		case m.State == record.Evicted:
			why = WhyEvicted
		default:
			why = WhyLeft
		}
		names[why] = append(names[why], m.Name)
	}
	for _, c := range causes {
		all := names[c.Why]
		slices.Sort(all)
		some := all[:min(len(all), mostNames)]
		out = append(out, record.Cause{Why: string(c.Why), Members: some, More: uint32(len(all) - len(some))})
	}
	return out
}

// writeHistory appends queued plans to the history record, until there are none. It
// retries conflicts, and drops a plan after any other error.
func (s *session) writeHistory() {
	for {
		select {
		case p := <-s.past:
			for range 3 {
				if !errors.Is(s.appendPast(p), ErrConflict) {
					break
				}
			}
		default:
			s.writing.Store(false)
			if len(s.past) == 0 || s.writing.Swap(true) {
				return // nothing came meanwhile, or another goroutine writes it
			}
		}
	}
}

func (s *session) appendPast(p record.Past) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
	defer cancel()
	key := historyKey(s.m.cfg.Group)
	h := &record.History{}
	e, err := s.m.cfg.Store.Get(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	default:
		if old, err := record.DecodeHistory(e.Value); err == nil {
			h = old
		}
	}
	h.Plans = append(h.Plans, p)
	h.Plans = h.Plans[max(0, len(h.Plans)-mostPasts):]
	b, err := record.Encode(h)
	if err != nil {
		return err
	}
	_, err = s.m.cfg.Store.Put(ctx, key, b, e.Rev)
	return err
}
