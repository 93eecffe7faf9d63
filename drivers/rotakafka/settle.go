package rotakafka

import (
	"context"
	"sync"
	"time"
)

// A settler commits the offsets of one partition, beside the pump that delivers its messages: a
// transaction takes tens of milliseconds, and a message may take minutes. What is done is
// committed when its time has come, or when the pump asks for it. When the partition is to stop, all
// of the last commit but its end is done while the last message is being handled, in the hope that
// this will end well: otherwise another offset takes the place of that one.
type settler struct {
	every   time.Duration   // how long what is done may stay uncommitted
	phase   time.Duration   // the moment in each of these times at which this partition commits
	most    time.Duration   // what a commit may take
	window  int             // messages that may be uncommitted
	stop    <-chan struct{} // closed when the partition is to stop
	shutOut func(ctx context.Context) error
	stage   func(ctx context.Context, at int64, last bool) error
	write   func(ctx context.Context, at int64, last bool) error

	mu        sync.Mutex
	changed   chan struct{} // closed with the next change
	begun     time.Time
	position  int64     // the offset behind the last message that is done
	coming    int64     // the offset behind the message that is being handled, if that is known
	moved     bool      // the position did not come from a commit of our group: commit it at once
	unsettled int       // messages that are done and not committed
	since     time.Time // when the first of them was done
	settled   int64     // the offset that is committed
	flying    int       // messages in the commit that is under way
	underway  bool
	hurry     bool // the pump waits for a commit
	closing   closing
	proven    bool // a commit has succeeded
	over      chan struct{}
	err       error // why it has ended
}

// closing is how a settler ends.
type closing int

const (
	open     closing = iota
	leaving          // what is done is committed
	stopping         // and the offset is said to be this owner's last
)

// change changes the settler and wakes those who wait.
func (s *settler) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.wake()
}

// wake wakes those who wait. The caller holds the lock.
func (s *settler) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// A start is where a partition begins.
type start struct {
	position int64
	settled  int64 // the offset that is committed
	moved    bool  // commit the position at once
}

func (s *settler) begin(from start) {
	s.changed, s.over = make(chan struct{}), make(chan struct{})
	s.position, s.settled, s.moved, s.begun, s.since = from.position, from.settled, from.moved, time.Now(), time.Now()
}

// done records that messages were handled, or dead-lettered, up to an offset.
func (s *settler) done(messages int, position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty() {
		s.since = time.Now()
		s.wake()
	}
	s.position = position
	s.unsettled += messages
}

// handling records that messages are being handled, of which the last is before an offset. If there
// are several, a stop may come between them.
func (s *settler) handling(messages int, before int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming = 0
	if messages == 1 {
		s.coming = before
	}
	if s.asked() {
		s.wake()
	}
}

// move goes on at another offset, which is committed at once.
func (s *settler) move(to int64) { s.change(func() { s.position, s.moved = to, true }) }

// dirty tells whether there is something to commit. The caller holds the lock.
func (s *settler) dirty() bool { return s.moved || s.position != s.settled }

// pace waits while too much is not committed, and returns why commits have failed. One that is
// careful waits for each.
func (s *settler) pace(ctx context.Context, careful bool) error {
	for {
		s.mu.Lock()
		wait, changed, err := s.moved || careful && s.unsettled > 0 || s.unsettled >= s.window, s.changed, s.err
		if err == nil && !s.underway && !s.hurry && (wait || s.unsettled >= max(s.window/2, 1)) {
			s.hurry = true
			s.wake()
			changed = s.changed
		}
		s.mu.Unlock()
		if err != nil || !wait {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run commits until it fails, or until it was closed and everything is committed.
func (s *settler) run(ctx context.Context) {
	err := s.commitAll(ctx)
	s.change(func() { s.err = err })
	close(s.over)
}

func (s *settler) commitAll(ctx context.Context) (err error) {
	for shut, staged, pending := false, false, false; err == nil; {
		v := s.view(shut)
		switch {
		case !shut && (v.dirty && (v.now || v.calm) || v.soon):
			shut, err = true, s.within(ctx, s.shutOut)
		case v.dirty && v.now, v.closing && pending: // what was staged is ended, or the next owner would have to
			err, pending = s.commit(ctx), false
		case v.closing:
			return nil
		case v.soon && !staged:
			staged, pending = true, true
			s.within(ctx, func(ctx context.Context) error { return s.stage(ctx, v.at, v.last) }) // if it fails, the commit does all of it, and tells
		default:
			err = await(ctx, v.changed, v.stop, v.wait)
		}
	}
	return err
}

// A view is what a settler decides by.
type view struct {
	dirty   bool // there is something to commit
	now     bool // at once
	soon    bool // the last commit comes when the message in hand has ended
	calm    bool // partitions that move together have moved
	closing bool

	at   int64 // the offset that may be staged
	last bool  // it will be the last

	wait          time.Duration // until something is due
	changed, stop <-chan struct{}
}

// view looks. A former owner that must be shut out before the first message has been shut out by
// then; others can wait until partitions that move together have moved.
func (s *settler) view(shut bool) view {
	asked := s.asked()
	s.mu.Lock()
	defer s.mu.Unlock()
	due, calm := time.Until(s.due(s.since)), time.Until(s.begun.Add(s.every/10+s.phase/5))
	v := view{dirty: s.dirty(), calm: calm <= 0, closing: s.closing != open, at: s.position, last: s.coming > s.position, wait: due, changed: s.changed, stop: s.stop}
	v.now = v.closing || s.hurry || s.moved || due <= 0
	v.soon = asked && (v.dirty || v.last) && !v.closing
	if v.last {
		v.at = s.coming
	}
	switch {
	case !v.dirty:
		v.wait = time.Hour
	case !shut:
		v.wait = min(due, calm)
	}
	if asked {
		v.stop = nil
	}
	return v
}

// due is when what was done at a time is to be committed. Partitions that were started together would
// else commit together, for ever, and keep the broker from answering anything else meanwhile.
func (s *settler) due(done time.Time) time.Time {
	return done.Add(s.every - time.Duration(done.Add(-s.phase).UnixNano())%s.every)
}

// asked tells whether the partition is to stop.
func (s *settler) asked() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// await waits for a change or a stop, but not beyond a time.
func await(ctx context.Context, changed, stop <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
	case <-stop:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// commit commits what is done.
func (s *settler) commit(ctx context.Context) error {
	var at int64
	var last bool
	begun := time.Now()
	s.change(func() {
		at, last = s.position, s.closing == stopping
		s.flying, s.underway, s.hurry = s.unsettled, true, false
	})
	err := s.within(ctx, func(ctx context.Context) error { return s.write(ctx, at, last) })
	s.change(func() {
		s.underway = false
		if err == nil {
			s.settled, s.unsettled, s.since = at, s.unsettled-s.flying, begun
			s.proven, s.moved = true, s.moved && at != s.position
		}
	})
	return err
}

func (s *settler) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.most)
	defer cancel()
	return f(ctx)
}

// close commits what is done and ends. It returns why that failed, or ctx's error.
func (s *settler) close(ctx context.Context, how closing) error {
	s.change(func() { s.closing = how })
	select {
	case <-s.over:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
