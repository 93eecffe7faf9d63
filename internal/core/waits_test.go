package core

import (
	"testing"

	"github.com/rota-dev/rota/internal/record"
)

// What a partition waits for is told from the plan and its owner's record alone.
func TestAwaits(t *testing.T) {
	p := &record.Plan{Incarnation: 7}
	behind := &record.Member{AckInc: 7, AckGen: 4}
	applied := &record.Member{AckInc: 7, AckGen: 5}
	elsewhere := &record.Member{AckInc: 6, AckGen: 9}
	starting := &record.Member{AckInc: 7, AckGen: 5, Starting: []record.ID{1, 3}}
	for _, c := range []struct {
		name  string
		row   record.Row
		owner *record.Member
		want  Awaited
	}{
		{"its owner was told to stop", record.Row{State: record.Revoking, Owner: 1, Rev: 5}, applied, AwaitStop},
		{"it is free and meant for somebody", record.Row{State: record.Free, To: 2}, nil, AwaitGrant},
		{"it is free and meant for nobody", record.Row{State: record.Free}, nil, AwaitNothing},
		{"it is free for a reason", record.Row{State: record.Free, To: 2, Reason: record.Paused}, nil, AwaitNothing},
		{"its owner has no record", record.Row{State: record.Owned, Owner: 1, Rev: 5}, nil, AwaitAck},
		{"its owner has not read the grant", record.Row{State: record.Owned, Owner: 1, Rev: 5}, behind, AwaitAck},
		{"its owner has read another incarnation", record.Row{State: record.Owned, Owner: 1, Rev: 5}, elsewhere, AwaitAck},
		{"its source has not opened it", record.Row{State: record.Owned, Owner: 1, Rev: 5}, starting, AwaitStart},
		{"it runs", record.Row{State: record.Owned, Owner: 1, Rev: 5}, applied, AwaitNothing},
	} {
		if got := Awaits(p, 3, &c.row, c.owner); got != c.want {
			t.Errorf("%s: waits for %d, want %d", c.name, got, c.want)
		}
	}
}
