package test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/plan"
)

// A setup is what a ramp was made with: the first line of its file.
type setup struct {
	Scaler     string  `json:"scaler"`
	Partitions int     `json:"partitions"`
	Capacity   float64 `json:"capacity"` // messages per second that a member handles
	Target     float64 `json:"target"`   // the share of it that a plan fills
	Least      int     `json:"least"`
	Spare      int     `json:"spare"`
}

// A moment is what was measured at one time of a ramp: a line of its file, which the
// picture is made of.
type moment struct {
	At      float64 `json:"at"`   // seconds since it began
	Rate    float64 `json:"rate"` // messages per second that arrive
	Sent    int     `json:"sent"`
	Handled int     `json:"handled"`
	Needed  int     `json:"needed"` // members that the planner needs for that rate, and the spare ones
	Want    int     `json:"want"`
	Have    int     `json:"have"`
}

func (m *moment) backlog() float64 { return float64(m.Sent - m.Handled) }

// needed is how many members the planner needs for a rate that is spread evenly, and the
// spare ones.
func (s *setup) needed(rate float64) int {
	parts, loads := make([]plan.Partition, s.Partitions), make([]pack.Load, s.Partitions)
	for i := range parts {
		parts[i].Owner, parts[i].Pin = plan.None, plan.None
		loads[i].Speed = rate / float64(s.Partitions)
	}
	_, said := pack.Pack(make([]plan.Member, s.Partitions), parts, pack.Options{Loads: loads, Capacity: s.Capacity * s.Target}, nil)
	return max(said.Used+s.Spare, s.Least)
}

// figures are what is told of a ramp.
type figures struct {
	worst float64 // backlog while the load grew, in seconds of arrivals
	cost  float64 // members × time, of what the planner needs and the spare ones
	most  int     // members
	last  int     // members at the end
	time  float64 // seconds until the end
	gap   float64 // seconds between two measurements, at most: how busy the machine was
}

func (f figures) String() string {
	return fmt.Sprintf("backlog while growing at most %.1f s of arrivals; members × time %.2f of what the planner needs and the spare; at most %d members, %d at the end, after %.0f s; measured every %.1f s or more often", f.worst, f.cost, f.most, f.last, f.time, f.gap)
}

const (
	mostBacklog = 10.0 // seconds of arrivals, while the load grows
	mostCost    = 1.25
)

// judge says what is wrong with a ramp by what was measured.
func (s *setup) judge(all []moment) (f figures, wrong []string) {
	if len(all) < 2 {
		return f, []string{"nothing was measured"}
	}
	peak := 0
	for i := range all {
		if all[i].Rate > all[peak].Rate {
			peak = i
		}
	}
	var had, needed float64
	for i := range all {
		m := &all[i]
		if i <= peak && m.Rate > 0 {
			f.worst = max(f.worst, m.backlog()/m.Rate)
		}
		f.most = max(f.most, m.Have)
		if i > 0 {
			took := m.At - all[i-1].At
			f.gap = max(f.gap, took)
			had += float64(m.Have) * took
			needed += float64(m.Needed) * took
		}
	}
	end := all[len(all)-1]
	f.cost, f.last, f.time = had/needed, end.Have, end.At
	if f.worst > mostBacklog {
		wrong = append(wrong, fmt.Sprintf("the backlog was %.1f s of arrivals while the load grew, and %.0f s are the most", f.worst, mostBacklog))
	}
	if f.cost > mostCost || math.IsNaN(f.cost) {
		wrong = append(wrong, fmt.Sprintf("members × time is %.2f of what is needed, and %.2f is the most", f.cost, mostCost))
	}
	if f.last != s.Least+s.Spare {
		wrong = append(wrong, fmt.Sprintf("%d members at the end, want %d", f.last, s.Least+s.Spare))
	}
	if end.Sent != end.Handled {
		wrong = append(wrong, fmt.Sprintf("%d of %d messages were handled", end.Handled, end.Sent))
	}
	return f, wrong
}

// endedBusy names the members that were asked to end before a time, on the clock of the
// lines, and owned something.
func endedBusy(lines []line.Line, before int64) (wrong []string, ended int) {
	owns := map[string]map[string]bool{}
	for _, l := range lines {
		switch l.Event {
		case string(rota.EventGrant):
			if owns[l.Session] == nil {
				owns[l.Session] = map[string]bool{}
			}
			owns[l.Session][l.Partition] = true
		case string(rota.EventStopped):
			delete(owns[l.Session], l.Partition)
		case string(rota.EventLeaving):
			if l.Boot >= before {
				continue
			}
			ended++
			if n := len(owns[l.Session]); n > 0 {
				wrong = append(wrong, fmt.Sprintf("%s was asked to end while it owned %d partitions", l.Member, n))
			}
		}
	}
	return wrong, ended
}

// A granter looks at what the plan gives to whom.
type granter struct {
	before *rota.Status
	wrong  []string
}

// see notes grants to, and revokes for, members that do not live. A status is read record by
// record, so a member counts that lived by this or by the last one.
func (g *granter) see(st *rota.Status) {
	defer func() { g.before = st }()
	if g.before == nil {
		return
	}
	known := map[string]uint64{}
	for _, p := range g.before.Partitions {
		known[p.Name] = p.Gen
	}
	for _, p := range st.Partitions {
		who := p.To
		if p.State == rota.PartitionOwned {
			who = p.Owner
		}
		if who != "" && p.Gen != known[p.Name] && !lives(st, who) && !lives(g.before, who) {
			g.wrong = append(g.wrong, fmt.Sprintf("%s is %s, for member %s, which does not live", p.Name, p.State, st.NameOf(who)))
		}
	}
}

func lives(st *rota.Status, session string) bool {
	for _, m := range st.Members {
		if m.Session == session {
			return m.State == rota.MemberLive
		}
	}
	return false
}

// A ramp that is as it should be passes, and each way to be wrong is noticed.
func TestARampIsJudged(t *testing.T) {
	s := &setup{Partitions: 48, Capacity: 40, Target: 0.8, Least: 1, Spare: 1}
	good := func() (all []moment) {
		sent := 0.0
		for at := range 300 {
			worth := 1 + 5*max(0, 1-math.Abs(float64(at)-120)/120)
			m := moment{At: float64(at), Rate: worth * 29}
			sent += m.Rate
			m.Sent = int(sent)
			m.Handled = m.Sent - int(m.Rate)
			m.Needed = s.needed(m.Rate)
			m.Want, m.Have = m.Needed, m.Needed
			all = append(all, m)
		}
		all[299].Handled = all[299].Sent
		return all
	}
	if f, wrong := s.judge(good()); len(wrong) > 0 || f.most != 7 || f.cost != 1 || f.worst < 0.9 || f.worst > 1.1 {
		t.Errorf("a good ramp: %v, %q", f, wrong)
	}
	for _, c := range []struct {
		name   string
		change func(all []moment) []moment
		says   string
	}{
		{"a backlog", func(all []moment) []moment { all[60].Handled = all[60].Sent - int(11*all[60].Rate); return all }, "the backlog was 11.0 s of arrivals while the load grew"},
		{"too many members", func(all []moment) []moment {
			for i := range all[:299] {
				all[i].Have += 2
			}
			return all
		}, "members × time is 1.4"},
		{"one too many at the end", func(all []moment) []moment { all[299].Have = 3; return all }, "3 members at the end, want 2"},
		{"a lost message", func(all []moment) []moment { all[299].Handled--; return all }, "messages were handled"},
		{"nothing", func(all []moment) []moment { return all[:1] }, "nothing was measured"},
	} {
		if _, wrong := s.judge(c.change(good())); len(wrong) != 1 || !strings.Contains(wrong[0], c.says) {
			t.Errorf("%s: %q, want %q", c.name, wrong, c.says)
		}
	}
	all := good()
	all[200].Handled = all[200].Sent - int(11*all[200].Rate)
	if _, wrong := s.judge(all); len(wrong) > 0 {
		t.Errorf("a backlog while the load falls: %q", wrong)
	}
}

func TestAnEndOfABusyMemberIsNoticed(t *testing.T) {
	at := func(boot int64, event rota.EventKind, session, partition string) line.Line {
		return line.Line{Boot: boot, Event: string(event), Member: "m" + session, Session: session, Partition: partition}
	}
	lines := []line.Line{at(1, rota.EventGrant, "1", "q0"), at(2, rota.EventGrant, "2", "q1"), at(3, rota.EventStopped, "1", "q0"), at(4, rota.EventLeaving, "1", ""), at(5, rota.EventLeaving, "2", "")}
	if wrong, ended := endedBusy(lines, 5); len(wrong) != 0 || ended != 1 {
		t.Errorf("%d ended, %q", ended, wrong)
	}
	if wrong, ended := endedBusy(lines, 6); len(wrong) != 1 || ended != 2 || wrong[0] != "m2 was asked to end while it owned 1 partitions" {
		t.Errorf("%d ended, %q", ended, wrong)
	}
}

func TestAGrantToADeadMemberIsNoticed(t *testing.T) {
	status := func(state rota.MemberState, p rota.PartitionInfo) *rota.Status {
		p.Name = "q0"
		return &rota.Status{Members: []rota.MemberInfo{{Name: "m1", Session: "1", State: state}}, Partitions: []rota.PartitionInfo{p}}
	}
	free := rota.PartitionInfo{State: rota.PartitionFree, Gen: 1}
	for _, c := range []struct {
		name        string
		before, now *rota.Status
		wrong       int
	}{
		{"granted", status(rota.MemberLive, free), status(rota.MemberLive, rota.PartitionInfo{State: rota.PartitionOwned, Owner: "1", Gen: 2}), 0},
		{"granted, and left at once", status(rota.MemberLive, free), status(rota.MemberLeft, rota.PartitionInfo{State: rota.PartitionOwned, Owner: "1", Gen: 2}), 0},
		{"an old grant", status(rota.MemberDead, rota.PartitionInfo{State: rota.PartitionOwned, Owner: "1", Gen: 1}), status(rota.MemberDead, rota.PartitionInfo{State: rota.PartitionOwned, Owner: "1", Gen: 1}), 0},
		{"granted to a dead one", status(rota.MemberDead, free), status(rota.MemberDead, rota.PartitionInfo{State: rota.PartitionOwned, Owner: "1", Gen: 2}), 1},
		{"revoked for one that leaves", status(rota.MemberLeaving, free), status(rota.MemberLeaving, rota.PartitionInfo{State: rota.PartitionRevoking, Owner: "2", To: "1", Gen: 2}), 1},
		{"revoked for a stranger", status(rota.MemberLive, free), status(rota.MemberLive, rota.PartitionInfo{State: rota.PartitionRevoking, Owner: "1", To: "3", Gen: 2}), 1},
		{"revoked for nobody", status(rota.MemberDead, free), status(rota.MemberDead, rota.PartitionInfo{State: rota.PartitionRevoking, Owner: "1", Gen: 2}), 0},
	} {
		var g granter
		g.see(c.before)
		g.see(c.now)
		if len(g.wrong) != c.wrong {
			t.Errorf("%s: %q", c.name, g.wrong)
		}
	}
}
