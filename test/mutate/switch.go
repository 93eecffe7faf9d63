package main

// choose switches a mutant on in the core that this program is built with. The
// ordinary core has none; the runner builds with another version of this file.
func choose(n int) bool { return n == 0 }

// watch says which mutants differing tells of.
func watch([]int) {}

// differing lists the mutants that would have made a difference since the last
// call, in a build that probes.
func differing() []int { return nil }
