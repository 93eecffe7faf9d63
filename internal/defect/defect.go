// Package defect is the table of defects that can be built into rota, each by
// taking one rule out, and of who must notice. "No violations" means nothing
// unless the same harness finds every one of them. The tests, `rota sim
// --mutants` and docs/evidence.md are made from this table.
package defect

import "slices"

// Layer says where a defect lives.
type Layer string

const (
	Core    Layer = "core"    // internal/core: the protocol
	Shell   Layer = "shell"   // the root package: what carries it out
	Harness Layer = "harness" // outside rota: the sink

	Watchdog Layer = "watchdog" // cmd/rota: what ends commands in time
)

// A Defect is one rule taken out.
type Defect struct {
	ID    string `json:"id"`
	Rule  string `json:"rule"` // what is wrong with it in, in a few words
	Layer Layer  `json:"layer"`
	By    []By   `json:"by"`             // who must catch it
	Test  string `json:"test,omitempty"` // the test with whole members that fails with it in
}

// By is a way to catch a defect.
type By string

const (
	Explorer  By = "explorer"  // exhaustive search of the core
	Simulator By = "simulator" // directed and random schedules
	Scenario  By = "scenario"  // a story in internal/scenario that names it
	Members   By = "members"   // whole members in a synctest bubble
)

// Must tells whether the defect must be caught this way.
func (d *Defect) Must(by By) bool { return slices.Contains(d.By, by) }

// Find returns the defect with the given id.
func Find(id string) (*Defect, bool) {
	i := slices.IndexFunc(Table, func(d Defect) bool { return d.ID == id })
	if i < 0 {
		return nil, false
	}
	return &Table[i], true
}

var (
	everyone = []By{Explorer, Simulator, Scenario}
	played   = []By{Simulator, Scenario}
	searched = []By{Explorer, Scenario}
	told     = []By{Scenario}
)

// Table lists them all: M are the defects of the design, R are rules that serve
// speed, comfort and order, whose lack breaks no invariant for certain; a
// scenario notices each.
var Table = []Defect{
	{"M1", "grant without stop-ack", Core, everyone, ""},
	{"M2", "dead before the lease is over", Core, everyone, ""},
	{"M3", "plan written without compare-and-set", Core, everyone, ""},
	{"M4", "older plan applied", Core, everyone, ""},
	{"M5", "heartbeat without compare-and-set", Core, everyone, ""},
	{"M5b", "death declared without compare-and-set", Core, everyone, ""},
	{"M6", "lease counted from the answer", Core, everyone, ""},
	{"M7", "no self-stop at the end of the lease", Core, everyone, ""},
	{"M8", "ack before the handler ended", Core, everyone, ""},
	{"M9", "ack not tied to its revoke", Core, everyone, ""},
	{"M10", "sink without token check", Harness, everyone, ""},
	{"M11", "clock that stops in suspend", Shell, []By{Explorer, Simulator, Scenario, Members}, "TestMutantClockStopsInSuspend"},
	{"M12", "evicted taken for stopped", Core, everyone, ""},
	{"M13", "no incarnation after the store lost writes", Core, everyone, ""},
	{"M14", "no eager barrier", Core, everyone, ""},
	{"M15", "plan at the first expiry, nobody asked who else is overdue", Core, everyone, ""},
	{"M16", "partition ids reused", Core, everyone, ""},
	{"M17", "plan applied with an older roster", Core, everyone, ""},
	{"M18", "free row forgets its token", Core, everyone, ""},
	{"M19", "absence taken for death", Core, everyone, ""},
	{"M20", "leader acts on a plan write of unknown outcome", Core, everyone, ""},
	{"M21", "takeover by name", Core, everyone, ""},
	{"M22", "conflict credited to the newest send", Core, everyone, ""},
	{"M23", "leader's own hung handler waits for ever", Core, everyone, ""},
	{"M24", "lease checked by a watchdog only, not before an effect", Shell, []By{Simulator, Scenario, Members}, "TestMutantEffectUnchecked"},
	{"M25", "suspects re-evaluated", Core, everyone, ""},
	{"M26", "suspect dropped before its expiry at one instant", Core, everyone, ""},
	{"M27", "own lease taken for everyone's", Core, everyone, ""},
	{"M28", "ack compared without its incarnation", Core, everyone, ""},
	{"M29", "no hold after a new incarnation", Core, everyone, ""},
	{"R1", "cut-off member never gives up", Core, told, ""},
	{"R2", "no grace after a partition was given up", Core, told, ""},
	{"R3", "no seat kept for a name that returns", Core, told, ""},
	{"R4", "twin not held", Core, told, ""},
	{"R5", "nobody is evicted", Core, told, ""},
	{"R6", "start not acknowledged", Core, told, ""},
	{"R7", "no deputies", Core, told, ""},
	{"R8", "no quiet time after arrivals", Core, told, ""},
	{"R9", "records of the dead never deleted", Core, told, ""},
	{"R10", "proof of death not believed", Core, told, ""},
	{"R11", "giving up not told", Core, played, ""},
	{"R12", "freeze ignored", Core, told, ""},
	{"R13", "leaver stops before the plan takes its partitions", Core, told, ""},
	{"R14", "resume without reading the plan", Core, told, ""},
	{"R15", "eager plans without distance", Core, played, ""},
	{"R16", "plan made again that ended a leader by a bug", Core, told, ""},
	{"R17", "deleted record written anew", Core, told, ""},
	{"R18", "pause ignored", Core, told, ""},
	{"R19", "leadership of a leaver waited for", Core, told, ""},
	{"R20", "leader whose writes fail stays", Core, told, ""},
	{"R21", "drained for ever", Core, played, ""},
	{"R22", "revoke taken back", Core, played, ""},
	{"R23", "plan whose roster the store lost waited for", Core, told, ""},
	{"R24", "eviction that the store lost not missed", Core, told, ""},
	{"R25", "evicted member that beats again believed", Core, told, ""},
	{"R26", "server of the first plan not compared", Core, searched, ""},
	{"R27", "abort that returned is the last", Core, searched, ""},
	{"R28", "plans wait for a roster that cannot be had", Core, played, ""},
	{"R29", "heir of an evicted member does not wait", Core, searched, ""},
	{"R30", "hold counted from the session's birth", Core, searched, ""},
	{"R31", "hold does not wait for a leaver that is deaf", Core, searched, ""},
	{"R32", "incarnation that the store lost begun again under its number", Core, played, ""},
	{"R33", "something is started under a hold", Core, told, ""},
	{"R34", "grants of a lost incarnation outlive the hold", Core, told, ""},
	{"R35", "tokens used up, counted from 1 again", Core, told, ""},
	{"R36", "member with an absurd lease taken", Core, told, ""},
	{"R37", "hold waits for the lease of one that is proven dead", Core, told, ""},
}

var whole = []By{Members}

// Outer lists rules that no core knows of, so that neither scenarios nor the
// simulator can miss them: S are the shell's, W the watchdog's. Each is noticed by
// the test that it names, as TestMutantShell and TestMutantWatchdog show.
var Outer = []Defect{
	{"S1", "session that comes back takes its store for new", Shell, whole, "TestARejoinedSessionIsNotFresh"},
	{"S2", "sleep not seen where no clock counts it", Shell, whole, "TestTheLeaseSeesASleepOnEverySystem"},
	{"S3", "call answered twice, unknown and late", Shell, whole, "TestALateAnswerIsNone"},
	{"S4", "after a bug, LEFT before the handlers have returned", Shell, whole, "TestAfterABugLeftMeansThatHandlersHaveReturned"},
	{"S5", "abort that returned is the last", Shell, whole, "TestAnAbortThatReturnedIsNotTheLast"},
	{"S6", "handler counted as busy after its lease was asked", Shell, whole, "TestWhoAskedForItsLeaseIsBusy"},
	{"S7", "after a bug, a lease counted from the bug", Shell, whole, "TestAfterABugAHandlerDoesNotOutliveTheLease"},
	{"W1", "clock read after the lease it is added to", Watchdog, whole, "TestAFreezeBetweenClockAndLeaseEndsCommandsEarly"},
	{"W2", "lease revives a command that is being ended", Watchdog, whole, "TestACommandThatIsBeingEndedStaysSo"},
	{"W3", "gone told before descendants are", Watchdog, whole, "TestGoneIsToldWhenNothingIsLeft"},
	{"W4", "commands ended at a tick, not at their instant", Watchdog, whole, "TestCommandsAreEndedAtTheInstant"},
}
