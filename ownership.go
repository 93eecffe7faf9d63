package rota

import (
	"fmt"
	"log/slog"
	"time"
)

// An Ownership is one partition while this member owns it. It is handed to
// Source.Consume, and good until that returns.
type Ownership struct{ r *run }

// endedRun is the run of messages that no member has delivered, as tests of handlers
// make them: an ownership that has ended.
var endedRun = func() *run {
	m := &Member{log: slog.New(slog.DiscardHandler)}
	m.ring.init()
	r := &run{s: &session{m: m}, stop: make(chan struct{})}
	r.lost.Store(true)
	r.begun.Store(true)
	close(r.stop)
	return r
}()

// Partition is the partition's name.
func (o Ownership) Partition() string { return o.r.name }

// Token fences this ownership: higher than every former owner's.
func (o Ownership) Token() Token { return Token(o.r.token) }

// Session names this start of this member. A sink that sees one token from two
// sessions refuses the second.
func (o Ownership) Session() string { return o.r.by }

// Stop is closed when the partition is to be given up: finish what was fetched,
// settle it, close what is open at the broker and return nil. There is time: the
// partition is still ours.
func (o Ownership) Stop() <-chan struct{} { return o.r.stop }

// Started says that the broker has confirmed the subscription. Until then the
// group counts the partition as not consumed yet.
func (o Ownership) Started() { o.r.confirm() }

// Check returns ErrLost when the lease is over or the ownership has ended. Ask
// directly before an effect, not a while ago: a process may have been frozen
// since.
func (o Ownership) Check() error { return o.r.check() }

// Remaining is how long the lease still lasts, zero once Check would return ErrLost.
// It is for whoever must end work in another process in time: note the clock,
// then ask, and add the two. A freeze in between makes the sum too early, never
// too late.
func (o Ownership) Remaining() time.Duration { return o.r.remaining() }

// Settle runs f, which tells the broker that messages are done, if the
// partition is still ours.
func (o Ownership) Settle(f func() error) error {
	if err := o.r.check(); err != nil {
		o.r.trace(EventRefused, Message{}, err)
		return err
	}
	// Its time is when it began: it may be on its way to the broker for a while, and
	// its process be frozen meanwhile.
	var began Event
	if o.r.traced() {
		began = o.r.s.stamp(Event{Kind: EventSettled, Partition: o.r.name, Token: Token(o.r.token)})
	}
	err := f()
	if err == nil && o.r.traced() {
		o.r.s.m.trace(began)
	}
	return err
}

// Meta is the partition's metadata as it is now; the channel closes at the next
// change.
func (o Ownership) Meta() (Meta, <-chan struct{}) { return o.r.meta.now() }

// Progress tells the watchdog that work goes on, for sources that do not
// deliver messages one by one.
func (o Ownership) Progress(n int) { o.r.progress(n) }

// Tell shows people something odd about the partition, as a condition of this
// member, once for each text. The code is for programs, such as "note-changed". It
// changes nothing.
func (o Ownership) Tell(code Condition, text string) { o.r.s.conditionOnce(code, o.r.name, text) }

func (o Ownership) String() string { return fmt.Sprintf("%s@%d", o.r.name, o.r.token) }
