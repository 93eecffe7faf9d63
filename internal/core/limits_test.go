package core_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// TestAHeartbeatFitsHoweverMuchWasGivenUp: when its broker is down, a member gives
// up all its partitions at once. A record that did not fit would cost the lease
// and, since the list stays, the session.
func TestAHeartbeatFitsHoweverMuchWasGivenUp(t *testing.T) {
	v := newVictim(t, record.Incremental)
	v.answer(core.OK, nil)
	roster := &record.Roster{Ver: 1}
	plan := &record.Plan{Incarnation: 1, Gen: 1, Write: 1, Decided: 1, Term: 1, Leader: 2, ID: 1, Roster: 1, Members: []record.Session{2, me}}
	var failed []core.Event
	most := record.MaxPartitions
	if testing.Short() {
		most = 4000 // with a cause for each, the record would not fit
	}
	for i := range most {
		token := record.MakeToken(1, 1)
		roster.Entries = append(roster.Entries, record.Partition{Name: strconv.Itoa(i)})
		plan.Rows = append(plan.Rows, record.Row{State: record.Owned, Owner: me, Token: token, Rev: 1})
		failed = append(failed, core.Event{Kind: core.GivenUp, ID: record.ID(i), Token: token, Text: strings.Repeat("a broker that is down, ", 20)})
	}
	store := []core.Entry{
		{Key: core.Key{Cell: core.RosterCell}, Rev: 2, Roster: roster},
		{Key: core.Key{Cell: core.PlanCell}, Rev: 3, Plan: plan},
		{Key: core.Key{Cell: core.MemberCell, Session: 2}, Rev: 4, Member: &record.Member{Session: 2, Lease: 5 * time.Second, Beat: 2 * time.Second, Name: "c2"}},
	}
	v.step(core.Event{Kind: core.Seen, Entries: store})
	for len(v.calls) > 0 {
		v.answer(core.OK, store)
	}
	v.calls = nil
	v.steps(failed)
	told := 0
	for _, a := range v.calls { // victim tried to encode each of them
		if a.Member != nil {
			told = len(a.Member.GaveUp)
		}
	}
	if told != most {
		t.Errorf("%d of %d partitions given up were told", told, most)
	}
}
