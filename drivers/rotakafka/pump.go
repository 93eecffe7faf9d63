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

	chunk   chunk          // what is being delivered
	next    int            // the first of its records that was not delivered
	buf     []rota.Message // the batch that is being delivered
	trouble time.Time      // since when fetches fail
	pause   time.Duration  // until the next attempt to fetch
	each    time.Duration  // recent average of the time that a message takes
	settler settler
	outbox  outbox
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
	go p.settler.run(committing)
	defer func() {
		cancel()
		<-p.settler.over
		p.s.fetcher.remove(p.cursor)
		p.fence.close()
	}()
	for {
		select { // a select chooses at random among ready channels, so a stop is looked for first
		case <-p.own.Stop():
			return p.settler.close(ctx, stopping)
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if err := p.settler.pace(ctx, !p.s.trusted.Load()); err != nil {
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
			return p.settler.close(ctx, stopping)
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
			p.settler.done(0, ch.next)
		}
	}
	return true, nil
}

// await waits until there is something to do.
func (p *pump) await(ctx context.Context) error {
	select {
	case <-p.cursor.ready:
	case <-p.own.Stop():
	case <-p.settler.over: // run looks why
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
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
	p.cursor = p.s.fetcher.add(p.topic, p.id, p.number, t.leaders[p.number], p.settler.position, chunk{})
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
	at := p.settler.position
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
	p.chunk, p.next = chunk{next: to}, 0
	p.settler.move(to)
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
	p.settler.handling(len(list), p.behind(p.next+len(list)))
	n, err := deliver(ctx, p.buf...)
	p.learn(time.Since(begun), max(n, 1))
	if n > 0 {
		p.next += n
		p.settler.done(n, p.behind(p.next))
	}
	switch {
	case errors.Is(err, rota.ErrDead):
		msg := p.buf[n]
		err = p.own.DeadLetter(msg, err, func(l rota.Letter) error { return p.s.storeLetter(ctx, p.own.Check, &l) })
		if err == nil {
			p.outbox.drop(int64(msg.Position))
			p.next++
			p.settler.done(1, p.behind(p.next))
		}
	}
	return err
}

// behind is the offset behind the first n records of the chunk.
func (p *pump) behind(n int) int64 {
	if n >= len(p.chunk.records) {
		return p.chunk.next
	}
	return p.chunk.records[n-1].Offset + 1
}

// size is how many messages are delivered together. The first by itself tells how long one takes.
func (p *pump) size() int {
	switch {
	case p.each == 0:
		return 1
	case !p.s.trusted.Load():
		return firstBatch
	}
	return int(min(max(batchTime/p.each, 1), maxBatch))
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

// shutOut shuts all former owners of the partition out, unless that was done before.
func (p *pump) shutOut(ctx context.Context) error { return p.trust(p.fence.shutOut(ctx, p.own)) }

// stage opens the transaction of a commit and makes an offset a part of it. If that is what is to be
// committed in the end, the transaction has only to be ended; another offset takes its place.
func (p *pump) stage(ctx context.Context, at int64, last bool) error {
	if p.fence.id == "" || p.outbox.wasUsed() {
		return nil
	}
	err := p.allowed(ctx)
	if err == nil {
		err = p.own.Check()
	}
	if err == nil {
		err = p.fence.addOffset(ctx, p.topic, p.number, at, note{p.id, p.own.Token(), last})
	}
	return err
}

// write commits an offset, and says so if it is this owner's last.
func (p *pump) write(ctx context.Context, at int64, last bool) error {
	err := p.allowed(ctx)
	records := p.outbox.before(at)
	if err == nil {
		n := note{p.id, p.own.Token(), last && p.fence.id != ""}
		err = p.own.Settle(func() error { return p.fence.commit(ctx, p.topic, p.number, at, n, records) })
	}
	if err == nil {
		p.outbox.forget(at)
		p.s.trusted.Store(true)
	}
	return p.trust(err)
}

// allowed returns an error if somebody else consumes the topic for the group.
func (p *pump) allowed(ctx context.Context) error { return p.s.alone(ctx, p.fence.group, lookTime) }

// trust returns an error of a commit, and lets few messages be handled at a time after it.
func (p *pump) trust(err error) error {
	if err != nil {
		p.s.trusted.Store(false)
	}
	return err
}

// mark is how far the owner may go on without a commit: what handlers have produced goes
// lost with the pump, and then their messages must be handled again.
func (p *pump) mark() mark {
	if p.outbox.wasUsed() {
		return mark{p.id, p.settler.settled}
	}
	return mark{p.id, p.settler.position}
}

// leave commits what is done after a failure, if that is possible soon: the partition may
// go to another member.
func (p *pump) leave(ctx context.Context) {
	brief, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := p.settler.close(brief, leaving); err != nil {
		p.s.set.Log.Debug("not committed", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
	}
}
