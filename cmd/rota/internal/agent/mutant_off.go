//go:build !mutants

package agent

// Each constant takes one rule out when the build tag `mutants` turns it into a
// variable. Here they are false and cost nothing.
const (
	mutClockLate = false // W1
	mutRevive    = false // W2
	mutGoneEarly = false // W3
	mutTicksOnly = false // W4
)
