package rota

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rota-dev/rota/internal/record"
)

// Condition is the code of something that a person should know. Programs compare
// codes; the sentence that comes with one is for people and may change.
type Condition string

// What the group tells of. A source has codes of its own: Ownership.Tell.
const (
	ConditionTwins            Condition = "twins"             // two processes have one name
	ConditionStuck            Condition = "stuck"             // a partition was granted long ago and has not started
	ConditionBlocked          Condition = "blocked"           // the last leader ended on a bug over this plan: nothing is changed
	ConditionRosterMissing    Condition = "roster-missing"    // the plan obeys a roster that is not in sight
	ConditionRosterUnwritable Condition = "roster-unwritable" // the partitions that source and orders ask for do not fit
	ConditionPlanUnwritable   Condition = "plan-unwritable"   // this leader's plans do not arrive: its session ends
	ConditionReturned         Condition = "returned"          // a member took the place of the ended session of its name
	ConditionHoldOver         Condition = "hold-over"         // every lease there may have been is over: grants may flow
	ConditionMetaTooLarge     Condition = "metadata-too-large"
	ConditionTokensUsedUp     Condition = "tokens-used-up"
	ConditionLeaseTooLong     Condition = "lease-too-long" // a member is given nothing: its lease is not like the others'
	ConditionPinIgnored       Condition = "pin-ignored"    // a partition is pinned to a member that is not here
	ConditionWritesLost       Condition = "writes-lost"    // the store has lost acknowledged writes
)

// What one member tells of.
const (
	ConditionTightLease        Condition = "tight-lease"        // the lease leaves little room for a slow store
	ConditionClocksApart       Condition = "clocks-apart"       // this machine's clocks disagree: it slept, or its time was set
	ConditionRecordUnreadable  Condition = "record-unreadable"  // the store holds a record that cannot be read
	ConditionRecordUnwritable  Condition = "record-unwritable"  // a record was not written, since nobody could read it
	ConditionPartitionsUnknown Condition = "partitions-unknown" // the source does not tell its partitions
	ConditionNotServed         Condition = "not-served"         // the source lists a partition that cannot be served
	ConditionSourceFailed      Condition = "source-failed"      // Consume returned an error
	ConditionPrepareFailed     Condition = "prepare-failed"     // so did Prepare
	ConditionUntried           Condition = "untried"            // the handler could not begin with a message: ErrUntried
	ConditionWarning           Condition = "warning"            // the store or the source warns: Warner
	ConditionBug               Condition = "bug"                // an assertion of rota itself was broken
)

// A ConditionInfo is one condition of a member's last minute.
type ConditionInfo struct {
	Code      Condition `json:"code"`
	Partition string    `json:"partition,omitempty"` // that it is about, if it is about one
	Text      string    `json:"text"`
}

func (c ConditionInfo) String() string {
	if c.Partition == "" {
		return c.Text
	}
	return c.Partition + ": " + c.Text
}

// condition tells people something; it changes nothing.
func (s *session) condition(code Condition, partition, text string) {
	c := ConditionInfo{code, partition, text}
	s.m.log.Warn(c.String(), "member", s.m.name, "condition", string(code))
	s.conditions.add(c, time.Now())
	s.m.emit(s.stamp(Event{Kind: EventCondition, Condition: code, Partition: partition, Because: text}))
}

// conditionOnce is condition for what may be found again and again: its event comes
// once, its text stays on the heartbeats for as long as it is found. What others
// can make up must not fill memory: after mostOnce texts all may be told again.
func (s *session) conditionOnce(code Condition, partition, text string) {
	c := ConditionInfo{code, partition, text}
	if s.m.toldOnce.first(c) {
		s.condition(code, partition, text)
	} else {
		s.conditions.add(c, time.Now())
	}
}

// toldOnce are the conditions that were told and need not be told again.
type toldOnce struct {
	mu  sync.Mutex
	all map[ConditionInfo]bool
}

const mostOnce = 1000

func (t *toldOnce) first(c ConditionInfo) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[c] {
		return false
	}
	if t.all == nil || len(t.all) == mostOnce {
		t.all = map[ConditionInfo]bool{}
	}
	t.all[c] = true
	return true
}

// conditions are those of the last minute: they ride on every heartbeat.
type conditions struct {
	mu  sync.Mutex
	all map[record.Condition]time.Time // when each was last told
}

// How much of it a member's record holds.
const (
	mostConditions   = 16
	longestCondition = 256
	conditionTime    = time.Minute
)

func (c *conditions) add(x ConditionInfo, now time.Time) {
	text := oneLine(x.Text)
	if text == "" {
		return
	}
	if len(text) > longestCondition {
		text = strings.ToValidUTF8(text[:longestCondition-3], "") + "…"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[record.Condition]time.Time{}
	}
	c.all[record.Condition{Code: string(x.Code), Partition: oneLine(x.Partition), Text: text}] = now
}

func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(printable, strings.ToValidUTF8(s, "?")))
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// now are the newest ones, in an order that does not change while they do not.
func (c *conditions) now(now time.Time) []record.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []record.Condition
	for x, at := range c.all {
		if now.Sub(at) > conditionTime {
			delete(c.all, x)
		} else {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b record.Condition) int { return c.all[b].Compare(c.all[a]) })
	out = out[:min(len(out), mostConditions)]
	slices.SortFunc(out, func(a, b record.Condition) int {
		return strings.Compare(a.Partition+"\x00"+a.Text+"\x00"+a.Code, b.Partition+"\x00"+b.Text+"\x00"+b.Code)
	})
	return out
}
