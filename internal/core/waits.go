package core

import "github.com/rota-dev/rota/internal/record"

// Awaited is what a partition waits for until it is where the plan wants it.
type Awaited uint8

const (
	AwaitNothing Awaited = iota
	AwaitStop            // its owner was told to stop and has not confirmed that
	AwaitGrant           // the leader has not granted it yet
	AwaitAck             // its owner has not applied the plan that granted it
	AwaitStart           // its owner has started it, and the source has not confirmed that
)

// Awaits tells what row id of a plan waits for. The owner is the record of the
// member in the row's Owner, nil if there is none.
func Awaits(p *record.Plan, id record.ID, r *record.Row, owner *record.Member) Awaited {
	switch {
	case r.State == record.Revoking:
		return AwaitStop
	case r.State == record.Free && r.To != 0 && r.Reason == record.NoReason:
		return AwaitGrant
	case r.State == record.Free:
		return AwaitNothing
	case owner == nil || owner.AckInc != p.Incarnation || owner.AckGen < r.Rev:
		return AwaitAck
	case has(owner.Starting, id):
		return AwaitStart
	}
	return AwaitNothing
}
