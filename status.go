package rota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// Phase is what a group is doing.
type Phase string

const (
	Sentinel  Phase = "sentinel"  // at rest
	Computing Phase = "computing" // about to plan
	Changing  Phase = "changing"  // partitions are changing hands
)

// A Status is a group as one observer sees it.
type Status struct {
	Group      string
	Leader     string // session
	Term       uint64 // grows with each leader
	Plan       uint64 // grows with each plan
	Gen        uint64 // grows with each step towards one
	Phase      Phase
	Hold       bool // nothing is granted until every lease there may have been is over
	Mode       Mode
	Class      Class
	Members    []MemberInfo
	Partitions []PartitionInfo
	Waits      []Wait
	Conditions []string   // Inspect only: records that cannot be read, and are left out
	Orders     OrdersInfo // Inspect only
	History    []PlanInfo // Inspect only: the newest plans, oldest first
}

// LeaderName is what people call the leader; its session if its record is gone.
func (s *Status) LeaderName() string { return s.NameOf(s.Leader) }

// NameOf is what people call the member of a session.
func (s *Status) NameOf(session string) string {
	for i := range s.Members {
		if s.Members[i].Session == session {
			return s.Members[i].Name
		}
	}
	return session
}

// A PlanInfo is one plan of the past.
type PlanInfo struct {
	Plan    uint64
	Gen     uint64 // of the write that made it
	Time    time.Time
	Because string
	Moves   int // partitions it gave to somebody else
	Members int
}

// OrdersInfo is what operators want.
type OrdersInfo struct {
	Ver    uint64
	Freeze bool
	Paused []string          // partitions
	Drains []string          // members, by name
	Pins   map[string]string // partition to member's name
	Bans   map[string][]string
	Log    []OrderInfo // oldest first
}

// An OrderInfo is one order of the past.
type OrderInfo struct {
	Time           time.Time
	Who, What, Why string
}

// MemberInfo is one member's record.
type MemberInfo struct {
	Name       string
	Session    string
	State      string // LIVE, LEAVING, EVICTED, DEAD, LEFT
	Planned    bool   // the plan counts on it
	Partitions int    // how many it owns
	Labels     map[string]string
	PID        int
	Sent       time.Time // of its last heartbeat, on its own wall clock
	Lease      time.Duration
	Heartbeat  time.Duration
	Conditions []string // what a person should know, of the last minute
}

// PartitionInfo is one partition's row in the plan.
type PartitionInfo struct {
	Name   string
	State  string // FREE, OWNED, REVOKING
	Owner  string // session
	To     string // session that gets it next
	Token  Token  // of the newest grant
	Reason string // why it is FREE, where the state alone does not say
	Gen    uint64 // of the write that last changed its state
	Meta   Meta

	// Of Inspect only, if the history reaches back that far: the newest plan
	// that was made when the state last changed.
	Plan    uint64
	Since   time.Time
	Because string
}

// A Wait is a partition that is not yet where the plan wants it.
type Wait struct {
	Partition string
	For       string // what is waited for, in words
	Member    string // session
}

// Status is the group as this member sees it: the newest plan it knows. It waits
// until Run can answer, or returns what there is if Run has not begun or is
// over.
func (m *Member) Status() Status {
	if !m.ran.Load() {
		return Status{Group: m.cfg.Group}
	}
	ask := make(chan Status, 1)
	select {
	case m.asks <- ask:
		return <-ask
	case <-m.ended:
		return Status{Group: m.cfg.Group}
	}
}

func (s *session) status() Status {
	st := Status{Group: s.m.cfg.Group, Class: classOf(s.m.cfg.Store)}
	fill(&st, s.node.Plan(), s.node.Roster(), s.node.Members())
	return st
}

// ErrUnreadable: a record without which there is nothing to tell cannot be read.
var ErrUnreadable = errors.New("rota: the record cannot be read")

// Inspect reads a group's state from the store, without joining it. A record that
// cannot be read is left out and told in Conditions; without the plan there is
// nothing to tell: ErrUnreadable.
func Inspect(ctx context.Context, store Store, group string) (Status, error) {
	st := Status{Group: group, Class: classOf(store)}
	var plan *record.Plan
	var roster *record.Roster
	var members []*record.Member
	var orders *record.Orders
	var history *record.History
	for batch, err := range store.Watch(ctx, group+"/") {
		if err != nil {
			return st, fmt.Errorf("inspect %s: %w", group, err)
		}
		for _, e := range batch {
			x, err := decodeEntry(group, e)
			if err == errSkip {
				history, _ = record.DecodeHistory(e.Value) // for people only: without it there is less to say
				continue
			}
			if err != nil && x.Cell == core.PlanCell {
				return st, fmt.Errorf("inspect %s: the plan: %w: %w", group, ErrUnreadable, err)
			}
			if err != nil { // members go on without it, and so does whoever looks
				st.Conditions = append(st.Conditions, fmt.Sprintf("record %q cannot be read and is left out: %v", e.Key, err))
				continue
			}
			switch {
			case x.Plan != nil:
				plan = x.Plan
			case x.Roster != nil:
				roster = x.Roster
			case x.Orders != nil:
				orders = x.Orders
			case x.Member != nil:
				members = append(members, x.Member)
			}
		}
		if plan == nil {
			return st, fmt.Errorf("inspect %s: %w: no group of that name here yet", group, ErrNotFound)
		}
		fill(&st, plan, roster, members)
		st.order(orders)
		st.remember(history)
		return st, nil
	}
	return st, errors.New("inspect: the watch ended before it began")
}

func fill(st *Status, p *record.Plan, roster *record.Roster, members []*record.Member) {
	if p == nil {
		return
	}
	p = p.Full()
	st.Leader, st.Term, st.Plan, st.Gen, st.Hold = p.Leader.String(), p.Term, p.ID, p.Gen, p.Hold
	st.Mode, st.Phase = Mode(p.Mode.String()), Sentinel
	counts := map[record.Session]int{}
	acks := map[record.Session]*record.Member{}
	for _, m := range members {
		acks[m.Session] = m
	}
	for i, r := range p.Rows {
		info := PartitionInfo{Name: "#" + strconv.Itoa(i), State: r.State.String(), Token: Token(r.Token), Reason: r.Reason.String(), Gen: r.Rev}
		if roster != nil && i < len(roster.Entries) {
			e := &roster.Entries[i]
			info.Name, info.Meta = e.Name, Meta{}
			for _, kv := range e.Meta {
				info.Meta[kv.Key] = kv.Value
			}
		}
		if r.Owner != 0 {
			info.Owner = r.Owner.String()
			counts[r.Owner]++
		}
		if r.To != 0 {
			info.To = r.To.String()
		}
		st.Partitions = append(st.Partitions, info)
		if w, ok := waitFor(&info, &r, acks, record.ID(i), p.Incarnation); ok {
			st.Waits = append(st.Waits, w)
			st.Phase = Changing
		}
	}
	planned := map[record.Session]bool{}
	for _, s := range p.Members {
		planned[s] = true
	}
	for _, m := range members {
		info := MemberInfo{Name: m.Name, Session: m.Session.String(), State: m.State.String(), Planned: planned[m.Session],
			Partitions: counts[m.Session], Lease: m.Lease, Heartbeat: m.Beat, Labels: map[string]string{},
			PID: int(m.Host.PID), Conditions: m.Conditions}
		if m.Sent != 0 {
			info.Sent = wall(m.Sent)
		}
		for _, l := range m.Labels {
			info.Labels[l.Key] = l.Value
		}
		st.Members = append(st.Members, info)
		if (m.State == record.Live) != planned[m.Session] && st.Phase == Sentinel {
			st.Phase = Computing
		}
	}
}

func (s *Status) order(o *record.Orders) {
	if o == nil {
		return
	}
	s.Orders = OrdersInfo{Ver: o.Ver, Freeze: o.Freeze, Paused: o.Pauses, Drains: o.Drains, Pins: map[string]string{}, Bans: map[string][]string{}}
	for _, p := range o.Pins {
		s.Orders.Pins[p.Partition] = p.Member
	}
	for _, p := range o.Bans {
		s.Orders.Bans[p.Partition] = append(s.Orders.Bans[p.Partition], p.Member)
	}
	for _, l := range o.Log {
		s.Orders.Log = append(s.Orders.Log, OrderInfo{wall(l.At), l.Who, l.What, l.Why})
	}
}

// remember fills in the past, and what it says about each partition.
func (s *Status) remember(h *record.History) {
	if h == nil {
		return
	}
	for _, p := range h.Plans {
		s.History = append(s.History, PlanInfo{p.ID, p.Gen, wall(p.At), p.Cause, int(p.Moves), int(p.Members)})
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		for _, past := range s.History {
			if past.Gen <= p.Gen {
				p.Plan, p.Since, p.Because = past.Plan, past.Time, past.Because
			}
		}
	}
}

// wall is an instant of a wall clock, as a record tells it. A year that JSON cannot
// write is no date: one record would keep the whole group from being shown.
func wall(ms int64) time.Time {
	if t := time.UnixMilli(ms); 0 < t.Year() && t.Year() < 10_000 {
		return t
	}
	return time.Time{}
}

// waitFor says in words what a row waits for.
func waitFor(info *PartitionInfo, r *record.Row, acks map[record.Session]*record.Member, id record.ID, inc uint32) (Wait, bool) {
	switch r.State {
	case record.Revoking:
		return Wait{info.Name, "its owner to stop", info.Owner}, true
	case record.Free:
		if r.To == 0 || r.Reason != record.NoReason {
			return Wait{}, false
		}
		return Wait{info.Name, "its grant", info.To}, true
	}
	m := acks[r.Owner]
	if m == nil {
		return Wait{}, false
	}
	for _, s := range m.Starting {
		if s == id {
			return Wait{info.Name, "the source to confirm its start", info.Owner}, true
		}
	}
	if m.AckInc != inc || m.AckGen < r.Rev {
		return Wait{info.Name, "its owner to see the plan", info.Owner}, true
	}
	return Wait{}, false
}

func cutPrefix(s, prefix string) (string, bool) { return strings.CutPrefix(s, prefix) }

// memberKey reads the session out of "member/<session>".
func memberKey(name string) (record.Session, error) {
	hex, ok := strings.CutPrefix(name, "member/")
	if !ok || len(hex) != 16 {
		return 0, errors.New("not a key of rota")
	}
	v, err := strconv.ParseUint(hex, 16, 64)
	if err != nil || v == 0 {
		return 0, errors.New("not a key of rota")
	}
	return record.Session(v), nil
}
