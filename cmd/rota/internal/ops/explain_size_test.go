package ops

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// resized is a group of four in which c3 is to go.
func resized(now time.Time) *rota.Status {
	member := func(name, session string, partitions int) rota.MemberInfo {
		return rota.MemberInfo{Name: name, Session: session, State: rota.MemberLive, Sent: now, Heartbeat: time.Second, Lease: 3 * time.Second, Partitions: partitions, Load: 30, Capacity: 100}
	}
	return &rota.Status{Leader: "1",
		Members:    []rota.MemberInfo{member("c1", "1", 1), member("c2", "2", 0), member("c3", "3", 2), member("c4", "4", 0)},
		Partitions: []rota.PartitionInfo{{Name: "q0", State: rota.PartitionOwned, Owner: "1"}, {Name: "q1", State: rota.PartitionOwned, Owner: "3"}},
		Load:       &rota.LoadInfo{Known: true, Unit: "messages", Needs: "1.2 members' worth of load on 2"},
		Size:       &rota.SizeInfo{Wanted: 3, Have: 4, Going: []string{"c3"}, Asked: now.Add(-5 * time.Second), Answer: "the API server answered 403"}}
}

// TestTheSizeIsExplained: explain says how many members are wanted and why, who is to go,
// and what the scaler answered, whatever it was asked about.
func TestTheSizeIsExplained(t *testing.T) {
	now := time.Now()
	st := resized(now)
	group := []string{"The group has 4 members and wants 3, with the spare ones and within the limits, for 1.2 members' worth of load on 2.",
		"c3 is to go, since the others are enough", "It still owns 2 partitions, handed over first; then the scaler is asked to remove it.",
		"The scaler was last asked 5.0 s ago (" + st.Size.Asked.Format(time.TimeOnly) + ") and said: the API server answered 403."}
	for name, first := range map[string]string{
		"q0": "q0 is owned by c1", "q1": "q1 is owned by c3",
		"c1": "c1 leads the group and owns 1 partition, a load of 30 of 100.", "c3": "c3 is a member and owns 2 partitions, a load of 30 of 100.",
	} {
		text, err := explain(st, name, now)
		if err != nil {
			t.Fatal(err)
		}
		trial.In(t, text, append([]string{first}, group...)...)
	}

	st.Members[2].Partitions, st.Size.Answer = 0, ""
	text, err := explain(st, "c3", now)
	if err != nil {
		t.Fatal(err)
	}
	trial.In(t, text, "It owns nothing: the scaler is asked to remove it.", "and said: all is well.")

	st.Size.Asked, st.Size.Going = time.Time{}, nil
	if text, err = explain(st, "c3", now); err != nil || strings.Contains(text, "to go") || strings.Contains(text, "last asked") {
		t.Errorf("%v: %s", err, text)
	}
	trial.In(t, text, "No call to the scaler is on record.")

	st.Size = nil
	if text, err = explain(st, "c3", now); err != nil || strings.Contains(text, "scaler") {
		t.Errorf("without a scaler: %v: %s", err, text)
	}
}

// TestExplainTellsPartitionsFromMembers: a partition goes before a member of its name, a
// member that has ended is none, and the JSON has the member and the words.
func TestExplainTellsPartitionsFromMembers(t *testing.T) {
	now := time.Now()
	st := resized(now)
	st.Partitions[0].Name = "c2"
	st.Members[3].State = rota.MemberLeft
	if text, err := explain(st, "c2", now); err != nil || !strings.HasPrefix(text, "c2 is owned by c1") {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := explain(st, "c4", now); err == nil || !strings.Contains(err.Error(), `there is no partition or live member called "c4"; there are c2, q1, c1, c3`) {
		t.Errorf("a member that has left: %v", err)
	}
	shape, err := explainShape(st, "c3", now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(shape)
	var got struct {
		Member struct{ Name string }
		Says   string
	}
	if err != nil || json.Unmarshal(b, &got) != nil || got.Member.Name != "c3" || !strings.HasPrefix(got.Says, "c3 is a member") {
		t.Errorf("%v: %s", err, b)
	}
}
