package ops

import (
	"maps"
	"math"
	"time"

	"github.com/rota-dev/rota"
)

// What -o json prints. Fields are only ever added.
type (
	statusShape struct {
		Group      string            `json:"group"`
		Leader     string            `json:"leader"`
		LeaderName string            `json:"leader_name"`
		Term       uint64            `json:"term"`
		Plan       uint64            `json:"plan"`
		Gen        uint64            `json:"gen"`
		Phase      string            `json:"phase"`
		Hold       bool              `json:"hold"`
		Mode       string            `json:"mode"`
		Class      string            `json:"class"`
		Frozen     bool              `json:"frozen"`
		Paused     []string          `json:"paused"`
		Drained    []string          `json:"drained"`
		Pins       map[string]string `json:"pins"`
		Members    []memberShape     `json:"members"`
		Partitions []partitionShape  `json:"partitions"`
		Waits      []waitShape       `json:"waits"`
		History    []planShape       `json:"history"`
		Conditions []string          `json:"conditions"`
	}
	memberShape struct {
		Name       string            `json:"name"`
		Session    string            `json:"session"`
		State      string            `json:"state"`
		Planned    bool              `json:"planned"`
		Partitions int               `json:"partitions"`
		Labels     map[string]string `json:"labels"`
		PID        int               `json:"pid"`
		Sent       time.Time         `json:"sent"`
		Age        float64           `json:"heartbeat_age_s"`
		Lease      string            `json:"lease"`
		Heartbeat  string            `json:"heartbeat"`
		Conditions []string          `json:"conditions"`
	}
	partitionShape struct {
		Name    string            `json:"name"`
		State   string            `json:"state"`
		Owner   string            `json:"owner,omitempty"`
		Member  string            `json:"member,omitempty"`
		To      string            `json:"to,omitempty"`
		Token   uint64            `json:"token,string"` // jq and JavaScript round numbers above 2^53
		Reason  string            `json:"reason,omitempty"`
		Gen     uint64            `json:"gen"`
		Plan    uint64            `json:"plan,omitempty"`
		Since   *time.Time        `json:"since,omitempty"`
		Because string            `json:"because,omitempty"`
		Meta    map[string]string `json:"meta"`
	}
	waitShape struct {
		Partition string `json:"partition"`
		For       string `json:"for"`
		Member    string `json:"member"`
	}
	planShape struct {
		Plan    uint64    `json:"plan"`
		Gen     uint64    `json:"gen"`
		Time    time.Time `json:"time"`
		Because string    `json:"because"`
		Moves   int       `json:"moves"`
		Members int       `json:"members"`
	}
)

func shapeStatus(st *rota.Status, now time.Time) statusShape {
	out := statusShape{Group: st.Group, Leader: st.Leader, LeaderName: st.LeaderName(), Term: st.Term, Plan: st.Plan, Gen: st.Gen,
		Phase: string(st.Phase), Hold: st.Hold, Mode: string(st.Mode), Class: st.Class.String(), Frozen: st.Orders.Freeze,
		Paused: list(st.Orders.Paused), Drained: list(st.Orders.Drains), Pins: map[string]string{},
		Members: []memberShape{}, Partitions: []partitionShape{}, Waits: []waitShape{}, History: []planShape{}, Conditions: list(st.Conditions)}
	maps.Copy(out.Pins, st.Orders.Pins)
	live, ended := MemberOrder(st)
	for _, m := range append(live, ended...) {
		out.Members = append(out.Members, memberShape{m.Name, m.Session, m.State, m.Planned, m.Partitions, m.Labels, m.PID, m.Sent,
			math.Round(now.Sub(m.Sent).Seconds()*1000) / 1000, m.Lease.String(), m.Heartbeat.String(), list(m.Conditions)})
	}
	for i := range st.Partitions {
		out.Partitions = append(out.Partitions, shapePartition(st, &st.Partitions[i]))
	}
	for _, w := range st.Waits {
		out.Waits = append(out.Waits, waitShape(w))
	}
	for _, h := range st.History {
		out.History = append(out.History, planShape(h))
	}
	return out
}

func shapePartition(st *rota.Status, p *rota.PartitionInfo) partitionShape {
	x := partitionShape{Name: p.Name, State: p.State, Owner: p.Owner, To: p.To, Token: uint64(p.Token), Reason: p.Reason, Gen: p.Gen, Plan: p.Plan, Because: p.Because, Meta: p.Meta}
	if p.Owner != "" {
		x.Member = st.NameOf(p.Owner)
	}
	if !p.Since.IsZero() {
		x.Since = &p.Since
	}
	return x
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
