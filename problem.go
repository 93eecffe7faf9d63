package rota

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
)

// Conditions of a group as an observer finds them.
const (
	ConditionNoMember    Condition = "no-member"   // every member has left or died: nobody leads, nothing runs
	ConditionSilent      Condition = "silent"      // a member sends no heartbeats, and no other member deals with that
	ConditionUnplaced    Condition = "unplaced"    // no member may own a partition: drains, bans, limits
	ConditionQuarantined Condition = "quarantined" // a partition killed too many owners
)

// A Problem is something about a group that somebody should look at. What the group
// itself is about to put right is none: partitions that change hands, a hold, a member
// that others are about to declare dead. Neither is what operators ordered: a pause.
type Problem struct {
	Code       Condition `json:"code"`
	Member     string    `json:"member,omitempty"`     // the name of the member it is about, or that reported it
	Partitions []string  `json:"partitions,omitempty"` // those it is about
	Text       string    `json:"text"`                 // for people
}

// grave are the conditions of members that are problems of their group. The others are
// for information, or end by themselves.
var grave = map[Condition]bool{
	ConditionStuck: true, ConditionBlocked: true, ConditionTwins: true, ConditionLeaseTooLong: true,
	ConditionRosterMissing: true, ConditionRosterUnwritable: true, ConditionPlanUnwritable: true,
	ConditionRecordUnreadable: true, ConditionRecordUnwritable: true, ConditionWritesLost: true,
	ConditionPartitionsUnknown: true, ConditionSourceFailed: true, ConditionUntried: true, ConditionBug: true,
	ConditionHandlerFails: true, ConditionTokenRefused: true,
	ConditionHandlerBusy: true, ConditionSourceSilent: true, ConditionNoProgress: true,
}

// mustWait are those that are over when their partition runs.
var mustWait = map[Condition]bool{ConditionStuck: true, ConditionSourceFailed: true}

// assess fills in Problems. It rests on all other fields.
func (s *Status) assess() {
	s.Problems = []Problem{}
	s.assessMembers()
	s.assessPartitions()
	for _, c := range s.Conditions {
		s.problem(c.Code, "", c.Partition, c.Text)
	}
	waits := map[string]bool{}
	for _, w := range s.Waits {
		waits[w.Partition] = true
	}
	for i := range s.Members {
		m := &s.Members[i]
		if !m.lives() || m.Silent {
			continue // its conditions are old
		}
		for _, c := range m.Conditions {
			if grave[c.Code] && (!mustWait[c.Code] || c.Partition == "" || waits[c.Partition]) {
				s.problem(c.Code, m.Name, c.Partition, c.Text)
			}
		}
	}
}

// problem adds a problem. Those that differ by the partition alone become one.
func (s *Status) problem(code Condition, member, partition, text string) {
	i := slices.IndexFunc(s.Problems, func(p Problem) bool { return p.Code == code && p.Member == member && p.Text == text })
	if i < 0 {
		i = len(s.Problems)
		s.Problems = append(s.Problems, Problem{Code: code, Member: member, Text: text})
	}
	if partition != "" {
		s.Problems[i].Partitions = append(s.Problems[i].Partitions, partition)
	}
}

// lives tells whether the member's record says that it has not ended.
func (m *MemberInfo) lives() bool { return m.State == MemberLive || m.State == MemberLeaving }

// deadAfter is how long a member must be silent before others declare it dead.
func (m *MemberInfo) deadAfter() time.Duration { return core.Timing{Lease: m.Lease}.W() }

func (s *Status) assessMembers() {
	var living, silent []*MemberInfo
	for i := range s.Members {
		if m := &s.Members[i]; m.lives() {
			living = append(living, m)
			if m.Silent {
				silent = append(silent, m)
			}
		}
	}
	switch last := s.lastEnded(); {
	case len(living) == 0 && last == nil:
		s.problem(ConditionNoMember, "", "", "no member is left: nobody leads, and nothing runs")
	case len(living) == 0:
		s.problem(ConditionNoMember, last.Name, "", fmt.Sprintf("no member is left, the last was %s: nobody leads, and nothing runs", last.Name))
	case len(living) == len(silent):
		for _, m := range silent {
			s.problem(ConditionSilent, m.Name, "", "it sends no heartbeats, and there is nobody to take over")
		}
	default: // the others declare the silent ones dead; if they do not, something is wrong
		for _, m := range silent {
			if m.Age > 2*m.deadAfter() {
				s.problem(ConditionSilent, m.Name, "", "it has sent no heartbeats for long, and nobody has declared it dead")
			}
		}
	}
}

// lastEnded is the member that has left or died last, by the clocks of the members'
// machines. It is nil if there is no record of one.
func (s *Status) lastEnded() (last *MemberInfo) {
	for i := range s.Members {
		if m := &s.Members[i]; !m.lives() && (last == nil || m.Sent.After(last.Sent)) {
			last = m
		}
	}
	return last
}

func (s *Status) assessPartitions() {
	if s.Phase == Vacant {
		return // that is the problem
	}
	why := "no member may take it: look at drains, bans and limits"
	if s.allDrained() {
		why = "no member may take it: every member is drained"
	}
	for _, p := range s.Partitions {
		switch p.Reason {
		case ReasonUnplaced:
			s.problem(ConditionUnplaced, "", p.Name, why)
		case ReasonFailing:
			s.problem(ConditionSourceFailed, "", p.Name, "its source failed again and again, and is tried again after pauses of at most 8 s")
		case ReasonQuarantined:
			s.problem(ConditionQuarantined, "", p.Name, "it is in quarantine, since too many members died while they ran it: look at its first message, then rota release")
		}
	}
}

// allDrained tells whether members live and every one of them is drained by order.
func (s *Status) allDrained() bool {
	some := false
	for i := range s.Members {
		m := &s.Members[i]
		if m.State == MemberLive && !slices.Contains(s.Orders.Drains, m.Name) {
			return false
		}
		some = some || m.State == MemberLive
	}
	return some
}

// String is for people.
func (p Problem) String() string {
	var about []string
	if p.Member != "" {
		about = append(about, p.Member)
	}
	if n := len(p.Partitions); n > 8 {
		about = append(about, fmt.Sprintf("%s and %d more", strings.Join(p.Partitions[:8], ", "), n-8))
	} else if n > 0 {
		about = append(about, strings.Join(p.Partitions, ", "))
	}
	return strings.Join(append(about, p.Text), ": ")
}
