package rota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// LoadInfo is what the leader of a group with the strategy Pack last measured, and what
// it made of it. It is a few seconds old.
type LoadInfo struct {
	Time    time.Time `json:"time"`
	Unit    Unit      `json:"unit"`
	Known   bool      `json:"known"`           // otherwise partitions are placed by number
	Speed   float64   `json:"speed"`           // of all partitions, in units per second
	Backlog float64   `json:"backlog"`         // of all partitions, in units
	Looked  time.Time `json:"looked,omitzero"` // when the whole plan was last looked at
	Moved   bool      `json:"moved"`           // whether that moved anything
	Needs   string    `json:"needs,omitempty"` // what the load needs, in words
	Wanted  int       `json:"wanted"`          // members that the load needs
	Used    int       `json:"used"`            // members that the plan gives something to
}

// loadsKey is the store's key for the loads, which the core never reads.
func loadsKey(group string) string { return group + "/loads" }

// loadsEvery is how often the loads are written at most.
const loadsEvery = 5 * time.Second

// tellLoads writes what this leader measured, for people, from time to time. Nobody waits
// for it, and nothing depends on it.
func (s *session) tellLoads() {
	if now := s.m.now(); s.loadsAt != 0 && now.Sub(s.loadsAt) < loadsEvery || s.writingLoads.Swap(true) {
		return
	}
	s.loadsAt = s.m.now()
	x := s.loads()
	s.goDo(func() {
		defer s.writingLoads.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
		defer cancel()
		b, err := record.Encode(x)
		if err != nil {
			return
		}
		key, rev := loadsKey(s.m.cfg.Group), Rev(s.loadsRev.Load())
		if rev == 0 {
			e, err := s.m.cfg.Store.Get(ctx, key)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return
			}
			rev = e.Rev
		}
		if rev, err = s.m.cfg.Store.Put(ctx, key, b, rev); err != nil {
			rev = 0 // another leader wrote: read it again
		}
		s.loadsRev.Store(uint64(rev))
	})
}

// loads is the record of what this leader measured.
func (s *session) loads() *record.Loads {
	all, said := s.node.Loads(), s.node.Packed()
	x := &record.Loads{At: time.Now().UnixMilli(), Unit: string(cmp.Or(s.m.cfg.Packing.Unit, Messages)), Known: all != nil,
		Needs: said.Result.Why, Wanted: uint32(said.Wanted), Used: uint32(said.Used), Moved: said.Why != 0}
	if said.At != core.Never {
		x.Looked = time.Now().Add(-s.m.now().Sub(said.At)).UnixMilli()
	}
	if asked, answer := s.fleet.said(); !asked.IsZero() {
		x.Asked, x.Answer = asked.UnixMilli(), shortened(answer)
	}
	carries := map[record.Session]uint64{}
	for i := range s.node.Plan().Rows {
		r := &s.node.Plan().Rows[i]
		if i < len(all) && r.Owner != 0 {
			carries[r.Owner] += all[i].Speed
		}
	}
	for _, m := range s.node.Members() {
		if m.State == record.Live {
			x.Members = append(x.Members, record.MemberLoad{Session: m.Session, Load: carries[m.Session], Capacity: s.node.CapacityOf(m)})
		}
	}
	for _, l := range all {
		x.Parts = append(x.Parts, record.PartLoad(l))
	}
	return x
}

// weigh fills in what the leader measured.
func (s *Status) weigh(x *record.Loads) {
	if x == nil {
		return
	}
	info := &LoadInfo{Time: wall(x.At), Unit: Unit(x.Unit), Known: x.Known, Moved: x.Moved, Needs: x.Needs, Wanted: int(x.Wanted), Used: int(x.Used)}
	if x.Looked != 0 {
		info.Looked = wall(x.Looked)
	}
	for i, p := range x.Parts {
		info.Speed += units(p.Speed)
		info.Backlog += units(p.Backlog)
		if i < len(s.Partitions) {
			s.Partitions[i].Speed, s.Partitions[i].Backlog = units(p.Speed), units(p.Backlog)
		}
	}
	for _, m := range x.Members {
		for i := range s.Members {
			if s.Members[i].Session == m.Session.String() {
				s.Members[i].Load, s.Members[i].Capacity = units(m.Load), units(m.Capacity)
			}
		}
	}
	s.Load = info
	if s.Size != nil && x.Asked != 0 {
		s.Size.Asked, s.Size.Answer = wall(x.Asked), x.Answer
	}
}

func units(thousandths uint64) float64 { return float64(thousandths) / 1000 }

// tellPacked reports what no plan can mend: partitions that are too fast for any member,
// and a group that has too few members.
func (s *session) tellPacked() {
	said := s.node.Packed()
	for i, id := range said.Oversize {
		if i == mostLeftOut {
			break
		}
		name := s.node.NameOf(record.ID(id))
		s.condition(ConditionOversize, name, fmt.Sprintf("more arrives (%.4g per second) than any member sustains: it has a member to itself, and its backlog grows; give it fewer messages or a member with a higher capacity", units(s.node.Loads()[id].Speed)))
	}
	if len(said.Over) > len(said.Oversize) {
		who := "1 member is overloaded, and no other can relieve it"
		if n := len(said.Over); n > 1 {
			who = fmt.Sprintf("%d members are overloaded, and no other can relieve them", n)
		}
		s.condition(ConditionOverload, "", who+": "+said.Result.Why)
	}
}
