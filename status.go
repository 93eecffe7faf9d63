package rota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// Phase says what a group is doing.
type Phase string

const (
	Sentinel  Phase = "sentinel"  // at rest
	Computing Phase = "computing" // about to plan
	Changing  Phase = "changing"  // partitions are changing hands
	Vacant    Phase = "vacant"    // every member has left or died: nobody plans, and nothing runs
)

// A Status is a group as one observer sees it.
type Status struct {
	Group      string          `json:"group"`
	Leader     string          `json:"leader"`      // session that the plan names; it may have ended
	LeaderName string          `json:"leader_name"` // the leader's name; its session if its record is gone
	Term       uint64          `json:"term"`        // grows with each leader
	Plan       uint64          `json:"plan"`        // grows with each plan
	Gen        uint64          `json:"gen"`         // grows with every write of the plan
	Phase      Phase           `json:"phase"`
	PhaseSince time.Time       `json:"phase_since,omitzero"` // Inspect only: since which plan, if that is known
	Hold       bool            `json:"hold"`                 // nothing is granted until every lease that the store may have forgotten is over
	Mode       Mode            `json:"mode"`
	Class      Class           `json:"class"`
	Members    []MemberInfo    `json:"members"`
	Partitions []PartitionInfo `json:"partitions"`
	Waits      []Wait          `json:"waits"`
	Conditions []ConditionInfo `json:"conditions"` // Inspect only: records that cannot be decoded and are left out
	Problems   []Problem       `json:"problems"`   // Inspect and Observe only: what somebody should look at; empty if all is well
	Orders     OrdersInfo      `json:"orders"`     // Inspect only
	History    []PlanInfo      `json:"history"`    // Inspect only: the newest plans, oldest first

	// Load is what the leader measured: Inspect only, and only with the strategy Pack.
	Load *LoadInfo `json:"load,omitempty"`

	// Size is how many members are wanted: only with a Scaler.
	Size *SizeInfo `json:"size,omitempty"`
}

// NameOf is the name of the member with this session, or the session if the member is
// not known.
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
	Plan    uint64    `json:"plan"`
	Gen     uint64    `json:"gen"` // of the write that made it
	Time    time.Time `json:"time"`
	Causes  []Cause   `json:"causes"`
	Moves   int       `json:"moves"` // partitions that it gave to another member
	Members int       `json:"members"`
}

// Why is one reason for a plan.
type Why string

const (
	WhyJoined    Why = "joined"    // members joined
	WhyLeft      Why = "left"      // members left
	WhyDied      Why = "died"      // members were declared dead
	WhyEvicted   Why = "evicted"   // members did not stop in time
	WhyReturned  Why = "returned"  // members came back to the partitions that were kept for their names
	WhyOrders    Why = "orders"    // an operator ordered it
	WhyRoster    Why = "roster"    // partitions or their metadata changed
	WhyOwnerless Why = "ownerless" // a partition had no owner
	WhyLoad      Why = "load"      // a member was overloaded
	WhySize      Why = "size"      // members that are to go were emptied
	WhyInterval  Why = "interval"  // the interval of Config.Packing was over, and a better plan was found
)

// A Cause is one reason for a plan, with the members it is about.
type Cause struct {
	Why     Why      `json:"why"`
	Members []string `json:"members,omitempty"` // by name, at most 3; in PlanInfo only
	More    int      `json:"more,omitempty"`    // how many members are not named
}

// OrdersInfo holds the orders of operators.
type OrdersInfo struct {
	Ver    uint64              `json:"ver"`    // grows with each order
	Obeyed uint64              `json:"obeyed"` // the version that the plan obeys
	Freeze bool                `json:"freeze"`
	Paused []string            `json:"paused"` // partitions
	Drains []string            `json:"drains"` // members, by name
	Pins   map[string]string   `json:"pins"`   // partition to member's name
	Bans   map[string][]string `json:"bans"`   // partition to members' names
	Topics map[string]Meta     `json:"topics"` // topic to the metadata ordered for it
	Log    []OrderInfo         `json:"log"`    // oldest first
}

// An OrderInfo is one order of the past.
type OrderInfo struct {
	Time time.Time `json:"time"`
	Who  string    `json:"who"`
	What string    `json:"what"`
	Why  string    `json:"why"`

	// Planned says that the leader has made a plan that obeys it. Partitions may still
	// be changing hands for it.
	Planned bool `json:"planned"`
}

// MemberState is the state in a member's record.
type MemberState string

const (
	MemberLive    MemberState = "LIVE"
	MemberLeaving MemberState = "LEAVING" // it leaves as soon as its partitions are handed over
	MemberEvicted MemberState = "EVICTED" // the leader gave up on it; it may still be running
	MemberDead    MemberState = "DEAD"    // it cannot be running under its lease any more
	MemberLeft    MemberState = "LEFT"    // it stopped everything and said so
)

// MemberInfo is one member's record.
type MemberInfo struct {
	Name       string            `json:"name"`
	Session    string            `json:"session"`
	State      MemberState       `json:"state"`
	Silent     bool              `json:"silent"`     // Observe only: no heartbeat came while one was looked for
	Continues  bool              `json:"continues"`  // it works on without a lease while the store does not answer: Config.OnStoreLoss
	Planned    bool              `json:"planned"`    // the plan counts on it
	Partitions int               `json:"partitions"` // how many it owns
	Labels     map[string]string `json:"labels"`
	PID        int               `json:"pid"`
	Sent       time.Time         `json:"sent"` // its last heartbeat, on its own wall clock
	Age        time.Duration     `json:"-"`    // of that heartbeat when this was read; in JSON "heartbeat_age_s"
	Lease      time.Duration     `json:"-"`    // in JSON "lease", as text: 3s
	Heartbeat  time.Duration     `json:"-"`    // in JSON "heartbeat", as text
	Conditions []ConditionInfo   `json:"conditions"`

	// DeadLetters is how many messages this session has dead-lettered.
	DeadLetters uint64 `json:"dead_letters"`

	// Inspect only, and only with the strategy Pack, in units per second: what its
	// partitions ask of it, and what it sustains; zero if that is not known.
	Load     float64 `json:"load,omitempty"`
	Capacity float64 `json:"capacity,omitempty"`
}

// memberJSON is the JSON form of MemberInfo, with durations that people can read.
type memberJSON struct {
	*plainMember
	Age       float64 `json:"heartbeat_age_s"`
	Lease     string  `json:"lease"`
	Heartbeat string  `json:"heartbeat"`
}

type plainMember MemberInfo

// MarshalJSON writes lease and heartbeat as people do: 3s, 900ms.
func (m MemberInfo) MarshalJSON() ([]byte, error) {
	return json.Marshal(memberJSON{(*plainMember)(&m), m.Age.Round(time.Millisecond).Seconds(), m.Lease.String(), m.Heartbeat.String()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *MemberInfo) UnmarshalJSON(b []byte) error {
	x := memberJSON{plainMember: (*plainMember)(m)}
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	m.Age = time.Duration(x.Age * float64(time.Second)).Round(time.Millisecond)
	var lease, beat error
	m.Lease, lease = time.ParseDuration(x.Lease)
	m.Heartbeat, beat = time.ParseDuration(x.Heartbeat)
	return errors.Join(lease, beat)
}

// PartitionState is the state of a partition in the plan.
type PartitionState string

const (
	PartitionFree     PartitionState = "FREE"     // no member may consume it
	PartitionOwned    PartitionState = "OWNED"    // its owner may consume it
	PartitionRevoking PartitionState = "REVOKING" // its owner was told to stop and has not confirmed the stop
)

// Reason says why a partition is FREE, if there is a special reason.
type Reason string

const (
	ReasonPaused      Reason = "paused"      // by order
	ReasonRemoved     Reason = "removed"     // neither source nor orders list it any more
	ReasonReturning   Reason = "returning"   // kept for a member with the name of its last owner: Config.Return
	ReasonQuarantined Reason = "quarantined" // it killed too many owners
	ReasonUnplaced    Reason = "unplaced"    // no member may own it: bans, limits, drains
	ReasonFailing     Reason = "failing"     // its source failed again and again: it is tried again after a pause
)

// PartitionInfo is one partition's row in the plan.
type PartitionInfo struct {
	Name   string         `json:"name"`
	Topic  string         `json:"topic,omitempty"`
	State  PartitionState `json:"state"`
	Owner  string         `json:"owner,omitempty"`  // session
	Member string         `json:"member,omitempty"` // the owner's name
	To     string         `json:"to,omitempty"`     // session that gets it next
	Token  Token          `json:"token,string"`     // of the newest grant
	Reason Reason         `json:"reason,omitempty"`
	Gen    uint64         `json:"gen"` // of the write that last changed its state
	Meta   Meta           `json:"meta"`
	Deaths int            `json:"deaths,omitempty"` // how many owners in a row died with it, since it last ran well for a minute, forgiven ones included

	// Inspect only, and only if the history reaches back that far: the newest plan
	// when the state last changed.
	Plan   uint64    `json:"plan,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Causes []Cause   `json:"causes,omitempty"`

	// Inspect only, and only with the strategy Pack: units per second that arrive, and
	// units that wait.
	Speed   float64 `json:"speed,omitempty"`
	Backlog float64 `json:"backlog,omitempty"`
}

// A Wait is a partition that is not yet where the plan wants it.
type Wait struct {
	Partition string  `json:"partition"`
	For       WaitFor `json:"for"`
	Member    string  `json:"member"` // session of the member it waits for; with WaitGrant, of its next owner

	// Since and Causes are when and why the plan was made that it waits by: Inspect only,
	// and only if the history reaches back that far.
	Since  time.Time `json:"since,omitzero"`
	Causes []Cause   `json:"causes,omitempty"`
}

// WaitFor says what a partition waits for.
type WaitFor string

const (
	WaitStop  WaitFor = "stop"  // its owner must stop
	WaitGrant WaitFor = "grant" // the leader must grant it
	WaitAck   WaitFor = "ack"   // its owner must apply the plan
	WaitStart WaitFor = "start" // the source must confirm its start
)

// newStatus is an empty Status. Its slices and maps are not nil, so that JSON shows []
// and {} and not null.
func newStatus(group string, store Store) Status {
	return Status{Group: group, Class: classOf(store), Members: []MemberInfo{}, Partitions: []PartitionInfo{}, Waits: []Wait{},
		Conditions: []ConditionInfo{}, Problems: []Problem{}, History: []PlanInfo{},
		Orders: OrdersInfo{Paused: []string{}, Drains: []string{}, Pins: map[string]string{}, Bans: map[string][]string{}, Topics: map[string]Meta{}, Log: []OrderInfo{}}}
}

// Status is the group as this member sees it: the newest plan it knows. It waits
// until Run can answer. If Run has not begun or has returned, the Status is empty.
func (m *Member) Status() Status {
	if !m.ran.Load() {
		return newStatus(m.cfg.Group, m.cfg.Store)
	}
	ask := make(chan Status, 1)
	select {
	case m.asks <- func(s *session) { ask <- s.status() }:
		return <-ask
	case <-m.ended:
		return newStatus(m.cfg.Group, m.cfg.Store)
	}
}

func (s *session) status() Status {
	st := newStatus(s.m.cfg.Group, s.m.cfg.Store)
	st.fill(s.node.Plan(), s.node.Roster(), s.node.Members(), s.node.Leads())
	for i := range st.Members {
		if m := &st.Members[i]; m.Session == s.id.String() { // what its record does not say yet
			m.Conditions = conditionInfos(s.conditions.now(time.Now()))
		}
	}
	return st
}

func conditionInfos(all []record.Condition) []ConditionInfo {
	out := []ConditionInfo{}
	for _, c := range all {
		out = append(out, ConditionInfo{Condition(c.Code), c.Partition, c.Text})
	}
	return out
}

// ErrUnreadable means that a record that is needed cannot be decoded.
var ErrUnreadable = errors.New("rota: the record cannot be read")

// Inspect reads a group's state from the store once, without joining it. It believes
// every record; Observe finds out which members are silent. A record that cannot be
// decoded is left out, with a condition in Conditions; only for the plan it returns
// ErrUnreadable.
func Inspect(ctx context.Context, store Store, group string) (Status, error) {
	st := newStatus(group, store)
	var plan *record.Plan
	var roster *record.Roster
	var members []*record.Member
	var orders *record.Orders
	var history *record.History
	var loads *record.Loads
	for batch, err := range store.Watch(ctx, group+"/") {
		if err != nil {
			return st, fmt.Errorf("inspect %s: %w", group, err)
		}
		for _, e := range batch {
			if e.Key == historyKey(group) {
				history, _ = record.DecodeHistory(e.Value) // for people only: without it the Status has less to show
				continue
			}
			if e.Key == loadsKey(group) {
				loads, _ = record.DecodeLoads(e.Value) // likewise
				continue
			}
			x, err := decodeEntry(group, e)
			if err != nil && x.Cell == core.PlanCell {
				return st, fmt.Errorf("inspect %s: the plan: %w: %w", group, ErrUnreadable, err)
			}
			if err != nil { // members go on without such a record, and so does Inspect
				st.Conditions = append(st.Conditions, ConditionInfo{ConditionRecordUnreadable, "", fmt.Sprintf("record %q cannot be read and is left out: %v", e.Key, err)})
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
		st.fill(plan, roster, members, true)
		st.order(orders)
		st.remember(history)
		st.weigh(loads)
		st.assess()
		return st, nil
	}
	return st, errors.New("inspect: watch closed before its first batch")
}

// fill shows the plan in s. all says that members holds the record of every member.
// Followers watch their leader's record only, so they cannot tell which partitions of
// others wait for an ack or a start.
func (s *Status) fill(p *record.Plan, roster *record.Roster, members []*record.Member, all bool) {
	if p == nil {
		return
	}
	p = p.Full()
	s.Leader, s.Term, s.Plan, s.Gen, s.Hold = p.Leader.String(), p.Term, p.ID, p.Gen, p.Hold
	s.Mode, s.Phase = Mode(p.Mode.String()), Sentinel
	s.Orders.Obeyed = p.Orders
	records := map[record.Session]*record.Member{}
	for _, m := range members {
		records[m.Session] = m
	}
	name := func(id record.Session) string {
		if m := records[id]; m != nil {
			return m.Name
		}
		return id.String()
	}
	s.LeaderName = name(p.Leader)
	counts := map[record.Session]int{}
	for i := range p.Rows {
		r := &p.Rows[i]
		info := PartitionInfo{Name: "#" + strconv.Itoa(i), State: PartitionState(r.State.String()), Token: Token(r.Token),
			Reason: Reason(r.Reason.String()), Gen: r.Rev, Meta: Meta{}}
		if roster != nil && i < roster.Len() {
			e := roster.At(record.ID(i))
			info.Name, info.Topic = e.Name, e.Topic
			for _, kv := range e.Meta {
				if !strings.HasPrefix(kv.Key, reservedMeta) {
					info.Meta[kv.Key] = kv.Value
				}
			}
		}
		if r.Owner != 0 {
			info.Owner, info.Member = r.Owner.String(), name(r.Owner)
			counts[r.Owner]++
		}
		if r.To != 0 {
			info.To = r.To.String()
		}
		if k := slices.IndexFunc(p.Kills, func(k record.Kill) bool { return int(k.ID) == i }); k >= 0 {
			info.Deaths = int(p.Kills[k].Count)
		}
		s.Partitions = append(s.Partitions, info)
		owner := records[r.Owner]
		if r.State == record.Owned && owner == nil && !all {
			continue
		}
		switch core.Awaits(p, record.ID(i), r, owner) {
		case core.AwaitStop:
			s.Waits = append(s.Waits, Wait{Partition: info.Name, For: WaitStop, Member: info.Owner})
		case core.AwaitGrant:
			s.Waits = append(s.Waits, Wait{Partition: info.Name, For: WaitGrant, Member: info.To})
		case core.AwaitAck:
			s.Waits = append(s.Waits, Wait{Partition: info.Name, For: WaitAck, Member: info.Owner})
		case core.AwaitStart:
			s.Waits = append(s.Waits, Wait{Partition: info.Name, For: WaitStart, Member: info.Owner})
		}
	}
	if len(s.Waits) > 0 {
		s.Phase = Changing
	}
	s.fillMembers(p, members, counts)
	s.resize(p.Size)
	if all && !slices.ContainsFunc(members, func(m *record.Member) bool { return m.State == record.Live || m.State == record.Leaving }) {
		s.Phase, s.Waits = Vacant, []Wait{} // for the next member, if anything
	}
}

func (s *Status) fillMembers(p *record.Plan, members []*record.Member, counts map[record.Session]int) {
	planned := map[record.Session]bool{}
	for _, id := range p.Members {
		planned[id] = true
	}
	for _, m := range members {
		info := memberInfo(m)
		info.Planned, info.Partitions = planned[m.Session], counts[m.Session]
		s.Members = append(s.Members, info)
		if (m.State == record.Live) != planned[m.Session] && s.Phase == Sentinel {
			s.Phase = Computing
		}
	}
}

// memberInfo is what a member's own record says.
func memberInfo(m *record.Member) MemberInfo {
	info := MemberInfo{Name: m.Name, Session: m.Session.String(), State: MemberState(m.State.String()), Continues: m.Continues,
		Lease: m.Lease, Heartbeat: m.Beat, Labels: map[string]string{},
		PID: int(m.Host.PID), Conditions: conditionInfos(m.Conditions), DeadLetters: m.Letters}
	if m.Sent != 0 {
		info.Sent = wall(m.Sent)
		info.Age = time.Since(info.Sent)
	}
	for _, l := range m.Labels {
		info.Labels[l.Key] = l.Value
	}
	return info
}

func (s *Status) order(o *record.Orders) {
	if o == nil {
		return
	}
	s.Orders.Ver, s.Orders.Freeze = o.Ver, o.Freeze
	s.Orders.Paused = append(s.Orders.Paused, o.Pauses...)
	s.Orders.Drains = append(s.Orders.Drains, o.Drains...)
	for _, p := range o.Pins {
		s.Orders.Pins[p.Partition] = p.Member
	}
	for _, p := range o.Bans {
		s.Orders.Bans[p.Partition] = append(s.Orders.Bans[p.Partition], p.Member)
	}
	for _, t := range o.Topics {
		s.Orders.Topics[t.Name] = Meta{}
		for _, kv := range t.Pairs {
			s.Orders.Topics[t.Name][kv.Key] = kv.Value
		}
	}
	for i, l := range o.Log {
		ver := o.Ver - min(o.Ver, uint64(len(o.Log)-1-i)) // each order is a version
		s.Orders.Log = append(s.Orders.Log, OrderInfo{wall(l.At), l.Who, l.What, l.Why, ver <= s.Orders.Obeyed})
	}
}

// remember fills in the history, and the plan that each partition's state comes from.
func (s *Status) remember(h *record.History) {
	if h == nil {
		return
	}
	for _, p := range h.Plans {
		causes := []Cause{}
		for _, c := range p.Causes {
			causes = append(causes, Cause{Why(c.Why), c.Members, int(c.More)})
		}
		s.History = append(s.History, PlanInfo{p.ID, p.Gen, wall(p.At), causes, int(p.Moves), int(p.Members)})
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		for _, past := range s.History {
			if past.Gen <= p.Gen {
				p.Plan, p.Since, p.Causes = past.Plan, past.Time, past.Causes
			}
		}
	}
	by := map[string]*PartitionInfo{}
	for i := range s.Partitions {
		by[s.Partitions[i].Name] = &s.Partitions[i]
	}
	for i := range s.Waits {
		w := &s.Waits[i]
		w.Since, w.Causes = by[w.Partition].Since, by[w.Partition].Causes
		if s.PhaseSince.IsZero() || w.Since.Before(s.PhaseSince) {
			s.PhaseSince = w.Since
		}
	}
	if n := len(s.History); s.PhaseSince.IsZero() && s.Phase == Sentinel && n > 0 {
		s.PhaseSince = s.History[n-1].Time
	}
}

// wall is the time of a record's wall clock in ms. A year that JSON cannot write
// becomes the zero time: otherwise one bad record would keep the whole group from
// being shown.
func wall(ms int64) time.Time {
	if t := time.UnixMilli(ms); 0 < t.Year() && t.Year() < 10_000 {
		return t
	}
	return time.Time{}
}
