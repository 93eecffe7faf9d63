//go:build mutants

package core

import (
	"maps"
	"slices"
)

// Each variable takes one rule out. What each rule is, and who must notice that
// it is missing, is told by the scenario files and the simulator's tests.
var (
	mutGrantWithoutAck    bool // M1
	mutNoWait             bool // M2
	mutBlindPlan          bool // M3
	mutOlderPlan          bool // M4
	mutBlindBeat          bool // M5
	mutBlindDead          bool // M5b
	mutLeaseFromAnswer    bool // M6
	mutNoSelfStop         bool // M7
	mutAckEarly           bool // M8
	mutLooseAck           bool // M9
	mutEvictedIsStopped   bool // M12
	mutNoIncarnation      bool // M13
	mutNoBarrier          bool // M14
	mutNoSuspects         bool // M15
	mutReuseIDs           bool // M16
	mutOldRoster          bool // M17
	mutForgetToken        bool // M18
	mutAbsentIsDead       bool // M19
	mutTrustUnknown       bool // M20
	mutTakeName           bool // M21
	mutCreditNewest       bool // M22
	mutLeaderHangs        bool // M23
	mutReevaluate         bool // M25
	mutDropFirst          bool // M26
	mutOwnLease           bool // M27
	mutAckAnyIncarnation  bool // M28
	mutNoHold             bool // M29
	mutNoOrphan           bool // R1
	mutNoGrace            bool // R2
	mutNoReturn           bool // R3
	mutNoHeldTwins        bool // R4
	mutNoEvict            bool // R5
	mutNoStartAck         bool // R6
	mutNoDeputies         bool // R7
	mutNoQuiet            bool // R8
	mutNoGarbage          bool // R9
	mutGuardWaits         bool // R10
	mutNoGaveUp           bool // R11
	mutNoFreeze           bool // R12
	mutLeaveAtOnce        bool // R13
	mutResumeUnread       bool // R14
	mutEagerRepeats       bool // R15
	mutPlanAfterBug       bool // R16
	mutRecreateRecord     bool // R17
	mutNoPause            bool // R18
	mutWaitForLeaver      bool // R19
	mutFailingLeaderStays bool // R20
	mutDrainForever       bool // R21
	mutRevokeTakenBack    bool // R22
	mutLostRoster         bool // R23
	mutLostState          bool // R24
	mutEvictedReturns     bool // R25
	mutServerUnasked      bool // R26
	mutAbortOnce          bool // R27
	mutRosterAwaited      bool // R28
	mutHeirOfEvicted      bool // R29
	mutHoldFromBirth      bool // R30
	mutDeafLeaver         bool // R31
	mutSameIncarnation    bool // R32
	mutStartInHold        bool // R33
	mutOldGrants          bool // R34
	mutWornToken          bool // R35
	mutAnyLease           bool // R36
	mutHoldForProven      bool // R37
)

var mutants = map[string]*bool{
	"M1":  &mutGrantWithoutAck,
	"M2":  &mutNoWait,
	"M3":  &mutBlindPlan,
	"M4":  &mutOlderPlan,
	"M5":  &mutBlindBeat,
	"M5b": &mutBlindDead,
	"M6":  &mutLeaseFromAnswer,
	"M7":  &mutNoSelfStop,
	"M8":  &mutAckEarly,
	"M9":  &mutLooseAck,
	"M12": &mutEvictedIsStopped,
	"M13": &mutNoIncarnation,
	"M14": &mutNoBarrier,
	"M15": &mutNoSuspects,
	"M16": &mutReuseIDs,
	"M17": &mutOldRoster,
	"M18": &mutForgetToken,
	"M19": &mutAbsentIsDead,
	"M20": &mutTrustUnknown,
	"M21": &mutTakeName,
	"M22": &mutCreditNewest,
	"M23": &mutLeaderHangs,
	"M25": &mutReevaluate,
	"M26": &mutDropFirst,
	"M27": &mutOwnLease,
	"M28": &mutAckAnyIncarnation,
	"M29": &mutNoHold,
	"R1":  &mutNoOrphan,
	"R2":  &mutNoGrace,
	"R3":  &mutNoReturn,
	"R4":  &mutNoHeldTwins,
	"R5":  &mutNoEvict,
	"R6":  &mutNoStartAck,
	"R7":  &mutNoDeputies,
	"R8":  &mutNoQuiet,
	"R9":  &mutNoGarbage,
	"R10": &mutGuardWaits,
	"R11": &mutNoGaveUp,
	"R12": &mutNoFreeze,
	"R13": &mutLeaveAtOnce,
	"R14": &mutResumeUnread,
	"R15": &mutEagerRepeats,
	"R16": &mutPlanAfterBug,
	"R17": &mutRecreateRecord,
	"R18": &mutNoPause,
	"R19": &mutWaitForLeaver,
	"R20": &mutFailingLeaderStays,
	"R21": &mutDrainForever,
	"R22": &mutRevokeTakenBack,
	"R23": &mutLostRoster,
	"R24": &mutLostState,
	"R25": &mutEvictedReturns,
	"R26": &mutServerUnasked,
	"R27": &mutAbortOnce,
	"R28": &mutRosterAwaited,
	"R29": &mutHeirOfEvicted,
	"R30": &mutHoldFromBirth,
	"R31": &mutDeafLeaver,
	"R32": &mutSameIncarnation,
	"R33": &mutStartInHold,
	"R34": &mutOldGrants,
	"R35": &mutWornToken,
	"R36": &mutAnyLease,
	"R37": &mutHoldForProven,
}

// Mutate takes the rule with the given id out until undo is called. The
// switches are global: not for tests that run in parallel.
func Mutate(id string) (undo func(), ok bool) {
	m, ok := mutants[id]
	if !ok {
		return nil, false
	}
	*m = true
	return func() { *m = false }, true
}

// Mutants lists the ids that Mutate knows.
func Mutants() []string { return slices.Sorted(maps.Keys(mutants)) }
