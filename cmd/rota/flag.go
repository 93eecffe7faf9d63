package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// Flag values that know what they allow, so that the refusal of a wrong one can
// say it.

// number is a whole number from lo to hi.
type number[T int | uint64] struct {
	v      *T
	lo, hi T
}

func (n number[T]) String() string { // cobra also asks an empty one
	if n.v == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*n.v), 10)
}

func (n number[T]) Type() string { return "number" }

func (n number[T]) Set(s string) error {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v < uint64(n.lo) || v > uint64(n.hi) {
		if n.endless() {
			return fmt.Errorf("want a whole number, at least %d", n.lo)
		}
		return fmt.Errorf("want a whole number from %d to %d", n.lo, n.hi)
	}
	*n.v = T(v)
	return nil
}

func (n number[T]) endless() bool { return uint64(n.hi) == math.MaxInt }

// choice is one word of a few.
type choice struct {
	v  *string
	of []string
}

func (c choice) String() string {
	if c.v == nil {
		return ""
	}
	return *c.v
}

func (c choice) Type() string { return strings.Join(c.of, "|") }

func (c choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("want %s", strings.Join(c.of, " or "))
	}
	*c.v = s
	return nil
}

// series is a list of values, separated by commas. What is set replaces what was
// there. If it may be empty, the word none says so.
type series[T comparable] struct {
	v     *[]T
	empty bool
	parse func(string) (T, error)
}

func (s series[T]) String() string {
	if s.v == nil {
		return ""
	}
	var out []string
	for _, v := range *s.v {
		out = append(out, fmt.Sprint(v))
	}
	if s.empty && len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ",")
}

func (s series[T]) Type() string { return "list" }

func (s series[T]) Set(text string) error {
	var out []T
	if s.empty && text == "none" {
		*s.v = nil
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		v, err := s.parse(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%q: %w", word, err)
		}
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	*s.v = out
	return nil
}

// wholeFrom reads whole numbers from lo to hi.
func wholeFrom(lo, hi int) func(string) (int, error) {
	return func(s string) (v int, err error) {
		err = number[int]{&v, lo, hi}.Set(s)
		return v, err
	}
}

// quantityFrom reads numbers from lo to hi.
func quantityFrom(lo, hi float64) func(string) (float64, error) {
	return func(s string) (v float64, err error) {
		err = quantity{&v, lo, hi}.Set(s)
		return v, err
	}
}

// oneOf reads one of a few names, in capitals or not.
func oneOf(names []string) func(string) (string, error) {
	return func(s string) (string, error) {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, s) })
		if i < 0 {
			return "", fmt.Errorf("want some of %s", strings.Join(names, ", "))
		}
		return names[i], nil
	}
}

// quantity is a number from lo to hi.
type quantity struct {
	v      *float64
	lo, hi float64
}

func (q quantity) String() string {
	if q.v == nil {
		return ""
	}
	return strconv.FormatFloat(*q.v, 'g', -1, 64)
}

func (q quantity) Type() string { return "number" }

func (q quantity) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= q.lo && v <= q.hi) {
		return fmt.Errorf("want a number from %g to %g", q.lo, q.hi)
	}
	*q.v = v
	return nil
}

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
	return usagef("--faults %q: this is noise on messages only; add at least one of %s",
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

// completeList completes the last name of a list.
func completeList(names []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		have := typed[:strings.LastIndex(typed, ",")+1]
		var lists []string
		for _, name := range names {
			if strings.HasPrefix(have+name, typed) && !slices.Contains(strings.Split(have, ","), name) {
				lists = append(lists, have+name)
			}
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// sizeFlags are the size of a simulated group.
func sizeFlags(cmd *cobra.Command, members, partitions *int) {
	cmd.Flags().Var(number[int]{members, 1, 64}, "members", "members of the group, 1 to 64")
	cmd.Flags().Var(number[int]{partitions, 1, 1024}, "partitions", "partitions they share, 1 to 1024")
}

func completeFolder(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
