package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// faults is a list of kinds of fault, separated by commas. None means all.
type faults struct{ only []sim.Fault }

func (f *faults) String() string {
	names := make([]string, len(f.only))
	for i, k := range f.only {
		names[i] = k.String()
	}
	return strings.Join(names, ",")
}

func (f *faults) Type() string { return "kinds" }

func (f *faults) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		k, err := sim.ParseFault(strings.TrimSpace(name))
		if err != nil {
			return fmt.Errorf("no fault is called %q; known are %s", name, strings.Join(sim.FaultNames(), ", "))
		}
		if !slices.Contains(f.only, k) {
			f.only = append(f.only, k)
		}
	}
	return nil
}

// check refuses a list of noise alone: noise spoils messages all along, but a
// schedule also needs something that strikes.
func (f *faults) check() error {
	strikes := func(k sim.Fault) bool { return k < sim.LoseRequest }
	if len(f.only) == 0 || slices.ContainsFunc(f.only, strikes) {
		return nil
	}
	return cli.Usagef("--faults %q: this is noise on messages only; add at least one of %s",
		f, strings.Join(sim.FaultNames()[:sim.LoseRequest], ", "))
}

// faultHelp lists the kinds of fault and what they mean.
func faultHelp() string {
	lines := make([]string, 0, len(sim.FaultNames()))
	for _, name := range sim.FaultNames() {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%-13s %s", name, faultWords[name])))
	}
	return strings.Join(lines, "\n")
}

var faultWords = map[string]string{
	"crash":        "a process is gone at once",
	"crash-leader": "the leader's process",
	"crash-two":    "two at one instant",
	"pause":        "a process is frozen for a while (SIGSTOP)",
	"suspend":      "a whole machine sleeps",
	"cut":          "a member and the store cannot reach each other",
	"cut-out":      "its requests do not arrive",
	"cut-in":       "answers and watches do not reach it",
	"stall":        "the store answers nobody",
	"roll-plan":    "the store loses its newest plans",
	"roll-all":     "the store is restored from an old backup",
	"failover":     "another server takes over, without the newest writes",
	"outsider":     "a process starts while it is cut off",
	"slow":         "handlers take long to stop",
	"hung":         "handlers do not stop when asked",
	"stubborn":     "nor when cancelled",
	"source-fails": "the source cannot start a partition",
	"depart":       "a member leaves in good order",
	"twin":         "a second process starts under the same name",
	"order":        "an operator pauses, drains, pins, bans, freezes …",
	"gap":          "watches break off and begin anew",
	"jump":         "a host's clocks disagree",
	"prove":        "a process dies and its death is proven",
	"bad-listing":  "the source lists no partitions, or too few",
	"lose-request": "noise, not to be named alone: requests get lost",
	"lose-answer":  "noise: answers get lost",
	"repeat":       "noise: messages arrive twice",
	"late":         "noise: watches show things late",
	"drop-watch":   "noise: watches miss something",
	"late-effect":  "noise: an effect reaches its sink late",
	"slow-net":     "noise: the network is slow at times",
	"slow-start":   "noise: the source takes its time to confirm a start",
}

// sizeFlags are the size of a simulated group.
func sizeFlags(cmd *cobra.Command, members, partitions *int) {
	cmd.Flags().Var(cli.Whole(members, 1, 64), "members", "members of the group, 1 to 64")
	cmd.Flags().Var(cli.Whole(partitions, 1, 1024), "partitions", "partitions they share, 1 to 1024")
}
