package rota

import (
	"context"
	"fmt"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// warmUps are the partitions that come to this member as soon as their owners
// have stopped, each with what ends its Prepare.
type warmUps struct {
	ends map[record.ID]context.CancelFunc
	gen  uint64 // of the plan they are from
}

// warmUp lets a source that can prepare do so. It is a courtesy: nothing waits
// for it, and what it does not get done, Consume has to do.
func (s *session) warmUp() {
	source, ok := s.m.cfg.Source.(Preparer)
	plan, roster := s.node.Plan(), s.node.Roster()
	if !ok || plan == nil || roster == nil || plan.Gen == s.warm.gen || roster.Ver < plan.Roster {
		return
	}
	s.warm.gen = plan.Gen
	coming := map[record.ID]bool{}
	for id, row := range plan.Full().Rows {
		if row.State == record.Revoking && row.To == s.id && id < len(roster.Entries) {
			coming[record.ID(id)] = true
		}
	}
	for id, end := range s.warm.ends {
		if !coming[id] {
			end()
			delete(s.warm.ends, id)
		}
	}
	for id := range coming {
		if s.warm.ends[id] == nil {
			s.prepare(source, id, roster.Entries[id].Name)
		}
	}
}

func (s *session) prepare(source Preparer, id record.ID, name string) {
	meta := s.metaOf(id)
	ctx, end := context.WithCancel(s.ctx)
	if s.warm.ends == nil {
		s.warm.ends = map[record.ID]context.CancelFunc{}
	}
	s.warm.ends[id] = end
	s.goDo(func() {
		defer end()
		if err := source.Prepare(ctx, Partition{Name: name, Meta: meta}); err != nil && ctx.Err() == nil {
			s.condition(fmt.Sprintf("%s: the source cannot prepare for it: %v", name, err))
		}
	})
}

// meet asks what only a connected store can tell, before anything is made of it:
// whether it is new, and its class. It answers questions meanwhile. Whether the
// store is new is believed once per process: a store that was made by this
// process and is empty when a session comes back has lost a group, and members
// that are cut off still have their leases.
func (s *session) meet(ctx context.Context, cfg *core.Config) {
	st, ok := s.m.cfg.Store.(Fresher)
	if !ok || cfg.Fresh {
		return
	}
	fresh := make(chan bool, 1)
	s.goDo(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
		defer cancel()
		is, err := st.Fresh(ctx)
		fresh <- is && err == nil // in doubt it is not: that costs a lease, no more
	})
	for {
		select {
		case is := <-fresh:
			// rejoined-session-is-not-fresh: see newSession.
			cfg.Fresh = is && (s.m.joins == 1 || rule.RejoinedSessionIsNotFresh.Off())
			cfg.Volatile = volatile(s.m.cfg.Store)
			return
		case ask := <-s.m.asks:
			ask <- s.status()
		case <-ctx.Done():
			return
		}
	}
}
