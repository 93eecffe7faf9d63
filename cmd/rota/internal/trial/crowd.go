package trial

import (
	"fmt"
	"time"

	"github.com/rota-dev/rota"
)

// Sizes are the terminals that pictures are tried on: width and height.
var Sizes = [][2]int{{80, 24}, {120, 40}, {200, 50}, {40, 10}, {20, 5}, {1, 1}}

// Crowds are how many members the groups have that pictures are tried with.
var Crowds = []int{3, 20, 1000}

// Crowd is a group with four partitions per member. If it is in trouble, a member is
// silent, one is drained, partitions have no owner, wait or are paused, and many members
// have conditions.
func Crowd(members int, trouble bool, now time.Time) *rota.Status {
	st := &rota.Status{Group: "orders", Term: 3, Plan: 12, Gen: 40, Phase: rota.Sentinel, Class: rota.ClassA, LeaderName: "c1", Leader: session(1),
		History: []rota.PlanInfo{{Plan: 12, Gen: 38, Time: now.Add(-40 * time.Second), Causes: []rota.Cause{{Why: rota.WhyDied, Members: []string{"c77"}}}, Moves: 4, Members: members}},
		Orders:  rota.OrdersInfo{Pins: map[string]string{}, Bans: map[string][]string{}}}
	for i := range members {
		st.Members = append(st.Members, rota.MemberInfo{Name: fmt.Sprintf("c%d", i+1), Session: session(i + 1), State: rota.MemberLive, Planned: true, Partitions: 4,
			PID: noPID + i, Sent: now.Add(-800 * time.Millisecond), Lease: 5 * time.Second, Heartbeat: 2 * time.Second,
			Labels: map[string]string{"zone": "eu-west-1a", "pod": fmt.Sprintf("orders-6f7c-%d", i)}})
	}
	for i := range 4 * members {
		owner := i%members + 1
		st.Partitions = append(st.Partitions, rota.PartitionInfo{Name: fmt.Sprintf("orders.%d", i), State: rota.PartitionOwned, Owner: session(owner), Member: fmt.Sprintf("c%d", owner),
			Token: rota.Token(i%7 + 1), Gen: 38, Plan: 12, Since: st.History[0].Time, Causes: st.History[0].Causes})
	}
	if trouble {
		troubled(st, now)
	}
	return st
}

// noPID is more than any process has: the limit of Linux is 1 << 22.
const noPID = 5_000_000

func session(i int) string { return fmt.Sprintf("%016x", i) }

func troubled(st *rota.Status, now time.Time) {
	m := st.Members
	m[1].Silent, m[1].Sent, m[1].Age = true, now.Add(-4*time.Second), 4*time.Second
	st.Phase, st.Hold = rota.Changing, true
	st.Orders = rota.OrdersInfo{Freeze: true, Drains: []string{"c3"}, Paused: []string{"orders.5"}, Pins: map[string]string{"orders.7": "c1"}, Bans: map[string][]string{"orders.7": {"c2"}},
		Log: []rota.OrderInfo{{Time: now.Add(-time.Minute), Who: "ada@host", What: "drain c3", Why: "its host goes down for service"}, {Time: now.Add(-time.Hour), Who: "bob@host", What: "freeze"}}}
	p := st.Partitions
	p[5].State, p[5].Owner, p[5].Member, p[5].Reason = rota.PartitionFree, "", "", rota.ReasonPaused
	p[6].State, p[6].Owner, p[6].Member, p[6].Reason = rota.PartitionFree, "", "", rota.ReasonUnplaced
	p[8].State, p[8].To = rota.PartitionRevoking, session(1)
	st.Waits = []rota.Wait{{Partition: p[8].Name, For: rota.WaitStop, Member: p[8].Owner, Since: p[8].Since, Causes: p[8].Causes}, {Partition: p[9].Name, For: rota.WaitStart, Member: p[9].Owner}}
	st.Problems = []rota.Problem{{Code: rota.ConditionUnplaced, Partitions: []string{p[6].Name}, Text: "no member may take it: look at drains, bans and limits"}}
	for i := range m {
		c := rota.ConditionInfo{Code: rota.ConditionHandlerFails, Partition: fmt.Sprintf("orders.%d", i), Text: fmt.Sprintf("the handler fails since %d s: connection refused by the ledger, which is a sentence that does not fit into a narrow terminal at all", i%5)}
		m[i].Conditions = append(m[i].Conditions, c, rota.ConditionInfo{Code: rota.ConditionTightLease, Text: "the lease is short for the heartbeat"})
		st.Problems = append(st.Problems, rota.Problem{Code: c.Code, Member: m[i].Name, Partitions: []string{c.Partition}, Text: c.Text})
	}
	m[0].Name, p[0].Name = "größe-日本語", "注文.0" // two cells for a character
	p[0].Member = m[0].Name
}
