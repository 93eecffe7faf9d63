// Package ops is what operators do: look at a group, give it orders, judge its history
// and mend its records.
package ops
