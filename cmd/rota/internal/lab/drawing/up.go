package drawing

import (
	"fmt"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/demo"
)

// Up is the screen of rota up, three seconds after one of three members was killed. The
// group is posed; everything that is said about it is what rota up says.
func Up() (string, error) {
	const width, height = 96, 22
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	plan := rota.PlanInfo{Plan: 1, Gen: 2, Time: now.Add(-24 * time.Second), Causes: []rota.Cause{{Why: rota.WhyJoined, Members: []string{"c1", "c2", "c3"}}, {Why: rota.WhyRoster}}, Moves: 16, Members: 3}
	st := &rota.Status{Group: "demo", Term: 1, Plan: 1, Gen: 2, Phase: rota.Sentinel, Class: rota.ClassB, LeaderName: "c1", Leader: "s1", History: []rota.PlanInfo{plan}}
	pose := demo.Pose{Status: st, Now: now, Began: now.Add(-25 * time.Second), Gone: []string{"c3"}, Rates: map[string]float64{"c1": 75, "c2": 62}}
	pose.Story = append(pose.Story, demo.StoryLine{At: plan.Time, Text: "c1 makes plan 1, because a member joined and the partitions changed: 16 to place"})
	first := 0
	for i, many := range []int{6, 5, 5} {
		m := rota.MemberInfo{Name: fmt.Sprintf("c%d", i+1), Session: fmt.Sprintf("s%d", i+1), State: rota.MemberLive, Planned: true, PID: 5_000_001 + i,
			Sent: now.Add(-800 * time.Millisecond), Lease: 5 * time.Second, Heartbeat: 2 * time.Second}
		if i == 2 { // the one that is gone
			m.Sent = now.Add(-3200 * time.Millisecond)
		}
		runs := ""
		for p := first; p < first+many; p++ {
			m.Partitions++
			runs += fmt.Sprintf(" demo.%d@1", p)
			st.Partitions = append(st.Partitions, rota.PartitionInfo{Name: fmt.Sprintf("demo.%d", p), State: rota.PartitionOwned, Owner: m.Session, Member: m.Name, Token: 1, Gen: 2, Plan: 1, Since: plan.Time, Causes: plan.Causes})
		}
		first += many
		st.Members = append(st.Members, m)
		pose.Story = append(pose.Story, demo.StoryLine{At: plan.Time.Add(time.Duration(9+i) * time.Millisecond), Text: m.Name + " runs" + runs})
	}
	pose.Story = append(pose.Story, demo.StoryLine{At: now.Add(-3100 * time.Millisecond), Text: "c3 (pid 5000003) is gone: ended by signal 9 (killed)"})
	return terminal(pose.Frame(width, height), "rota up", width, height)
}
