package rule

// The rules, by layer and by age.
const (
	None Rule = iota // no rule: nothing is taken out

	StopAck
	DeadAfterTheLease
	PlanIsCompareAndSet
	NoOlderPlan
	BeatIsCompareAndSet
	DeathIsCompareAndSet
	LeaseFromSending
	SelfStop
	AckAfterStop
	AckBelongsToItsRevoke
	SinkChecksTokens
	ClockCountsSuspend
	EvictedIsNotStopped
	IncarnationAfterLoss
	EagerBarrier
	WaitForSuspects
	OneNameOneID
	RosterBeforePlan
	TokensGrow
	AbsenceIsNotDeath
	KnownWritesOnly
	ANameProvesNothing
	CreditWhatWasFound
	LeaderStopsInTime
	CheckBeforeEveryEffect
	SuspectsOnce
	ExpiryBeforeDrop
	LeaseOfThatRecord
	AckOfThisIncarnation
	HoldAfterLoss

	OrphanEndsItself
	Grace
	Return
	TwinWaits
	EvictAfterStopTime
	StartAck
	DeputiesWatchEverybody
	QuietAfterArrivals
	OldRecordsAreDeleted
	ProofEndsTheWait
	GivingUpIsTold
	FreezeMovesNothing
	LeaverWorksOn
	ResumeReadsFirst
	EagerDistance
	BugDoesNotSpread
	DeletedStaysDeleted
	PausedRunsNowhere
	LeavingLeaderLeadsOn
	FailingLeaderEnds
	StopInTime
	RevokeIsFinal
	LostRosterIsNoticed
	LostEvictionIsNoticed
	NoWayBackFromEviction
	ServerOfTheFirstPlan
	AbortAgain
	PlansWithoutAListing
	EvictedHeirWaits
	HoldCountsFromTheClaim
	HoldWaitsForTheDeafLeaver
	IncarnationBeginsOnce
	NothingStartsInAHold
	GrantedAnewAfterAHold
	UsedUpTokensBeginAnew
	LeaseAtMostFourfold
	HoldSkipsTheProvenDead
	OrdersArePolled
	LastLeaderFreesLeavers
	FailureFollowsThePartition
	BackOffAcrossGrants
	LookingEarnsTime
	SlowStoreIsNotQuiet
	LoadPlansWait
	NoLoadPlanWithoutAMove
	UnmeasuredMovesNothing
	CoolDown
	FailingTakesNoLoad
	ContinueNeedsSilence
	ContinueEndsWithTheRecord
	Quarantine
	AccusedApart
	RunningWellAbsolves
	SurvivorAbsolves
	DeafnessIsNotSilence
	MoreFollowMany
	SlowToJoin
	RemovedWhenEmpty
	ChosenStillCounts
	ChoiceOutlivesTheLeader
	BackAfterAnAnswer
	StayerIsUsedAgain
	SizeHasABand
	SizeCoolsDown
	NoMoreMembersThanPartitions
	HotPartitionTakesTheSpare

	RejoinedSessionIsNotFresh
	SleepIsSeen
	OneAnswerPerCall
	LeftMeansReturned
	ShellAbortsAgain
	BusyBeforeAsking
	BugExtendsNoLease

	ClockBeforeLease
	EndingIsFinal
	GoneWithDescendants
	EndedAtTheInstant
)

var (
	everyone = []By{Explorer, Simulator, Scenario}
	played   = []By{Simulator, Scenario}
	searched = []By{Explorer, Scenario}
	told     = []By{Scenario}
	whole    = []By{Members}
)

// Book has a page for each rule. Old numbers: M are the defects of the design, whose
// lack breaks an invariant; R are rules whose lack breaks none for certain, but a
// scenario; S are the shell's and W the watchdog's alone, each with the test that it
// names.
var Book = [...]Entry{
	StopAck: {
		Name:    "stop-ack",
		Says:    "A revoked partition is free only when its owner has confirmed that it stopped, or has ended.",
		Without: "grant without stop-ack",
		Serves:  I4, Layer: Core, By: everyone, Old: "M1",
	},
	DeadAfterTheLease: {
		Name:    "dead-after-the-lease",
		Says:    "A silent member is declared dead only when the last lease that it can have has run out.",
		Without: "dead before the lease is over",
		Serves:  I4, Layer: Core, By: everyone, Old: "M2",
	},
	PlanIsCompareAndSet: {
		Name:    "plan-is-compare-and-set",
		Says:    "A plan is written only over the version that it was made from.",
		Without: "plan written without compare-and-set",
		Serves:  I3, Layer: Core, By: everyone, Old: "M3",
	},
	NoOlderPlan: {
		Name:    "no-older-plan",
		Says:    "A plan that is older than the one applied is ignored.",
		Without: "older plan applied",
		Serves:  I1, Layer: Core, By: everyone, Old: "M4",
	},
	BeatIsCompareAndSet: {
		Name:    "beat-is-compare-and-set",
		Says:    "A heartbeat is written only over the last version of its sender.",
		Without: "heartbeat without compare-and-set",
		Serves:  I4, Layer: Core, By: everyone, Old: "M5",
	},
	DeathIsCompareAndSet: {
		Name:    "death-is-compare-and-set",
		Says:    "A member is declared dead only over the very version that was seen to be silent.",
		Without: "death declared without compare-and-set",
		Serves:  I4, Layer: Core, By: everyone, Old: "M5b",
	},
	LeaseFromSending: {
		Name:    "lease-from-sending",
		Says:    "A lease counts from the instant before its heartbeat was sent, never from the answer.",
		Without: "lease counted from the answer",
		Serves:  I4, Layer: Core, By: everyone, Old: "M6",
	},
	SelfStop: {
		Name:    "self-stop",
		Says:    "A member whose lease is not renewed stops everything before the lease ends.",
		Without: "no self-stop at the end of the lease",
		Serves:  I1, Layer: Core, By: everyone, Old: "M7",
	},
	AckAfterStop: {
		Name:    "ack-after-stop",
		Says:    "A stop is acknowledged only after the handler has returned.",
		Without: "ack before the handler ended",
		Serves:  I4, Layer: Core, By: everyone, Old: "M8",
	},
	AckBelongsToItsRevoke: {
		Name:    "ack-belongs-to-its-revoke",
		Says:    "An acknowledgement counts only if it is at least as new as the revoke.",
		Without: "ack not tied to its revoke",
		Serves:  I4, Layer: Core, By: everyone, Old: "M9",
	},
	SinkChecksTokens: {
		Name:    "sink-checks-tokens",
		Says:    "A sink refuses every token that is lower than one it has accepted, and an equal one of another session.",
		Without: "sink without token check",
		Serves:  I2, Layer: Harness, By: everyone, Old: "M10",
	},
	ClockCountsSuspend: {
		Name:    "clock-counts-suspend",
		Says:    "The clock of a lease counts the time that the machine sleeps.",
		Without: "clock that stops in suspend",
		Serves:  I4, Layer: Shell, By: []By{Explorer, Simulator, Scenario, Members}, Test: "TestMutantClockStopsInSuspend", Old: "M11",
	},
	EvictedIsNotStopped: {
		Name:    "evicted-is-not-stopped",
		Says:    "An evicted member keeps its partitions until its lease has run out.",
		Without: "evicted taken for stopped",
		Serves:  I1, Layer: Core, By: everyone, Old: "M12",
	},
	IncarnationAfterLoss: {
		Name:    "incarnation-after-loss",
		Says:    "When the store has lost an acknowledged write, every session ends and the plan gets a new incarnation.",
		Without: "no incarnation after the store lost writes",
		Serves:  I1, Layer: Core, By: everyone, Old: "M13",
	},
	EagerBarrier: {
		Name:    "eager-barrier",
		Says:    "An eager plan grants nothing while anything still runs.",
		Without: "no eager barrier",
		Serves:  I6, Layer: Core, By: everyone, Old: "M14",
	},
	WaitForSuspects: {
		Name:    "wait-for-suspects",
		Says:    "After a death the plan waits for the members that are overdue at that instant.",
		Without: "plan at the first expiry, nobody asked who else is overdue",
		Serves:  I5, Layer: Core, By: everyone, Old: "M15",
	},
	OneNameOneID: {
		Name:    "one-name-one-id",
		Says:    "A partition keeps its ID for ever, and no other partition ever gets it.",
		Without: "partition ids reused",
		Serves:  I4, Layer: Core, By: everyone, Old: "M16",
	},
	RosterBeforePlan: {
		Name:    "roster-before-plan",
		Says:    "A plan is applied only with a roster that is at least as new as the plan's.",
		Without: "plan applied with an older roster",
		Serves:  I4, Layer: Core, By: everyone, Old: "M17",
	},
	TokensGrow: {
		Name:    "tokens-grow",
		Says:    "A free row keeps its token, so that the next grant has a higher one.",
		Without: "free row forgets its token",
		Serves:  I3, Layer: Core, By: everyone, Old: "M18",
	},
	AbsenceIsNotDeath: {
		Name:    "absence-is-not-death",
		Says:    "A record that a listing lacks frees nothing: its owner is asked for by name.",
		Without: "absence taken for death",
		Serves:  I4, Layer: Core, By: everyone, Old: "M19",
	},
	KnownWritesOnly: {
		Name:    "known-writes-only",
		Says:    "A leader acts only on a plan that is known to be in the store.",
		Without: "leader acts on a plan write of unknown outcome",
		Serves:  I4, Layer: Core, By: everyone, Old: "M20",
	},
	ANameProvesNothing: {
		Name:    "a-name-proves-nothing",
		Says:    "A session takes over nothing from another of its name before that one has ended.",
		Without: "takeover by name",
		Serves:  I4, Layer: Core, By: everyone, Old: "M21",
	},
	CreditWhatWasFound: {
		Name:    "credit-what-was-found",
		Says:    "A lease that is read back counts from the sending of the heartbeat that was found.",
		Without: "conflict credited to the newest send",
		Serves:  I4, Layer: Core, By: everyone, Old: "M22",
	},
	LeaderStopsInTime: {
		Name:    "leader-stops-in-time",
		Says:    "The leader's own handlers have to stop in the same time as everybody's.",
		Without: "leader's own hung handler waits for ever",
		Serves:  L1, Layer: Core, By: everyone, Old: "M23",
	},
	CheckBeforeEveryEffect: {
		Name:    "check-before-every-effect",
		Says:    "The lease is asked directly before every effect.",
		Without: "lease checked by a watchdog only, not before an effect",
		Serves:  I1, Layer: Shell, By: []By{Simulator, Scenario, Members}, Test: "TestMutantEffectUnchecked", Old: "M24",
	},
	SuspectsOnce: {
		Name:    "suspects-once",
		Says:    "The members that are overdue are noted once per death, and none is added later.",
		Without: "suspects re-evaluated",
		Serves:  L1, Layer: Core, By: everyone, Old: "M25",
	},
	ExpiryBeforeDrop: {
		Name:    "expiry-before-drop",
		Says:    "A suspect that expires at this instant is declared dead before it can be dropped.",
		Without: "suspect dropped before its expiry at one instant",
		Serves:  I5, Layer: Core, By: everyone, Old: "M26",
	},
	LeaseOfThatRecord: {
		Name:    "lease-of-that-record",
		Says:    "A member is waited for as long as its own record says, not as long as the observer's lease is.",
		Without: "own lease taken for everyone's",
		Serves:  I1, Layer: Core, By: everyone, Old: "M27",
	},
	AckOfThisIncarnation: {
		Name:    "ack-of-this-incarnation",
		Says:    "An acknowledgement counts only for the incarnation that it names.",
		Without: "ack compared without its incarnation",
		Serves:  I1, Layer: Core, By: everyone, Old: "M28",
	},
	HoldAfterLoss: {
		Name:    "hold-after-loss",
		Says:    "After a loss nothing is granted until every old lease has run out; an empty store may be a loss, too.",
		Without: "no hold after a new incarnation",
		Serves:  I1, Layer: Core, By: everyone, Old: "M29",
	},
	OrphanEndsItself: {
		Name:    "orphan-ends-itself",
		Says:    "A member that has had no lease for the orphan time ends its session.",
		Without: "cut-off member never gives up",
		Serves:  Order, Layer: Core, By: told, Old: "R1",
	},
	Grace: {
		Name:    "grace",
		Says:    "A partition that was given up goes to somebody else for a while, if there is anybody.",
		Without: "no grace after a partition was given up",
		Serves:  Speed, Layer: Core, By: told, Old: "R2",
	},
	Return: {
		Name:    "return",
		Says:    "The partitions of a member that may return are kept for its name for a while.",
		Without: "no seat kept for a name that returns",
		Serves:  Comfort, Layer: Core, By: told, Old: "R3",
	},
	TwinWaits: {
		Name:    "twin-waits",
		Says:    "A second session of a name waits until the first has ended, or is seen to beat later.",
		Without: "twin not held",
		Serves:  Order, Layer: Core, By: told, Old: "R4",
	},
	EvictAfterStopTime: {
		Name:    "evict-after-stop-time",
		Says:    "A member that does not stop a revoked partition in time is evicted.",
		Without: "nobody is evicted",
		Serves:  L1, Layer: Core, By: told, Old: "R5",
	},
	StartAck: {
		Name:    "start-ack",
		Says:    "A grant is complete only when its owner has confirmed the start.",
		Without: "start not acknowledged",
		Serves:  Order, Layer: Core, By: told, Old: "R6",
	},
	DeputiesWatchEverybody: {
		Name:    "deputies-watch-everybody",
		Says:    "The two members after the leader in line watch everybody.",
		Without: "no deputies",
		Serves:  Speed, Layer: Core, By: told, Old: "R7",
	},
	QuietAfterArrivals: {
		Name:    "quiet-after-arrivals",
		Says:    "An arrival is followed by a short quiet time before the next plan.",
		Without: "no quiet time after arrivals",
		Serves:  Order, Layer: Core, By: told, Old: "R8",
	},
	OldRecordsAreDeleted: {
		Name:    "old-records-are-deleted",
		Says:    "The record of an ended session is deleted when nothing names it any more.",
		Without: "records of the dead never deleted",
		Serves:  Order, Layer: Core, By: told, Old: "R9",
	},
	ProofEndsTheWait: {
		Name:    "proof-ends-the-wait",
		Says:    "A death that the kernel has proved is not waited for.",
		Without: "proof of death not believed",
		Serves:  Speed, Layer: Core, By: told, Old: "R10",
	},
	GivingUpIsTold: {
		Name:    "giving-up-is-told",
		Says:    "A partition that is given up is reported with its token, so that it can be granted anew.",
		Without: "giving up not told",
		Serves:  I7, Layer: Core, By: played, Old: "R11",
	},
	FreezeMovesNothing: {
		Name:    "freeze-moves-nothing",
		Says:    "Under a freeze no partition moves that has an owner.",
		Without: "freeze ignored",
		Serves:  Order, Layer: Core, By: told, Old: "R12",
	},
	LeaverWorksOn: {
		Name:    "leaver-works-on",
		Says:    "A leaver works on until the plan has taken its partitions.",
		Without: "leaver stops before the plan takes its partitions",
		Serves:  Speed, Layer: Core, By: told, Old: "R13",
	},
	ResumeReadsFirst: {
		Name:    "resume-reads-first",
		Says:    "A member whose lease is back reads the plan before it starts anything.",
		Without: "resume without reading the plan",
		Serves:  Order, Layer: Core, By: told, Old: "R14",
	},
	EagerDistance: {
		Name:    "eager-distance",
		Says:    "An eager plan keeps a distance of one lease from the one before.",
		Without: "eager plans without distance",
		Serves:  I5, Layer: Core, By: played, Old: "R15",
	},
	BugDoesNotSpread: {
		Name:    "bug-does-not-spread",
		Says:    "A plan over which a leader ended by a bug is not made again until something changes.",
		Without: "plan made again that ended a leader by a bug",
		Serves:  Order, Layer: Core, By: told, Old: "R16",
	},
	DeletedStaysDeleted: {
		Name:    "deleted-stays-deleted",
		Says:    "A session whose record was deleted ends, and never writes the record anew.",
		Without: "deleted record written anew",
		Serves:  Order, Layer: Core, By: told, Old: "R17",
	},
	PausedRunsNowhere: {
		Name:    "paused-runs-nowhere",
		Says:    "A paused partition is granted to nobody.",
		Without: "pause ignored",
		Serves:  Order, Layer: Core, By: told, Old: "R18",
	},
	LeavingLeaderLeadsOn: {
		Name:    "leaving-leader-leads-on",
		Says:    "A leader that is leaving leads until what its plan moves has moved.",
		Without: "leaver does not lead",
		Serves:  Speed, Layer: Core, By: told, Old: "R19",
	},
	FailingLeaderEnds: {
		Name:    "failing-leader-ends",
		Says:    "A leader whose plans cannot be written for W ends its session.",
		Without: "leader whose writes fail stays",
		Serves:  L1, Layer: Core, By: told, Old: "R20",
	},
	StopInTime: {
		Name:    "stop-in-time",
		Says:    "A handler that does not return within the stop time costs the process.",
		Without: "drained for ever",
		Serves:  L1, Layer: Core, By: played, Old: "R21",
	},
	RevokeIsFinal: {
		Name:    "revoke-is-final",
		Says:    "A revoke is never taken back.",
		Without: "revoke taken back",
		Serves:  I3, Layer: Core, By: played, Old: "R22",
	},
	LostRosterIsNoticed: {
		Name:    "lost-roster-is-noticed",
		Says:    "A roster that is older than the plan's proves that the store lost the newer one.",
		Without: "plan whose roster the store lost waited for",
		Serves:  L1, Layer: Core, By: told, Old: "R23",
	},
	LostEvictionIsNoticed: {
		Name:    "lost-eviction-is-noticed",
		Says:    "A record that is read back in an earlier state of its life proves that the store lost a write.",
		Without: "eviction that the store lost not missed",
		Serves:  Order, Layer: Core, By: told, Old: "R24",
	},
	NoWayBackFromEviction: {
		Name:    "no-way-back-from-eviction",
		Says:    "An evicted member that beats again proves that the store lost the eviction.",
		Without: "evicted member that beats again believed",
		Serves:  L1, Layer: Core, By: told, Old: "R25",
	},
	ServerOfTheFirstPlan: {
		Name:    "server-of-the-first-plan",
		Says:    "A session compares the store's server with the first plan that it reads.",
		Without: "server of the first plan not compared",
		Serves:  I1, Layer: Core, By: searched, Old: "R26",
	},
	AbortAgain: {
		Name:    "abort-again",
		Says:    "An abort that has returned is repeated as long as anything overstays.",
		Without: "abort that returned is the last",
		Serves:  I1, Layer: Core, By: searched, Old: "R27",
	},
	PlansWithoutAListing: {
		Name:    "plans-without-a-listing",
		Says:    "A plan waits for a newer roster no longer than a heartbeat.",
		Without: "plans wait for a roster that cannot be had",
		Serves:  L1, Layer: Core, By: played, Old: "R28",
	},
	EvictedHeirWaits: {
		Name:    "evicted-heir-waits",
		Says:    "The heir of an evicted member waits for that member's lease like anybody else.",
		Without: "heir of an evicted member does not wait",
		Serves:  I1, Layer: Core, By: searched, Old: "R29",
	},
	HoldCountsFromTheClaim: {
		Name:    "hold-counts-from-the-claim",
		Says:    "A hold counts from the claim of the leader that waits.",
		Without: "hold counted from the session's birth",
		Serves:  I1, Layer: Core, By: searched, Old: "R30",
	},
	HoldWaitsForTheDeafLeaver: {
		Name:    "hold-waits-for-the-deaf-leaver",
		Says:    "A hold waits for every session of another incarnation, also for one that is leaving.",
		Without: "hold does not wait for a leaver that is deaf",
		Serves:  I1, Layer: Core, By: searched, Old: "R31",
	},
	IncarnationBeginsOnce: {
		Name:    "incarnation-begins-once",
		Says:    "A new incarnation has a number that none before it had, lost ones included.",
		Without: "incarnation that the store lost begun again under its number",
		Serves:  I3, Layer: Core, By: played, Old: "R32",
	},
	NothingStartsInAHold: {
		Name:    "nothing-starts-in-a-hold",
		Says:    "Nothing is started under a hold.",
		Without: "something is started under a hold",
		Serves:  I1, Layer: Core, By: told, Old: "R33",
	},
	GrantedAnewAfterAHold: {
		Name:    "granted-anew-after-a-hold",
		Says:    "When a hold ends, every row is granted anew.",
		Without: "grants of a lost incarnation outlive the hold",
		Serves:  I3, Layer: Core, By: told, Old: "R34",
	},
	UsedUpTokensBeginAnew: {
		Name:    "used-up-tokens-begin-anew",
		Says:    "When the tokens of an incarnation are used up, a new incarnation begins.",
		Without: "tokens used up, counted from 1 again",
		Serves:  I3, Layer: Core, By: told, Old: "R35",
	},
	LeaseAtMostFourfold: {
		Name:    "lease-at-most-fourfold",
		Says:    "A leader takes no newcomer whose lease is more than four times its own.",
		Without: "member with an absurd lease taken",
		Serves:  Speed, Layer: Core, By: told, Old: "R36",
	},
	HoldSkipsTheProvenDead: {
		Name:    "hold-skips-the-proven-dead",
		Says:    "A hold does not wait for the lease of a member that is proven dead.",
		Without: "hold waits for the lease of one that is proven dead",
		Serves:  Speed, Layer: Core, By: told, Old: "R37",
	},
	OrdersArePolled: {
		Name:    "orders-are-polled",
		Says:    "A leader reads the orders from time to time, although their watch is quiet.",
		Without: "order missed by a watch waits for the next one",
		Serves:  Order, Layer: Core, By: told, Old: "R38",
	},
	LastLeaderFreesLeavers: {
		Name:    "last-leader-frees-leavers",
		Says:    "When everybody leaves, the leader first makes the plan that the others wait for.",
		Without: "leavers wait for a plan that nobody makes",
		Serves:  Speed, Layer: Core, By: told, Old: "R39",
	},
	FailureFollowsThePartition: {
		Name:    "failure-follows-the-partition",
		Says:    "A partition that is given up twice in a row for the same reason stays where it is.",
		Without: "partition that fails everywhere moved for ever",
		Serves:  Order, Layer: Core, By: told, Old: "R40",
	},
	BackOffAcrossGrants: {
		Name:    "back-off-across-grants",
		Says:    "A partition that is given up again and again is granted after growing pauses.",
		Without: "partition that fails granted again at once",
		Serves:  Order, Layer: Core, By: told, Old: "R41",
	},
	LookingEarnsTime: {
		Name:    "looking-earns-time",
		Says:    "A function that looked at its lease before it acted, and was refused, has the time that stopping may take.",
		Without: "freeze ends the process of a function that looks",
		Serves:  Comfort, Layer: Core, By: told, Old: "R42",
	},
	SlowStoreIsNotQuiet: {
		Name:    "slow-store-is-not-quiet",
		Says:    "While the store answers slowly, silence ends no burst of arrivals, nor, for a while, one of members that leave.",
		Without: "silence of a slow store taken for the end of a burst",
		Serves:  I5, Layer: Core, By: told, Old: "R43",
	},
	LoadPlansWait: {
		Name:    "load-plans-wait",
		Says:    "A plan for the sake of load waits until nothing of the last plan is under way.",
		Without: "plan for load in the middle of hand-overs",
		Serves:  Comfort, Layer: Core, By: told, Old: "R44",
	},
	NoLoadPlanWithoutAMove: {
		Name:    "no-load-plan-without-a-move",
		Says:    "A plan for the sake of load is made only if it moves something.",
		Without: "plans for load that move nothing",
		Serves:  I5, Layer: Core, By: told, Old: "R45",
	},
	UnmeasuredMovesNothing: {
		Name:    "unmeasured-moves-nothing",
		Says:    "A leader that has not measured yet moves nothing for the sake of balance.",
		Without: "packed partitions spread by a new leader",
		Serves:  Comfort, Layer: Core, By: told, Old: "R46",
	},
	CoolDown: {
		Name:    "cool-down",
		Says:    "A partition that has just moved is moved again for the sake of load only if no other can be.",
		Without: "partition that wanders with its speed",
		Serves:  Comfort, Layer: Core, By: told, Old: "R47",
	},
	FailingTakesNoLoad: {
		Name:    "failing-takes-no-load",
		Says:    "A member that has just given a partition up takes none that runs well elsewhere.",
		Without: "member whose source fails looks idle and attracts load",
		Serves:  Comfort, Layer: Core, By: told, Old: "R48",
	},
	ContinueNeedsSilence: {
		Name:    "continue-needs-silence",
		Says:    "A member works on without a lease only if the store did not answer its last call.",
		Without: "frozen process works on when it wakes",
		Serves:  Order, Layer: Core, By: told, Old: "R49",
	},
	ContinueEndsWithTheRecord: {
		Name:    "continue-ends-with-the-record",
		Says:    "A member that works on without a lease ends when it reads that its session has ended.",
		Without: "member works on although it has read that it is dead",
		Serves:  Order, Layer: Core, By: told, Old: "R50",
	},
	Quarantine: {
		Name:    "quarantine",
		Says:    "A partition that has killed several owners under more than one name, and more than any other, is granted to nobody.",
		Without: "message that kills goes round for ever",
		Serves:  Order, Layer: Core, By: told, Old: "R51",
	},
	AccusedApart: {
		Name:    "accused-apart",
		Says:    "Partitions whose owners died twice in a row are placed on different members.",
		Without: "partitions that died together stay together",
		Serves:  Order, Layer: Core, By: told, Old: "R52",
	},
	RunningWellAbsolves: {
		Name:    "running-well-absolves",
		Says:    "A partition that has run well for a minute is accused no more.",
		Without: "deaths of months added up",
		Serves:  Order, Layer: Core, By: told, Old: "R53",
	},
	SurvivorAbsolves: {
		Name:    "survivor-absolves",
		Says:    "A partition is not accused of the death of a process that is back under another session.",
		Without: "cut-off members counted as killed",
		Serves:  Order, Layer: Core, By: told, Old: "R63",
	},
	DeafnessIsNotSilence: {
		Name:    "deafness-is-not-silence",
		Says:    "A member whose lease ran out counts the silence of others anew from when its lease is back.",
		Without: "first one back declares all others dead",
		Serves:  Comfort, Layer: Core, By: told, Old: "R64",
	},
	MoreFollowMany: {
		Name:    "more-follow-many",
		Says:    "After many arrivals the quiet time is four times as long, and after many that leave twice.",
		Without: "pause in a large burst taken for its end",
		Serves:  I5, Layer: Core, By: told, Old: "R65",
	},
	SlowToJoin: {
		Name:    "slow-to-join",
		Says:    "After a member that took long to join, the quiet time is four times as long, up to six quiet times.",
		Without: "few who were quicker taken for a whole burst",
		Serves:  I5, Layer: Core, By: told, Old: "R66",
	},
	RemovedWhenEmpty: {
		Name:    "removed-when-empty",
		Says:    "The Scaler is asked to remove a member only when it owns nothing by the plan in the store.",
		Without: "member removed while it owns something",
		Serves:  Order, Layer: Core, By: told, Old: "R54",
	},
	ChosenStillCounts: {
		Name:    "chosen-still-counts",
		Says:    "A member that is not to be removed yet counts among the members that are wanted.",
		Without: "platform ends somebody at random",
		Serves:  Order, Layer: Core, By: told, Old: "R55",
	},
	ChoiceOutlivesTheLeader: {
		Name:    "choice-outlives-the-leader",
		Says:    "A new leader goes on with the members that its predecessor has chosen.",
		Without: "two members go instead of one",
		Serves:  Comfort, Layer: Core, By: told, Old: "R56",
	},
	BackAfterAnAnswer: {
		Name:    "back-after-an-answer",
		Says:    "A member that the Scaler may be removing is used again only after a call that does not name it, or much later.",
		Without: "member used again while it is being removed",
		Serves:  Order, Layer: Core, By: told, Old: "R57",
	},
	StayerIsUsedAgain: {
		Name:    "stayer-is-used-again",
		Says:    "A member that the Scaler does not remove in time is used again.",
		Without: "member that stays has nothing to do for ever",
		Serves:  Order, Layer: Core, By: told, Old: "R58",
	},
	SizeHasABand: {
		Name:    "size-has-a-band",
		Says:    "The group shrinks only if the load would fit with some more.",
		Without: "members removed and started again at a load that wavers",
		Serves:  Comfort, Layer: Core, By: told, Old: "R59",
	},
	SizeCoolsDown: {
		Name:    "size-cools-down",
		Says:    "The group shrinks only some time after its size last changed.",
		Without: "members removed after every wave of load",
		Serves:  Comfort, Layer: Core, By: told, Old: "R60",
	},
	NoMoreMembersThanPartitions: {
		Name:    "no-more-members-than-partitions",
		Says:    "The group grows no larger than its partitions are many.",
		Without: "members started that have nothing to do",
		Serves:  Order, Layer: Core, By: told, Old: "R61",
	},
	HotPartitionTakesTheSpare: {
		Name:    "hot-partition-takes-the-spare",
		Says:    "A partition that is more than any member can take starts no member: the one it has to itself is a spare one.",
		Without: "member started that cannot help",
		Serves:  Comfort, Layer: Core, By: told, Old: "R62",
	},
	RejoinedSessionIsNotFresh: {
		Name:    "rejoined-session-is-not-fresh",
		Says:    "Only the first session of a process takes the store for new.",
		Without: "session that comes back takes its store for new",
		Serves:  I1, Layer: Shell, By: whole, Test: "TestARejoinedSessionIsNotFresh", Old: "S1",
	},
	SleepIsSeen: {
		Name:    "sleep-is-seen",
		Says:    "A sleep is noticed before every effect, also where no clock counts suspend.",
		Without: "sleep not seen where no clock counts it",
		Serves:  I1, Layer: Shell, By: whole, Test: "TestTheLeaseSeesASleepOnEverySystem", Old: "S2",
	},
	OneAnswerPerCall: {
		Name:    "one-answer-per-call",
		Says:    "A store call is answered once.",
		Without: "call answered twice, unknown and late",
		Serves:  Order, Layer: Shell, By: whole, Test: "TestALateAnswerIsNone", Old: "S3",
	},
	LeftMeansReturned: {
		Name:    "left-means-returned",
		Says:    "After a bug, LEFT is written only when every handler has returned.",
		Without: "after a bug, LEFT before the handlers have returned",
		Serves:  I4, Layer: Shell, By: whole, Test: "TestAfterABugLeftMeansThatHandlersHaveReturned", Old: "S4",
	},
	ShellAbortsAgain: {
		Name:    "shell-aborts-again",
		Says:    "The shell ends every run that overstays, and looks again after an abort that returned.",
		Without: "abort that returned is the last",
		Serves:  I1, Layer: Shell, By: whole, Test: "TestAnAbortThatReturnedIsNotTheLast", Old: "S5",
	},
	BusyBeforeAsking: {
		Name:    "busy-before-asking",
		Says:    "A delivery counts as busy before it asks for the lease.",
		Without: "handler counted as busy after its lease was asked",
		Serves:  I1, Layer: Shell, By: whole, Test: "TestWhoAskedForItsLeaseIsBusy", Old: "S6",
	},
	BugExtendsNoLease: {
		Name:    "bug-extends-no-lease",
		Says:    "After a bug, handlers have what remains of the lease and no more.",
		Without: "after a bug, a lease counted from the bug",
		Serves:  I1, Layer: Shell, By: whole, Test: "TestAfterABugAHandlerDoesNotOutliveTheLease", Old: "S7",
	},
	ClockBeforeLease: {
		Name:    "clock-before-lease",
		Says:    "The clock is read before the remaining lease that is added to it.",
		Without: "clock read after the lease it is added to",
		Serves:  I1, Layer: Watchdog, By: whole, Test: "TestAFreezeBetweenClockAndLeaseEndsCommandsEarly", Old: "W1",
	},
	EndingIsFinal: {
		Name:    "ending-is-final",
		Says:    "A command that is being ended stays so, whatever lease arrives.",
		Without: "lease revives a command that is being ended",
		Serves:  I1, Layer: Watchdog, By: whole, Test: "TestACommandThatIsBeingEndedStaysSo", Old: "W2",
	},
	GoneWithDescendants: {
		Name:    "gone-with-descendants",
		Says:    "A command is gone only when all of its descendants are.",
		Without: "gone told before descendants are",
		Serves:  I4, Layer: Watchdog, By: whole, Test: "TestGoneIsToldWhenNothingIsLeft", Old: "W3",
	},
	EndedAtTheInstant: {
		Name:    "ended-at-the-instant",
		Says:    "A command is ended at the instant at which its time is over.",
		Without: "commands ended at a tick, not at their instant",
		Serves:  I1, Layer: Watchdog, By: whole, Test: "TestCommandsAreEndedAtTheInstant", Old: "W4",
	},
}
