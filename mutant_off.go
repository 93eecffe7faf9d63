//go:build !mutants

package rota

// Each constant takes one rule out when the build tag `mutants` turns it into a
// variable. Here they are false and cost nothing.
const (
	mutClockStops = false // M11
	mutUnchecked  = false // M24

	mutFreshForLife  = false // S1
	mutSleepUnseen   = false // S2
	mutLateAnswer    = false // S3
	mutEarlyObituary = false // S4
	mutAbortOnce     = false // S5
	mutBusyLate      = false // S6
	mutWholeLease    = false // S7
)
