package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/scenario"
)

// The rows of the mission that bare cores can show, each by the scenarios that
// are named after it.

func TestS0_01_OneMemberOwnsEverything(t *testing.T)                       { row(t, "s0-01") }
func TestS0_02_SecondMemberGetsItsHalfAfterEverythingStopped(t *testing.T) { row(t, "s0-02") }
func TestS0_03_ThirdMemberGetsItsThirdAfterEverythingStopped(t *testing.T) { row(t, "s0-03") }
func TestS0_04_FiveAtOnceAreOnePlan(t *testing.T)                          { row(t, "s0-04") }
func TestS0_05_CutOffStopsFirstAndEndsItself(t *testing.T)                 { row(t, "s0-05") }
func TestS0_06_TwoKilledTogetherAreOnePlan(t *testing.T)                   { row(t, "s0-06") }
func TestS0_07_SurvivorLeadsAndOwnsEverything(t *testing.T)                { row(t, "s0-07") }
func TestS0_08_LeaderAndFollowerKilledCostOneLease(t *testing.T)           { row(t, "s0-08") }
func TestS0_09_EveryoneEndsOnTheSecondPlan(t *testing.T)                   { row(t, "s0-09") }
func TestS0_10_FiveMoreAreOnePlan(t *testing.T)                            { row(t, "s0-10") }
func TestS0_12_StandbysTakeOver(t *testing.T)                              { row(t, "s0-12") }
func TestS0_13b_OnlyWhatMovesStops(t *testing.T)                           { row(t, "s2-join") }
func TestS1_Hand_StopAckThenStartAck(t *testing.T)                         { row(t, "stop-ack", "start-ack") }
func TestS1_Topic_PartitionsComeAndGo(t *testing.T)                        { row(t, "source-lists") }
func TestS1_Unassigned_IsPickedUpUntold(t *testing.T)                      { row(t, "grace", "limits") }
func TestS2_Join_WithinThreeTenths(t *testing.T)                           { row(t, "s2-join") }
func TestS2_Leave_WithinTwoTenths(t *testing.T)                            { row(t, "s2-leave") }
func TestS2_Kill_WaitsForTheLeaseAndNoLonger(t *testing.T)                 { row(t, "s2-kill") }
func TestS2_Guard_ProofCostsNoLease(t *testing.T)                          { row(t, "s2-guard") }
func TestB_Static_ReturningMovesNothing(t *testing.T)                      { row(t, "return") }
func TestB_Zombie_FrozenNeverActsAgain(t *testing.T) {
	row(t, "sink-checks-tokens", "check-before-every-effect", "clock-counts-suspend", "a-name-proves-nothing")
}
func TestB_Token_GrowsWithEveryOwner(t *testing.T) {
	row(t, "tokens-grow", "one-name-one-id")
}

// row plays all scenarios whose names begin with one of prefixes.
func row(t *testing.T, prefixes ...string) {
	t.Helper()
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range prefixes {
		played := 0
		for _, s := range all {
			if strings.HasPrefix(s.Name, prefix) {
				played++
				if err := play(s, Options{Partitions: 6}); err != nil {
					t.Error(err)
				}
			}
		}
		if played == 0 {
			t.Errorf("there is no scenario %s", prefix)
		}
	}
}

// TestS0_11_AThousandMembers: 500 start at once, 500 more, 600 leave: one plan
// per burst, every partition owned once, exclusivity checked throughout. Virtual
// time and bare cores: the row is ticked only with a real store.
func TestS0_11_AThousandMembers(t *testing.T) {
	first, more, leave, parts := 500, 500, 600, 1024
	if testing.Short() {
		first, more, leave, parts = 50, 50, 60, 128
	}
	s := NewStage(Options{Partitions: parts})
	settle := func(what string, plans int) {
		t.Helper()
		was, began := s.w.checks.Plans(), s.Now()
		if err := s.stabilize(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := s.Seen(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := s.w.checks.Plans() - was; got != plans {
			t.Errorf("%s: %d plans, want %d", what, got, plans)
		}
		t.Logf("%s: settled after %v", what, s.Now()-began)
	}
	for i := range first {
		s.Join(memberName(i))
	}
	settle("start", 1)
	s.Advance(3 * time.Second)
	for i := range more {
		s.Join(memberName(first + i))
	}
	settle("more", 1)
	s.Advance(3 * time.Second)
	for i := range leave {
		name := memberName(first/5 + i) // the leader stays
		s.host(name).leaves = true
		s.Leave(name)
	}
	settle("leave", 1)
}
