package main

// choose switches a mutant on in the core that this program is built with. The
// ordinary core has none; the runner builds with another version of this file.
func choose(n int) bool {
	mutant = n
	return mutant == 0
}

// mutant is the one that was asked for, for whoever looks with a debugger.
var mutant int

// watch says which mutants differing tells of.
func watch([]int) {}

// differing lists the mutants that would have made a difference since the last
// call, in a build that probes.
func differing() []int { return nil }
