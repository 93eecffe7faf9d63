package rota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rota-dev/rota/internal/record"
)

// Condition is the code of a state that an operator should know about. Programs
// compare codes; the sentence that comes with a code is for people and may change.
type Condition string

// Conditions of the group. A source has codes of its own: Ownership.Tell.
const (
	ConditionTwins            Condition = "twins"             // two processes have one name
	ConditionStuck            Condition = "stuck"             // a partition was granted long ago and has not started
	ConditionBlocked          Condition = "blocked"           // the last leader ended on a bug over this plan, which is left unchanged
	ConditionRosterMissing    Condition = "roster-missing"    // the store does not show the roster that the plan refers to
	ConditionRosterUnwritable Condition = "roster-unwritable" // the partitions of source and orders do not fit into a roster
	ConditionPlanUnwritable   Condition = "plan-unwritable"   // this leader cannot write its plans: its session ends
	ConditionReturned         Condition = "returned"          // a member took over from the ended session of its name
	ConditionHold             Condition = "hold"              // nothing is granted until every lease that the store may have forgotten is over
	ConditionHoldOver         Condition = "hold-over"         // every lease that the store may have forgotten is over: grants go on
	ConditionMetaTooLarge     Condition = "metadata-too-large"
	ConditionTokensUsedUp     Condition = "tokens-used-up"
	ConditionLeaseTooLong     Condition = "lease-too-long" // a member is granted nothing: its lease is much longer than the leader's
	ConditionPinIgnored       Condition = "pin-ignored"    // a partition is pinned to a member that is not in the group
	ConditionWritesLost       Condition = "writes-lost"    // the store has lost acknowledged writes
	ConditionLoadUnknown      Condition = "load-unknown"   // loads cannot be measured: partitions are placed by number, sooner or later
	ConditionLoadRefused      Condition = "load-refused"   // the source measures what cannot be
	ConditionOversize         Condition = "oversize"       // a partition asks for more than any member sustains
	ConditionOverload         Condition = "overload"       // members are overloaded, and none can take anything from them
	ConditionScalerFails      Condition = "scaler-fails"   // the Scaler cannot be asked for members, or refuses
	ConditionSizeMissed       Condition = "size-missed"    // the number of members has long not been the one that is wanted
	ConditionNeededAgain      Condition = "needed-again"   // a member was to go, and is needed after all
	ConditionNotRemoved       Condition = "not-removed"    // the Scaler did not remove a member in time: it is used again
)

// Conditions of one member.
const (
	ConditionTightLease        Condition = "tight-lease"        // the lease is short for the heartbeat: deaths at one moment may take two plans
	ConditionClocksApart       Condition = "clocks-apart"       // this machine's clocks disagree: it was suspended, or its time was set
	ConditionNoLease           Condition = "no-lease"           // the store does not answer, and work goes on without a lease: Config.OnStoreLoss
	ConditionRecordUnreadable  Condition = "record-unreadable"  // the store holds a record that cannot be decoded
	ConditionRecordUnwritable  Condition = "record-unwritable"  // a record could not be encoded and was not written
	ConditionPartitionsUnknown Condition = "partitions-unknown" // the source cannot list its partitions
	ConditionNotServed         Condition = "not-served"         // the source lists a partition that cannot be served
	ConditionNoPartitions      Condition = "no-partitions"      // the source lists no partition: the group waits for one
	ConditionSourceFailed      Condition = "source-failed"      // Consume returned an error
	ConditionPrepareFailed     Condition = "prepare-failed"     // Prepare returned an error
	ConditionUntried           Condition = "untried"            // the handler could not begin with a message: ErrUntried
	ConditionHandlerFails      Condition = "handler-fails"      // a message fails again and again; those behind it wait
	ConditionHandlerBusy       Condition = "handler-busy"       // a call of the handler has lasted longer than Config.StallTime
	ConditionSourceSilent      Condition = "source-silent"      // messages wait, and the source has delivered none for Config.StallTime
	ConditionNoProgress        Condition = "no-progress"        // a function has reported no progress for Config.StallTime
	ConditionTokenRefused      Condition = "token-refused"      // the sink refused this member's token: ErrLost of a handler
	ConditionDeadLetters       Condition = "dead-letters"       // messages were dead-lettered in this session
	ConditionWarning           Condition = "warning"            // reported by the store or the source as a Warner
	ConditionBug               Condition = "bug"                // an assertion of rota itself was broken
)

// A ConditionInfo is one condition of a member: it lasts, or was reported in the last
// minute.
type ConditionInfo struct {
	Code      Condition `json:"code"`
	Partition string    `json:"partition,omitempty"` // empty if it is not about one partition
	Text      string    `json:"text"`
}

func (c ConditionInfo) String() string {
	if c.Partition == "" {
		return c.Text
	}
	return c.Partition + ": " + c.Text
}

// condition reports a condition by log, event and heartbeat. It changes nothing
// else. While it repeats, log and event come with growing pauses, and every heartbeat
// has it.
func (s *session) condition(code Condition, partition, text string) {
	c := ConditionInfo{code, partition, text}
	s.conditions.add(c, time.Now())
	paced := c
	if code == ConditionSourceFailed {
		paced.Partition = "" // when a broker is away, all partitions fail for one reason
	}
	if times, due := s.m.repeats.found(paced); due {
		s.report(c, times)
	}
}

// report reports a condition by event and log. times is how often it was found.
func (s *session) report(c ConditionInfo, times int) {
	e := s.stamp(Event{Kind: EventCondition, Condition: c.Code, Partition: c.Partition, Because: c.Text})
	if times > 1 {
		e.Because = fmt.Sprintf("%s (%d times by now)", c.Text, times)
	}
	s.m.emit(e)
	s.m.logEvent(&e, times)
}

// conditionOnce is condition for a finding that repeats: log and event come once,
// and the heartbeats carry its text for as long as it is found. Others can make up
// such texts, so the memory for them is bounded: after mostOnce of them it is
// cleared, and they may be reported again.
func (s *session) conditionOnce(code Condition, partition, text string) {
	c := ConditionInfo{code, partition, text}
	s.conditions.add(c, time.Now())
	if s.m.reported.first(c) {
		s.report(c, 1)
	}
}

// reportedOnce are the conditions that were reported and need not be reported again.
type reportedOnce struct {
	mu  sync.Mutex
	all map[ConditionInfo]bool
}

const mostOnce = 1000

func (t *reportedOnce) first(c ConditionInfo) bool {
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

// conditions are those that last, and those of the last minute. Every heartbeat carries
// them.
type conditions struct {
	mu      sync.Mutex
	all     map[record.Condition]time.Time // when each was last reported
	lasting map[lastingKey]lasting
}

// A lasting condition is there from begin to end; its text may change.
type lasting struct {
	text  string
	since time.Time
}

type lastingKey struct {
	code      Condition
	partition string
}

// Limits of the conditions in a member's record.
const (
	mostConditions   = 16
	mostLasting      = 12 // the others are counted
	longestCondition = 256
	conditionTime    = time.Minute
)

func (c *conditions) add(x ConditionInfo, now time.Time) {
	text := shortened(x.Text)
	if text == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[record.Condition]time.Time{}
	}
	c.all[record.Condition{Code: string(x.Code), Partition: oneLine(x.Partition), Text: text}] = now
}

// end removes the conditions of one code, and tells whether there were any.
func (c *conditions) end(code Condition) (was bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		if x.Code == string(code) {
			delete(c.all, x)
			was = true
		}
	}
	return was
}

// begin makes a condition last until over is called, or changes its text.
func (c *conditions) begin(x ConditionInfo, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lasting == nil {
		c.lasting = map[lastingKey]lasting{}
	}
	c.lasting[lastingKey{x.Code, oneLine(x.Partition)}] = lasting{shortened(x.Text), since}
}

func (c *conditions) over(code Condition, partition string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lasting, lastingKey{code, oneLine(partition)})
}

func shortened(s string) string {
	text := oneLine(s)
	if len(text) > longestCondition {
		text = strings.ToValidUTF8(text[:longestCondition-3], "") + "…"
	}
	return text
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

// now are the newest conditions. Their order is stable, so that equal conditions
// make equal records.
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
	out = together(out)
	last := c.last()
	out = append(last, out[:min(len(out), mostConditions-len(last))]...)
	slices.SortFunc(out, func(a, b record.Condition) int {
		return strings.Compare(a.Partition+"\x00"+a.Text+"\x00"+a.Code, b.Partition+"\x00"+b.Text+"\x00"+b.Code)
	})
	return out
}

// mostAlike is how many conditions may differ by the partition alone; more become one.
const mostAlike = 3

// together makes one condition, with a count, of many that differ by the partition alone.
func together(all []record.Condition) []record.Condition {
	partitions := map[record.Condition][]string{}
	for _, x := range all {
		alike := record.Condition{Code: x.Code, Text: x.Text}
		partitions[alike] = append(partitions[alike], x.Partition)
	}
	var out []record.Condition
	for _, x := range all {
		alike := record.Condition{Code: x.Code, Text: x.Text}
		switch names := partitions[alike]; {
		case len(names) > mostAlike:
			slices.Sort(names)
			alike.Text = shortened(fmt.Sprintf("%d partitions, such as %s: %s", len(names), strings.Join(names[:mostAlike], ", "), x.Text))
			out = append(out, alike)
			partitions[record.Condition{Code: x.Code, Text: x.Text}] = nil
		case names != nil:
			out = append(out, x)
		}
	}
	return out
}

// withoutName replaces a partition's name in a sentence about it, so that the sentence
// is the same for all partitions that have the same trouble.
func withoutName(text, name string) string {
	var out strings.Builder
	for rest := strings.ReplaceAll(text, strconv.Quote(name), name); ; {
		i := strings.Index(rest, name)
		if i < 0 || name == "" {
			return out.String() + rest
		}
		end := i + len(name)
		if whole := !partOfName(rest[:i], true) && !partOfName(rest[end:], false); whole {
			out.WriteString(rest[:i] + "it")
		} else {
			out.WriteString(rest[:end])
		}
		rest = rest[end:]
	}
}

// partOfName tells whether a text ends, or begins, with a character of a longer name.
func partOfName(text string, ends bool) bool {
	r, _ := utf8.DecodeRuneInString(text)
	if ends {
		r, _ = utf8.DecodeLastRuneInString(text)
	}
	return text != "" && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-/.", r))
}

// last are the conditions that last, those of the group first and then the oldest. If
// there are too many, one that names no partition counts the others.
func (c *conditions) last() (out []record.Condition) {
	keys := slices.SortedFunc(maps.Keys(c.lasting), func(a, b lastingKey) int {
		return cmp.Or(cmp.Compare(min(len(a.partition), 1), min(len(b.partition), 1)), c.lasting[a].since.Compare(c.lasting[b].since),
			strings.Compare(a.partition, b.partition), strings.Compare(string(a.code), string(b.code)))
	})
	for i, k := range keys {
		if i == mostLasting {
			return append(out, record.Condition{Code: string(k.code), Text: fmt.Sprintf("%d more partitions have a condition", len(keys)-i)})
		}
		out = append(out, record.Condition{Code: string(k.code), Partition: k.partition, Text: c.lasting[k].text})
	}
	return out
}
