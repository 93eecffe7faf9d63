//go:build mutants

package rota

// Each variable takes one rule of the shell out; internal/defect says which.
var (
	mutClockStops bool // M11
	mutUnchecked  bool // M24

	mutFreshForLife  bool // S1
	mutSleepUnseen   bool // S2
	mutLateAnswer    bool // S3
	mutEarlyObituary bool // S4
	mutAbortOnce     bool // S5
	mutBusyLate      bool // S6
	mutWholeLease    bool // S7
)

var mutants = map[string]*bool{
	"M11": &mutClockStops, "M24": &mutUnchecked,
	"S1": &mutFreshForLife, "S2": &mutSleepUnseen, "S3": &mutLateAnswer, "S4": &mutEarlyObituary, "S5": &mutAbortOnce, "S6": &mutBusyLate, "S7": &mutWholeLease,
}

// Mutate takes a rule of the shell out until undo is called.
func Mutate(id string) (undo func(), ok bool) {
	m, ok := mutants[id]
	if !ok {
		return nil, false
	}
	*m = true
	return func() { *m = false }, true
}
