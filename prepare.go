package rota

import (
	"context"
	"fmt"

	"github.com/rota-dev/rota/internal/record"
)

// warmUps are the partitions that this member gets as soon as their owners have
// stopped, each with the function that cancels its Prepare.
type warmUps struct {
	ends map[record.ID]context.CancelFunc
	gen  uint64 // of the plan they are from
}

// warmUp calls Prepare for partitions that are about to be granted, if the source has
// it. It is an optimisation: nothing waits for it, and Consume must not rely on it.
func (s *session) warmUp() {
	source, ok := s.m.cfg.Source.(Preparer)
	plan, roster := s.node.Plan(), s.node.Roster()
	if !ok || plan == nil || roster == nil || plan.Gen == s.warm.gen || roster.Ver < plan.Roster {
		return
	}
	s.warm.gen = plan.Gen
	coming := map[record.ID]bool{}
	for id, row := range plan.Full().Rows {
		if row.State == record.Revoking && row.To == s.id && id < roster.Len() {
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
			s.prepare(source, id, roster.At(id).Name)
		}
	}
}

func (s *session) prepare(source Preparer, id record.ID, name string) {
	meta, topic := s.metaOf(id)
	ctx, end := context.WithCancel(s.ctx)
	if s.warm.ends == nil {
		s.warm.ends = map[record.ID]context.CancelFunc{}
	}
	s.warm.ends[id] = end
	s.goDo(func() {
		defer end()
		if err := source.Prepare(ctx, Partition{Name: name, Topic: topic, Meta: usersMeta(meta)}); err != nil && ctx.Err() == nil {
			s.condition(ConditionPrepareFailed, name, fmt.Sprintf("the source cannot prepare for it: %v", err))
		}
	})
}
