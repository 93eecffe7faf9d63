package lab

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/sim"
)

// table tells a person what a batch came to.
func (f *simFlags) table(r sim.Report, interrupted bool) string {
	var s sheet
	switch {
	case interrupted:
		s.line("interrupted", "after %s of %s; the figures are of those", cli.Grouped(r.Schedules), cli.Count(f.schedules, "schedule"))
	case r.Schedules < f.schedules:
		s.line("stopped", "after %s of %s: enough violations; the figures are of those", cli.Grouped(r.Schedules), cli.Count(f.schedules, "schedule"))
	}
	s.line("simulated", "%s of %s from seed %d on, %s", cli.Count(r.Schedules, "schedule"), f.size(), r.Seed, f.kinds())
	s.line("speed", "%s schedules/s, %s steps/s; %s on %s", cli.Grouped(r.SchedulesPerS), cli.Grouped(r.StepsPerS), seconds(r.Seconds), cli.Count(r.Cores, "core"))
	s.line("steps", "%s: each is one event that one member answered", cli.Grouped(r.Steps))
	if r.MinSteps >= 0 {
		s.line("shortest", "%s in one schedule; fewest faults on live members in one: %d", cli.Count(r.MinSteps, "step"), r.MinLiveFaults)
	}
	if r.Schedules > 0 {
		struck(&s, r.Faults)
		met(&s, &r.Marks)
	}
	tooLittle(&s, r.Missing)
	f.violations(&s, r.Violations)
	return s.String()
}

// struck lists the faults by kind: what struck, and what befell messages.
func struck(s *sheet, n map[string]int) {
	names := sim.FaultNames()
	s.cells("faults", names[:sim.LoseRequest], n)
	s.cells("messages", names[sim.LoseRequest:], n)
}

// met lists the situations that a batch ran into. What it did not meet counts
// too: about that its silence means little.
func met(s *sheet, m *sim.Marks) {
	label := "met"
	var not []string
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("json")
		words, known := markWords[key]
		if !known {
			words = strings.ReplaceAll(key, "_", " ")
		}
		if n := v.Field(i).Int(); n > 0 {
			s.line(label, "%9s × %s", cli.Grouped(n), words)
			label = ""
		} else {
			not = append(not, words)
		}
	}
	label = "never met"
	for _, words := range not {
		s.line(label, "%s", words)
		label = ""
	}
}

// violations lists the broken promises, each with the command that shows it.
func (f *simFlags) violations(s *sheet, all []sim.Failure) {
	fmt.Fprintf(s, "violations: %d\n", len(all))
	const most = 10
	for _, v := range all[:min(most, len(all))] {
		text, _, _ := strings.Cut(v.Text, "\n") // a bug brings its stack, the replay shows it
		fmt.Fprintf(s, "  seed %d breaks %s%s\n    %s\n    %s\n", v.Seed, v.Invariant, meaning(v.Invariant), text, f.replayCommand(v.Seed))
	}
	if more := len(all) - most; more > 0 {
		fmt.Fprintf(s, "  and %d more, which -o json lists\n", more)
	}
}

func (f *simFlags) replayCommand(seed uint64) string {
	c := fmt.Sprintf("rota sim --replay %d --members %d --partitions %d", seed, f.members, f.partitions)
	if len(f.faults.only) > 0 {
		c += " --faults " + f.faults.String()
	}
	return c
}

func (f *simFlags) size() string {
	return cli.Count(f.members, "member") + " and " + cli.Count(f.partitions, "partition")
}

func (f *simFlags) kinds() string {
	if len(f.faults.only) == 0 {
		return "all kinds of fault"
	}
	return "faults " + f.faults.String()
}

// markWords say what the fields of sim.Marks count.
var markWords = map[string]string{
	"lapses":          "a member's lease ran out and it stopped by itself",
	"lapse_in_move":   "… while partitions were changing hands",
	"leader_killed":   "the leader was killed at rest",
	"leader_settling": "the leader was killed when it had seen a change and not planned for it yet",
	"leader_writing":  "the leader was killed while its plan was on its way",
	"leader_in_move":  "the leader was killed while partitions were being taken away",
	"leader_granting": "the leader was killed while partitions were given and not started yet",
	"replanned":       "a plan came before the one before it was reached",
	"evicted":         "a member was evicted",
	"declared":        "a silent member was declared dead",
	"proven":          "a death was proven, so that nobody had to wait for the lease",
	"refused":         "a sink refused a late effect by its token",
	"unknown_applied": "a write without an answer had happened all the same",
	"gaps":            "a member's watches broke off",
	"twins":           "two processes had one name",
	"held":            "a plan was made without the second of them",
	"undrained":       "a drain was taken back while its member lived",
	"orphaned":        "a member cut off for too long ended itself",
	"fenced":          "a member learned that it had been declared dead, and ended",
	"left":            "a member left in good order",
	"store_lost":      "a member found that the store had lost acknowledged writes",
	"incarnations":    "tokens began a new series after such a loss",
	"resumed":         "a member got its lease back and went on",
	"aborts":          "a handler outlived its time, and its process ended itself",
	"collected":       "the record of a member that had ended was deleted",
	"returned":        "a member came back and took its old place",
	"holds":           "a new leader waited until every lease it could not know of was over",
	"stuck":           "a partition was granted and did not start, and the leader noticed",
	"retried":         "a source that had failed was tried again",
	"balanced":        "a plan was made for the sake of load",
	"worked_on":       "a member worked on without a lease, since the store did not answer",
	"sized":           "a leader wanted another number of members",
	"removed":         "a Scaler was asked to end a member that owned nothing",
}

// meaning is the promise behind the name of an invariant, as an aside.
func meaning(invariant string) string {
	if words, known := promises[invariant]; known {
		return " (" + words + ")"
	}
	return ""
}

var promises = map[string]string{
	"I1":    "at most one member runs a partition with a valid lease",
	"I2":    "a sink never accepts a lower token after a higher one, nor one token from two sessions",
	"I3":    "tokens of a partition grow",
	"I4":    "a free partition runs nowhere, and whoever runs one is its owner",
	"I5":    "there are no more plans than reasons for plans",
	"I6":    "eager: when something is granted nobody consumes",
	"I7":    "one start per grant and resume",
	"L1":    "after faults end, every partition is owned and runs, and the plan names the members that live",
	"busy":  "nobody does the same thing again and again",
	"alarm": "nobody ends its session over a loss that did not happen",
	"bug":   "a member broke its own assertion",
}

// sheet is lines with a label each, aligned.
type sheet struct{ strings.Builder }

func (s *sheet) line(label, format string, args ...any) {
	fmt.Fprintf(s, "%-11s "+format+"\n", append([]any{label}, args...)...)
}

// cells lines up the counts that are not zero.
func (s *sheet) cells(label string, names []string, n map[string]int) {
	const perLine = 4
	var cells []string
	for _, name := range names {
		if n[name] > 0 {
			cells = append(cells, fmt.Sprintf("%-12s %9s", name, cli.Grouped(n[name])))
		}
	}
	for row := range slices.Chunk(cells, perLine) {
		s.line(label, "%s", strings.Join(row, "   "))
		label = ""
	}
}

func seconds(s float64) string {
	if s < 60 {
		return fmt.Sprintf("%.2g s", max(s, 0.001))
	}
	return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
}
