// Package failover computes, from the event lines of a group's processes, how
// long partitions stay without an owner at work when members come and go. It
// starts nothing and reads no clock: whatever wrote the lines, the figures mean
// the same.
package failover

import (
	"encoding/json"
	"fmt"
)

// A Line is an event line, as far as figures need it; docs/events.md tells what
// it means.
type Line struct {
	V         int    `json:"v"`
	Boot      int64  `json:"boot_ns"`
	Event     string `json:"event"`
	Group     string `json:"group"`
	Member    string `json:"member"`
	Session   string `json:"session,omitempty"`
	Partition string `json:"partition,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	Lease     int64  `json:"lease_ns,omitempty"`
	Because   string `json:"because,omitempty"`
	PID       int    `json:"pid,omitempty"`
}

// What whoever starts and ends the processes adds to their lines. Readers of
// event lines know gone; they skip the others.
const (
	Term = "sigterm" // the member is asked to leave
	Kill = "sigkill" // its process is killed
	Gone = "gone"    // its process has ended, seen by its parent
)

// ParseLine decodes one line.
func ParseLine(b []byte) (l Line, err error) {
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("not an event line: %w", err)
	}
	if l.V != 1 {
		return l, fmt.Errorf("an event line of version %d; known is version 1", l.V)
	}
	return l, nil
}
