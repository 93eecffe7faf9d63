// Package lab is where rota is tried and measured: the simulator, the explorer, the
// planner's experiments, real processes under the clock, and the pages of docs/ that
// tell what came of it.
package lab
