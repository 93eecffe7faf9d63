//go:build !linux

package clock

import "time"

var began = time.Now()

// Boot is the time since this process began: the standard library reaches no clock
// here that counts suspend. Readings of two processes cannot be compared.
func Boot() time.Duration { return time.Since(began) }

// BootID names this start of this machine; this system has no such name.
func BootID() string { return "" }

// kernelTime: there is none to be had, so the runtime's monotonic clock serves, and
// a jump between it and the wall clock counts as a lost lease.
func kernelTime() (wall time.Time, ok bool) { return time.Time{}, false }
