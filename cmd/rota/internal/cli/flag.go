package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flag values that know what they allow, so that the refusal of a wrong one can
// say it.

// Whole is a whole number from lo to hi.
func Whole[T int | uint64](v *T, lo, hi T) pflag.Value { return number[T]{v, lo, hi} }

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

// OneWord is one word of a few.
func OneWord(v *string, of ...string) pflag.Value { return choice{v, of} }

// orList joins words: a, b or c.
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

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
		return fmt.Errorf("want %s", orList(c.of))
	}
	*c.v = s
	return nil
}

// ListOf is a list of values, separated by commas. What is set replaces what was
// there.
func ListOf[T comparable](v *[]T, parse func(string) (T, error)) pflag.Value {
	return series[T]{v, false, parse}
}

// ListOrNone is a list that may be empty: the word none says so.
func ListOrNone[T comparable](v *[]T, parse func(string) (T, error)) pflag.Value {
	return series[T]{v, true, parse}
}

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

// WholeFrom reads whole numbers from lo to hi.
func WholeFrom(lo, hi int) func(string) (int, error) {
	return func(s string) (v int, err error) {
		err = number[int]{&v, lo, hi}.Set(s)
		return v, err
	}
}

// QuantityFrom reads numbers from lo to hi.
func QuantityFrom(lo, hi float64) func(string) (float64, error) {
	return func(s string) (v float64, err error) {
		err = quantity{&v, lo, hi}.Set(s)
		return v, err
	}
}

// OneOf reads one of a few names, in capitals or not.
func OneOf(names []string) func(string) (string, error) {
	return func(s string) (string, error) {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, s) })
		if i < 0 {
			return "", fmt.Errorf("want some of %s", strings.Join(names, ", "))
		}
		return names[i], nil
	}
}

// QuantityIn is a number from lo to hi.
func QuantityIn(v *float64, lo, hi float64) pflag.Value { return quantity{v, lo, hi} }

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

// CompleteList completes the last name of a list.
func CompleteList(names []string) cobra.CompletionFunc {
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

func CompleteFolder(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func Complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // no such flag: our own mistake
	}
}

// completeChoices makes a shell offer the words of every flag that takes one of a few.
func completeChoices(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(choice); ok {
			cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp)) // unless the command has its own
		}
	})
}

// Span is a duration above zero.
func Span(v *time.Duration) pflag.Value { return duration{v, false} }

// SpanOrNone is a duration that a member can do without: 0s means none at all.
func SpanOrNone(v *time.Duration) pflag.Value { return duration{v, true} }

type duration struct {
	v      *time.Duration
	atOnce bool
}

func (s duration) String() string {
	switch {
	case s.v == nil:
		return ""
	case *s.v == rota.AtOnce:
		return "0s"
	}
	return s.v.String()
}

func (s duration) Type() string { return "duration" }

func (s duration) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("want a duration such as 5s or 150ms")
	case d < 0:
		return errors.New("it cannot be negative")
	case d == 0 && !s.atOnce:
		return errors.New("it cannot be zero")
	case d == 0:
		d = rota.AtOnce
	}
	*s.v = d
	return nil
}

// EachFlag visits the flags of a command and of all commands below it.
func EachFlag(c *cobra.Command, visit func(*pflag.Flag)) {
	c.LocalFlags().VisitAll(visit)
	for _, sub := range c.Commands() {
		EachFlag(sub, visit)
	}
}
