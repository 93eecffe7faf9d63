package rota

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// mostPasts is how many plans the history keeps: well below 256 KB.
const mostPasts = 1000

// remember notes a plan of this leader for the history, once it is in the store.
func (s *session) remember() {
	p := s.node.Plan()
	if p == nil {
		return
	}
	was := s.counted
	if p.ID != s.countedBy {
		s.counted, s.countedBy = p.Members, p.ID
	}
	if !s.node.Leads() || p.ID == 0 || p.ID == s.planned || s.said.Plan != p.ID {
		return
	}
	s.planned = p.ID
	past := record.Past{ID: p.ID, Gen: p.Gen, At: time.Now().UnixMilli(), Cause: s.withNames(s.said.Because, was, p.Members),
		Moves: uint32(s.said.Moved + s.said.Placed), Members: uint32(len(p.Members))}
	select {
	case s.past <- past:
	default: // the store is slow, and history is only for people
	}
}

// mostNames is how many members a cause names.
const mostNames = 3

// withNames says of whom the words of a cause tell: "died" becomes "died (c3)".
func (s *session) withNames(cause string, was, is []record.Session) string {
	names := map[string][]string{}
	for _, m := range s.node.Members() {
		word := ""
		switch in, out := slices.Contains(is, m.Session), slices.Contains(was, m.Session); {
		case in && !out:
			word = "joined"
		case in || !out:
			continue
		case m.State == record.Dead:
			word = "died"
		case m.State == record.Evicted:
			word = "evicted"
		default:
			word = "left"
		}
		if strings.ContainsAny(m.Name, "(), ") {
			continue // it would not be told from the words around it
		}
		names[word] = append(names[word], m.Name)
	}
	words := strings.Split(cause, ", ")
	for i, w := range words {
		list := names[w]
		slices.Sort(list)
		if len(list) > mostNames {
			list = append(list[:mostNames:mostNames], "and", strconv.Itoa(len(list)-mostNames), "more")
		}
		if len(list) > 0 {
			words[i] = w + " (" + strings.Join(list, " ") + ")"
		}
	}
	return strings.Join(words, ", ")
}

// writeHistory appends to the history record, as far as that works.
func (s *session) writeHistory() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case p := <-s.past:
			for range 3 {
				if !errors.Is(s.appendPast(p), ErrConflict) {
					break
				}
			}
		}
	}
}

func (s *session) appendPast(p record.Past) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
	defer cancel()
	key := s.m.cfg.Group + "/history"
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

// obituary waits until nothing runs any more and then says that this session
// ended on a bug. In this order: LEFT frees its rows, and the next owner starts.
// The core orders no abort now, and the lease ends as it would have.
func (s *session) obituary() {
	left := max(core.Time(s.lease.Load()).Sub(s.m.clock.now()), 0)
	// bug-extends-no-lease: After a bug, handlers have what remains of the lease and no
	// more.
	// Without it: C1 ends by a bug with a second of lease left, and its handler has a whole
	// lease more. C2 declares C1 dead and starts q: both run it.
	if rule.BugExtendsNoLease.Off() {
		left = s.m.timing.Lease
	}
	limit := time.NewTimer(left)
	defer limit.Stop()
	s.abortAt = time.Time{}
	// left-means-returned: After a bug, LEFT is written only when every handler has
	// returned.
	// Without it: C1 ends by a bug and writes LEFT while a handler still works. LEFT frees
	// q, and C2 starts it.
	for len(s.runs) > 0 && !rule.LeftMeansReturned.Off() {
		select {
		case ev := <-s.inbox:
			if ev.Kind == core.Stopped || ev.Kind == core.GivenUp {
				s.dropRun(&ev)
			}
		case <-limit.C:
			if s.abortAt.IsZero() {
				s.abort()
			} else {
				s.forceStop()
			}
			limit.Reset(s.m.timing.Margin)
		}
	}
	m, prev := s.node.Obituary()
	b, err := record.Encode(m)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
	defer cancel()
	s.m.cfg.Store.Put(ctx, key(s.m.cfg.Group, core.Key{Cell: core.MemberCell, Session: s.id}), b, Rev(prev))
}
