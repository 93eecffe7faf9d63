//go:build !mutants

package core

// Each constant takes one rule out when the build tag `mutants` turns it into a
// variable. Here they are false and cost nothing.
const (
	mutGrantWithoutAck    = false // M1
	mutNoWait             = false // M2
	mutBlindPlan          = false // M3
	mutOlderPlan          = false // M4
	mutBlindBeat          = false // M5
	mutBlindDead          = false // M5b
	mutLeaseFromAnswer    = false // M6
	mutNoSelfStop         = false // M7
	mutAckEarly           = false // M8
	mutLooseAck           = false // M9
	mutEvictedIsStopped   = false // M12
	mutNoIncarnation      = false // M13
	mutNoBarrier          = false // M14
	mutNoSuspects         = false // M15
	mutReuseIDs           = false // M16
	mutOldRoster          = false // M17
	mutForgetToken        = false // M18
	mutAbsentIsDead       = false // M19
	mutTrustUnknown       = false // M20
	mutTakeName           = false // M21
	mutCreditNewest       = false // M22
	mutLeaderHangs        = false // M23
	mutReevaluate         = false // M25
	mutDropFirst          = false // M26
	mutOwnLease           = false // M27
	mutAckAnyIncarnation  = false // M28
	mutNoHold             = false // M29
	mutNoOrphan           = false // R1
	mutNoGrace            = false // R2
	mutNoReturn           = false // R3
	mutNoHeldTwins        = false // R4
	mutNoEvict            = false // R5
	mutNoStartAck         = false // R6
	mutNoDeputies         = false // R7
	mutNoQuiet            = false // R8
	mutNoGarbage          = false // R9
	mutGuardWaits         = false // R10
	mutNoGaveUp           = false // R11
	mutNoFreeze           = false // R12
	mutLeaveAtOnce        = false // R13
	mutResumeUnread       = false // R14
	mutEagerRepeats       = false // R15
	mutPlanAfterBug       = false // R16
	mutRecreateRecord     = false // R17
	mutNoPause            = false // R18
	mutWaitForLeaver      = false // R19
	mutFailingLeaderStays = false // R20
	mutDrainForever       = false // R21
	mutRevokeTakenBack    = false // R22
	mutLostRoster         = false // R23
	mutLostState          = false // R24
	mutEvictedReturns     = false // R25
	mutServerUnasked      = false // R26
	mutAbortOnce          = false // R27
	mutRosterAwaited      = false // R28
	mutHeirOfEvicted      = false // R29
	mutHoldFromBirth      = false // R30
	mutDeafLeaver         = false // R31
	mutSameIncarnation    = false // R32
	mutStartInHold        = false // R33
	mutOldGrants          = false // R34
	mutWornToken          = false // R35
	mutAnyLease           = false // R36
	mutHoldForProven      = false // R37
)

// Mutate takes the rule with the given id out, where the build allows it.
func Mutate(id string) (undo func(), ok bool) { return nil, false }
