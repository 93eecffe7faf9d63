package core

import (
	"math"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// Timing holds the durations of the protocol.
type Timing struct {
	Lease     time.Duration // L: how long a heartbeat is good for
	Heartbeat time.Duration // H: how often it is renewed
	Margin    time.Duration // M_stop: how long before the end of the lease all work stops
	StopTime  time.Duration // how long a revoked partition may take to stop
	Orphan    time.Duration // how long a member without a lease tries to get one before it ends
	Grace     time.Duration // how long a partition is kept away from the member that gave it up
	Return    time.Duration // how long the rows of an ended member are reserved for its name
	Quiet     time.Duration // Q: the quiet time after an arrival
	QuietMax  time.Duration // Qmax: the longest quiet time, however many arrive
	Guard     time.Duration // the quiet time after a proven death
	Retry     time.Duration // back-off before a failed store call is retried
	Again     time.Duration // pause before a partition that was given up twice is granted again; it doubles
	Step      time.Duration // delay between two candidates for leadership
	Leave     time.Duration // how long a leaver waits for the plan to take its rows
	Stuck     time.Duration // a start that takes longer is reported as stuck
	Ask       time.Duration // how often the source is asked for its partitions
	PollPlan  time.Duration // how often the plan is read although its watch is quiet
	PollList  time.Duration // how often the members are listed although their watch is quiet
	Keep      time.Duration // how long an ended member's record is kept
}

// DefaultTiming is the timing that the documentation quotes.
func DefaultTiming() Timing { return MakeTiming(5*time.Second, 2*time.Second) }

// MakeTiming derives all durations from lease and heartbeat.
func MakeTiming(lease, heartbeat time.Duration) Timing {
	return Timing{
		Lease:     lease,
		Heartbeat: heartbeat,
		Margin:    lease / 10,
		StopTime:  30 * time.Second,
		Orphan:    30 * time.Second,
		Grace:     time.Second,
		Quiet:     100 * time.Millisecond,
		QuietMax:  2 * time.Second,
		Guard:     30 * time.Millisecond,
		Retry:     100 * time.Millisecond,
		Again:     2 * time.Second,
		Step:      100 * time.Millisecond,
		Leave:     time.Second,
		Stuck:     30 * time.Second,
		Ask:       30 * time.Second,
		PollPlan:  10 * heartbeat,
		PollList:  5 * heartbeat,
		Keep:      10 * time.Minute,
	}
}

// Forever is a duration that never ends.
const Forever time.Duration = math.MaxInt64

// W is how long a member must have been silent before it may be declared dead.
func (t Timing) W() time.Duration { return wait(t.Lease) }

// B is the longest silence that a healthy member shows.
func (t Timing) B() time.Duration { return gap(t.Heartbeat) }

// CallTime is the timeout of a store call, after which its outcome counts as
// unknown. A heartbeat that times out and its read-back fit into one lease.
func (t Timing) CallTime() time.Duration { return (t.Lease - t.Margin - t.Heartbeat) / 2 }

// wait is W: how long a record must have been seen unchanged before its session may
// be declared dead. The lease and W are measured on two clocks that may each be 1 %
// off, so W = L·(1+ρ)/(1−ρ), rounded up to the next 0.1 s.
func wait(lease time.Duration) time.Duration {
	const grain = 100 * time.Millisecond
	w := lease + lease*2/99 // (1+ρ)/(1−ρ) = 101/99
	return (w + grain - 1) / grain * grain
}

// gap is B = H + j + δ, heartbeat interval, jitter and delay: the longest silence
// that a healthy member shows.
func gap(beat time.Duration) time.Duration { return beat + beat*3/10 }

// delta is δ: the longest delay between the sending of a write and its arrival at
// an observer.
func delta(beat time.Duration) time.Duration { return beat * 15 / 100 }

// overdue is O = min(B, W − B): the silence that makes a member a suspect.
func overdue(m *record.Member) time.Duration {
	b := gap(m.Beat)
	return min(b, wait(m.Lease)-b)
}
