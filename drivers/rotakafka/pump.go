package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/setback"
)

// A pump delivers the messages of one partition and commits its offsets.
type pump struct {
	s      *source
	own    rota.Ownership
	fence  *fence
	topic  string
	number int32
	id     [16]byte // of the topic
	cursor *cursor

	chunk    chunk          // what is being delivered
	next     int            // the first of its records that was not delivered
	buf      []rota.Message // the batch that is being delivered
	position int64          // the offset behind the last message that is done
	moved    bool           // the position did not come from a commit of our group: commit it at once
	trouble  time.Time      // since when fetches fail
	pause    time.Duration  // until the next attempt to fetch
	each     time.Duration  // recent average of the time that a message takes

	settled   int64     // the offset that is committed
	unsettled int       // messages that are done and not committed
	since     time.Time // when the first of them was done
	proven    bool      // a commit has succeeded
	underway  *commit   // nil for none
	outbox    outbox
}

// A commit is one that is under way.
type commit struct {
	at       int64
	messages int
	done     chan error
}

const (
	firstBatch = 8                     // messages delivered while commits may be refused
	maxBatch   = 64                    // messages delivered together
	batchTime  = 50 * time.Millisecond // and how long they should take
	stopTime   = 10 * time.Second      // for the last commit of an owner
	leaveTime  = time.Second           // for that of an owner that has failed
	lookTime   = 10 * time.Second      // how old the answer may be that a Kafka group has no members
)

// errOutOfRange means that the offset of a partition is not in its log, and reset=stop.
var errOutOfRange = errors.New("reset=stop")

// run delivers messages until the ownership stops; then it commits what is done. Nothing
// that was fetched needs to be finished: the next owner fetches it again.
func (p *pump) run(ctx context.Context, deliver rota.Deliver) (err error) {
	committing, cancel := context.WithCancel(ctx)
	defer p.s.pumps.add(p)()
	defer func() {
		cancel()
		if p.underway != nil {
			<-p.underway.done
		}
		p.s.fetcher.remove(p.cursor)
		p.fence.close()
	}()
	for {
		select { // a select chooses at random among ready channels, so a stop is looked for first
		case <-p.own.Stop():
			return p.finish(ctx)
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if err := p.settle(committing); err != nil {
			return err
		}
		more, err := p.fill(ctx)
		switch {
		case err != nil:
		case more:
			err = p.deliverBatch(ctx, deliver)
		default:
			err = p.await(ctx)
		}
		switch {
		case errors.Is(err, rota.ErrStop):
			return p.finish(ctx)
		case errors.Is(err, rota.ErrLost) || ctx.Err() != nil:
			return err
		case err != nil:
			p.leave(ctx)
			return err
		}
	}
}

// fill makes sure that there is a record to deliver, and tells whether there is one.
func (p *pump) fill(ctx context.Context) (bool, error) {
	for p.next >= len(p.chunk.records) {
		ch, ok, err := p.s.fetcher.pop(p.cursor)
		switch {
		case err != nil:
			return false, p.recover(ctx, err)
		case !ok:
			return false, nil
		}
		p.chunk, p.next, p.trouble = ch, 0, time.Time{}
		if len(ch.records) == 0 {
			p.done(0, ch.next)
		}
	}
	return true, nil
}

// await waits until there is something to do.
func (p *pump) await(ctx context.Context) error {
	due := time.NewTimer(p.due())
	defer due.Stop()
	var done chan error
	if p.underway != nil {
		done = p.underway.done
	}
	select {
	case <-p.cursor.ready:
	case <-p.own.Stop():
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return p.committed(err)
	case <-due.C:
	}
	return nil
}

// due is when the next commit is, or far away.
func (p *pump) due() time.Duration {
	if p.underway != nil || p.position == p.settled {
		return time.Hour
	}
	return time.Until(p.since.Add(p.s.set.every))
}

// recover goes on after a fetch has failed: at another leader, or at another offset.
func (p *pump) recover(ctx context.Context, err error) error {
	if p.trouble.IsZero() {
		p.trouble, p.pause = time.Now(), 5*time.Millisecond
	}
	if refused(err) || errors.Is(err, errUnreadable) || time.Since(p.trouble) > setback.Away {
		return err
	}
	if err := p.rest(ctx); err != nil {
		return err
	}
	if errors.Is(err, kerr.OffsetOutOfRange) {
		if err := p.reset(ctx); err != nil {
			return err
		}
	}
	t, err := p.s.locate(ctx, p.topic, p.number, time.Now())
	switch {
	case err != nil && (hopeless(err) || time.Since(p.trouble) > setback.Away):
		return err
	case err != nil:
		return nil // the cursor still has its error: next time
	case t.id != p.id:
		return fmt.Errorf("rotakafka: topic %s was deleted and made again", p.topic)
	}
	p.s.fetcher.remove(p.cursor)
	p.cursor = p.s.fetcher.add(p.topic, p.id, p.number, t.leaders[p.number], p.position)
	return nil
}

// rest waits before the next attempt to fetch.
func (p *pump) rest(ctx context.Context) error {
	timer := time.NewTimer(p.pause)
	defer timer.Stop()
	p.pause = min(2*p.pause, 500*time.Millisecond)
	select {
	case <-timer.C:
	case <-p.own.Stop(): // run looks for it
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// reset moves a partition whose offset is out of range to where it goes on.
func (p *pump) reset(ctx context.Context) error {
	at := p.position
	low, err := p.s.bound(ctx, p.topic, p.number, beginning)
	if err != nil {
		return err
	}
	high, err := p.s.bound(ctx, p.topic, p.number, end)
	if err != nil {
		return err
	}
	if at >= low && at <= high { // it is in range by now
		return nil
	}
	what := fmt.Sprintf("offset %d of %s is out of range: its messages are %d to %d", at, p.own.Partition(), low, high-1)
	if at < low {
		what += fmt.Sprintf(", so %d were deleted before they were handled", low-at)
	}
	to := low
	switch p.s.set.reset {
	case halt:
		return fmt.Errorf("rotakafka: %w: %s: commit another one for Kafka group %s, or write reset=first or reset=last", errOutOfRange, what, p.fence.group)
	case last:
		to = high
	}
	p.own.Tell("offset-out-of-range", fmt.Sprintf("%s; reset=%s goes on at %d", what, p.s.set.reset, to))
	p.chunk, p.next, p.position, p.moved = chunk{next: to}, 0, to, true
	return nil
}

// deliverBatch delivers the next records of the chunk.
func (p *pump) deliverBatch(ctx context.Context, deliver rota.Deliver) error {
	list := p.chunk.records[p.next:]
	list = list[:min(len(list), p.size())]
	p.buf = p.buf[:0]
	for _, r := range list {
		p.buf = append(p.buf, p.message(r))
	}
	begun := time.Now()
	n, err := deliver(ctx, p.buf...)
	p.learn(time.Since(begun), max(n, 1))
	if n > 0 {
		p.next += n
		p.done(n, p.behind())
	}
	switch {
	case errors.Is(err, rota.ErrDead):
		msg := p.buf[n]
		err = p.own.DeadLetter(msg, err, func(l rota.Letter) error { return p.s.storeLetter(ctx, p.own.Check, &l) })
		if err == nil {
			p.outbox.drop(int64(msg.Position))
			p.next++
			p.done(1, p.behind())
		}
	}
	return err
}

// behind is the offset behind the records that were delivered.
func (p *pump) behind() int64 {
	if p.next >= len(p.chunk.records) {
		return p.chunk.next
	}
	return p.chunk.records[p.next-1].Offset + 1
}

// size is how many messages are delivered together.
func (p *pump) size() int {
	if !p.s.trusted.Load() {
		return firstBatch
	}
	return int(min(max(batchTime/max(p.each, 1), 1), maxBatch))
}

// learn adapts the size of a batch to the time that a message takes, as a moving average.
func (p *pump) learn(took time.Duration, n int) {
	each := took / time.Duration(n)
	if p.each == 0 {
		p.each = each
	}
	p.each += (each - p.each) / 4
}

func (p *pump) message(r *kgo.Record) rota.Message {
	m := rota.Message{Key: r.Key, Value: r.Value, Time: r.Timestamp, Position: uint64(r.Offset)}
	for _, h := range r.Headers {
		if h.Key == headerID && len(h.Value) > 0 && len(h.Value) <= 256 {
			m.ID = string(h.Value)
		}
		m.Headers = append(m.Headers, rota.Header{Key: h.Key, Value: h.Value})
	}
	if m.ID == "" {
		m.ID = p.own.Partition() + "@" + strconv.FormatInt(r.Offset, 10)
	}
	return m
}

// done records that messages were handled, or dead-lettered, up to an offset.
func (p *pump) done(messages int, position int64) {
	if p.position == p.settled || p.unsettled == 0 {
		p.since = time.Now()
	}
	p.position = position
	p.unsettled += messages
}

// settle commits what is done, if that is due. A commit runs beside the handler, since one
// in a transaction takes tens of milliseconds; but not more than the window stays
// uncommitted. Until the broker has accepted a commit of this source, and after it has
// refused one, a few messages are handled at a time: otherwise an owner whose commits are
// refused would handle a whole window, and again at each attempt.
func (p *pump) settle(ctx context.Context) error {
	if u := p.underway; u != nil {
		if p.unsettled < p.s.set.window {
			select {
			case err := <-u.done:
				return p.committed(err)
			default:
				return nil
			}
		}
		if err := p.committed(<-u.done); err != nil {
			return err
		}
	}
	switch {
	case p.moved || !p.s.trusted.Load() && p.unsettled > 0:
		p.begun(ctx)
		return p.committed(<-p.underway.done)
	case p.position != p.settled && (p.unsettled >= max(p.s.set.window/2, 1) || p.due() <= 0):
		p.begun(ctx)
	}
	return nil
}

// begun begins a commit.
func (p *pump) begun(ctx context.Context) {
	u := &commit{at: p.position, messages: p.unsettled, done: make(chan error, 1)}
	p.underway = u
	go func() { u.done <- p.write(ctx, u.at) }()
}

// write commits an offset, unless the partition is lost or somebody else consumes it.
func (p *pump) write(ctx context.Context, at int64) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := p.s.alone(ctx, p.fence.group, lookTime); err != nil {
		return err
	}
	records := p.outbox.before(at)
	err := p.own.Settle(func() error { return p.fence.commit(ctx, p.topic, p.number, at, note{p.id, p.own.Token()}, records) })
	if err == nil {
		p.outbox.forget(at)
	}
	return err
}

// mark is how far the owner may go on without a commit: what handlers have produced goes
// lost with the pump, and then their messages must be handled again.
func (p *pump) mark() mark {
	if p.outbox.wasUsed() {
		return mark{p.id, p.settled}
	}
	return mark{p.id, p.position}
}

// committed records the result of the commit that was under way.
func (p *pump) committed(err error) error {
	u := p.underway
	p.underway = nil
	p.s.trusted.Store(err == nil)
	if err != nil {
		return err
	}
	p.settled, p.unsettled, p.since = u.at, p.unsettled-u.messages, time.Now()
	p.proven, p.moved = true, false
	return nil
}

// finish commits what is done and waits until the broker has confirmed it.
func (p *pump) finish(ctx context.Context) error {
	if p.underway != nil {
		if err := p.committed(<-p.underway.done); err != nil {
			return err
		}
	}
	if p.position == p.settled && !p.moved {
		return nil
	}
	err := p.write(ctx, p.position)
	if err == nil {
		p.settled = p.position
	}
	return err
}

// leave commits what is done after a failure, if that is possible soon: the partition may
// go to another member.
func (p *pump) leave(ctx context.Context) {
	brief, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if p.underway != nil {
		select {
		case err := <-p.underway.done:
			if p.committed(err) != nil {
				return
			}
		case <-brief.Done():
			return
		}
	}
	if p.position == p.settled {
		return
	}
	if err := p.write(brief, p.position); err != nil {
		p.s.set.Log.Debug("not committed", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
		return
	}
	p.settled = p.position
}
