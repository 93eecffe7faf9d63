package rota

import (
	"fmt"
	"log/slog"
	"time"
)

// An Ownership is one partition while this member owns it. Source.Consume gets it,
// and it ends when Consume returns.
type Ownership struct{ r *run }

// endedRun is the run of messages that no member has delivered, such as those in
// tests of handlers. Its ownership has ended.
var endedRun = func() *run {
	m := &Member{log: slog.New(slog.DiscardHandler)}
	r := &run{s: &session{m: m}, stop: make(chan struct{})}
	r.lost.Store(true)
	r.begun.Store(true)
	close(r.stop)
	return r
}()

// Partition is the partition's name.
func (o Ownership) Partition() string { return o.r.name }

// Topic is the topic that the partition belongs to; empty if its source has no topics.
func (o Ownership) Topic() string { return o.r.topicName() }

// Token fences this ownership: it is higher than every former owner's.
func (o Ownership) Token() Token { return Token(o.r.token) }

// Session is this member's session. A sink that sees one token from two sessions
// must refuse the second.
func (o Ownership) Session() string { return o.r.by }

// Stop is closed when the partition is to be given up: finish the work in hand, settle
// what is done, close everything at the broker and return nil. The partition is still
// owned meanwhile.
func (o Ownership) Stop() <-chan struct{} { return o.r.stop }

// Started reports that the broker has confirmed the subscription. Until then the
// group waits for the start of the partition.
func (o Ownership) Started() { o.r.confirm() }

// Check returns ErrLost when the lease has expired or the ownership has ended. Call
// it directly before each effect: an earlier answer is stale if the process was
// stopped since.
func (o Ownership) Check() error { return o.r.look() }

// Remaining is the time until the lease expires, and zero once Check would return
// ErrLost. It is for work in another process that must end in time: read the clock
// first, then call Remaining, and add the two. If the process is stopped in between,
// the sum is too early, never too late.
func (o Ownership) Remaining() time.Duration { return o.r.remaining() }

// Settle calls f, which tells the broker that messages are done, if Check allows it.
// Otherwise it returns ErrLost.
func (o Ownership) Settle(f func() error) error {
	if err := o.r.check(); err != nil {
		o.r.trace(EventRefused, Message{}, err)
		return err
	}
	// The event has the time before the call: f may take a while, and the process may
	// be stopped meanwhile.
	var began Event
	if o.r.traced() {
		began = o.r.s.stamp(Event{Kind: EventSettled, Partition: o.r.name, Token: Token(o.r.token)})
	}
	err := f()
	if err != nil {
		return err
	}
	o.r.settled.Store(o.r.moved.Load())
	if o.r.traced() {
		o.r.s.m.trace(began)
	}
	return nil
}

// Meta is the partition's metadata as it is now: the source's, with what is ordered for
// its topic and for itself over it. The channel closes at the next change.
func (o Ownership) Meta() (Meta, <-chan struct{}) { return o.r.meta.now() }

// Progress records n units of work, for sources that do not deliver messages. Work
// resets the count of consecutive failures of Consume and its back-off, as a settled
// message does. A source that has reported some, and then nothing for Config.StallTime,
// has the condition ConditionNoProgress until it reports again; Progress(0) says that
// there was nothing to do. A source that reports none is not judged, and none is stopped.
func (o Ownership) Progress(n int) { o.r.progress(n) }

// Tell reports something odd about the partition to operators, as a condition of this
// member, once for each text. The code is for programs, such as "note-changed". Tell
// changes nothing else.
func (o Ownership) Tell(code Condition, text string) { o.r.s.conditionOnce(code, o.r.name, text) }

func (o Ownership) String() string { return fmt.Sprintf("%s@%d", o.r.name, o.r.token) }
