//go:build mutants

package rota

// Each variable takes one rule of the shell out; internal/defect says which.
var (
	mutClockStops bool // M11
	mutUnchecked  bool // M24
)
