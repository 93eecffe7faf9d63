package rotanats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

// A pump fetches messages of one partition, delivers and settles them.
type pump struct {
	s     *source
	own   rota.Ownership
	claim *claim
	nc    *nats.Conn
	now   *life
	sub   *nats.Subscription
	in    chan *nats.Msg // what was fetched
	buf   []rota.Message // of the batch in hand
	acks  []string       // where to settle each of buf
	id    []byte         // room to spell out a message's ID

	q      question      // the newest
	wanted int           // asked for and not arrived
	window int           // how many to have fetched or asked for
	each   time.Duration // what a message takes, lately
	large  bool          // the next message is larger than a question may bring
	ending bool          // nothing more is asked for
	last   string        // where the newest settled message was settled
	astray time.Time     // since when the broker says that it has delivered more than has come
}

// Timing of a pump.
const (
	// What was fetched is finished before a stop, so it must not take long: twice
	// this, with what is in hand and what has come behind it.
	finishTime = 20 * time.Millisecond
	firstAsk   = 8  // before it is known what a message takes
	batchMost  = 64 // delivered and settled at once
	stopTime   = 5 * time.Second
	astrayTime = 200 * time.Millisecond // less than between two signs of life
)

// mostBytes is how much one question may bring. By number alone, 256 messages of a
// megabyte would be in memory for each partition. Two questions may be open, and what
// a third has brought be in hand.
const mostBytes = 16 << 20

// A question is how long the broker keeps one, and how often it shows meanwhile
// that it does. The first is a short one: a consumer that was just made in a
// cluster may not be heard of everywhere, and then it is lost.
type question struct{ keep, pulse time.Duration }

var (
	firstQuestion = question{2 * time.Second, 300 * time.Millisecond}
	laterQuestion = question{30 * time.Second, 5 * time.Second}
)

// silences is how often in a row a question may be lost.
const silences = 3

var (
	errBroken  = errors.New("rotanats: the broker has lost track of what it delivered")
	errSilence = errors.New("rotanats: the broker has forgotten what it was asked for")
)

func (s *source) newPump(ctx context.Context, c *claim, own rota.Ownership) (*pump, error) {
	nc, now, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	p := &pump{s: s, own: own, claim: c, nc: nc, now: now, q: firstQuestion, window: min(firstAsk, s.set.Prefetch)}
	if c.Each > 0 {
		p.learn(c.Each, 1)
	}
	p.in = make(chan *nats.Msg, 2*s.set.Prefetch+64) // room for all that can be asked for, and what is said about it
	if p.sub, err = nc.ChanSubscribe(nc.NewInbox(), p.in); err != nil {
		return nil, fmt.Errorf("rotanats: %v: %w", s.set, err)
	}
	if err := p.ask(); err != nil {
		p.sub.Unsubscribe()
		return nil, err
	}
	return p, nil
}

// ask keeps the window filled. It asks for half of it at a time, at least.
func (p *pump) ask() error {
	have := p.wanted + len(p.in)
	if p.ending || have > p.window/2 {
		return nil
	}
	n := p.window - have
	ask := map[string]int64{"batch": int64(n), "expires": int64(p.q.keep), "idle_heartbeat": int64(p.q.pulse), "max_bytes": mostBytes}
	if p.large {
		n = 1
		ask["batch"] = 1
		delete(ask, "max_bytes")
	}
	q, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	subject := p.s.api("CONSUMER.MSG.NEXT." + p.s.set.Stream + "." + p.claim.Consumer)
	if err := p.nc.PublishRequest(subject, p.sub.Subject, q); err != nil {
		return fmt.Errorf("rotanats: ask for messages of %s: %w", p.own.Partition(), err)
	}
	p.wanted += n
	return nil
}

// run delivers until it is told to stop; then it finishes what was fetched and
// leaves the consumer to the next owner.
func (p *pump) run(ctx context.Context, deliver rota.Deliver) error {
	defer p.sub.Unsubscribe()
	pulse, silent := time.NewTimer(2*p.q.pulse), 0
	defer pulse.Stop()
	for {
		// First of all, so that a stop is not one among many that are ready.
		select {
		case <-p.own.Stop():
			return p.stop(ctx, deliver)
		default:
		}
		select {
		case msg := <-p.in:
			p.q, silent = laterQuestion, 0
			pulse.Reset(2 * p.q.pulse)
			if err := p.batch(msg); err != nil {
				return err
			}
			if err := p.ask(); err != nil { // more arrives while these are handled
				return err
			}
			if err := p.hand(ctx, deliver); err != nil {
				return p.ended(err)
			}
		case <-p.own.Stop():
			return p.stop(ctx, deliver)
		case <-ctx.Done():
			return ctx.Err()
		case <-p.now.Done():
			return errGone
		case <-pulse.C:
			if silent++; silent == silences {
				return errSilence
			}
			p.wanted = 0
			if err := p.ask(); err != nil {
				return err
			}
			pulse.Reset(2 * p.q.pulse)
		}
	}
}

// ended: a handler that gives up its partition ends this in good order, too.
func (p *pump) ended(err error) error {
	if errors.Is(err, rota.ErrStop) {
		return nil // what is left unsettled makes the next owner replace the consumer
	}
	return err
}

// stop: the broker sends nothing more, what it has sent is dealt with, and if
// nothing is open the consumer is released.
func (p *pump) stop(ctx context.Context, deliver rota.Deliver) error {
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	p.ending = true
	if err := p.sub.Drain(); err != nil {
		return errGone
	}
	if err := p.nc.FlushWithContext(brief); err != nil {
		return errGone
	}
	for len(p.in) > 0 { // after the flush nothing comes behind it
		if err := p.batch(<-p.in); err != nil {
			return err
		}
		if err := p.hand(ctx, deliver); err != nil {
			return p.ended(err)
		}
	}
	return p.release(brief)
}

// release lets the next owner use the consumer. Here the last word about messages
// and the word that we are gone may cross: should the former be lost, the next
// owner's first settlement covers all before it. Of a work queue it does not, and
// there the next owner asks the broker whether something is open.
func (p *pump) release(ctx context.Context) error {
	select {
	case p.s.door <- struct{}{}:
		defer func() { <-p.s.door }()
	case <-ctx.Done():
		return p.calm(ctx.Err())
	}
	settled := make(chan error, 1)
	go func() { settled <- p.confirm(ctx) }()
	q := p.claim.post
	q.Token, q.Released, q.Former, q.Each = p.own.Token(), true, "", p.each
	if p.claim.all {
		q.Next = p.claim.next
	}
	err := p.s.record(ctx, p.s.memos, p.own, p.claim.key, q, &p.claim.memo)
	return p.calm(errors.Join(<-settled, err))
}

// confirm waits until the broker has taken note of all that was settled: it
// answers to the last when all before it is.
func (p *pump) confirm(ctx context.Context) error {
	if p.last == "" {
		return nil
	}
	msg := nats.NewMsg(p.last)
	msg.Data = []byte("+ACK")
	return p.own.Settle(func() error { _, err := p.s.request(ctx, msg); return err })
}

// calm: all is settled; that it could not be said is no reason to fail.
func (p *pump) calm(err error) error {
	if errors.Is(err, rota.ErrLost) {
		return err
	}
	if err != nil {
		p.s.set.Log.Debug("not released", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
	}
	return nil
}

// batch takes a message and those that wait behind it.
func (p *pump) batch(msg *nats.Msg) error {
	p.buf, p.acks = p.buf[:0], p.acks[:0]
	for {
		if err := p.take(msg); err != nil {
			return err
		}
		if len(p.buf) >= batchMost {
			return nil
		}
		select {
		case msg = <-p.in:
		default:
			return nil
		}
	}
}

// take reads one message. JetStream numbers what a consumer delivers: a number
// left out, or a message that comes again, is one that went astray, and would
// come out of order.
func (p *pump) take(msg *nats.Msg) error {
	if status := msg.Header.Get("Status"); status != "" && msg.Reply == "" {
		return p.word(status, msg)
	}
	at, err := readPlace(msg.Reply)
	if err != nil {
		return fmt.Errorf("rotanats: a message of %s: %w", p.own.Partition(), err)
	}
	p.wanted--
	p.large = false
	p.astray = time.Time{}
	if at.delivery != p.claim.next || at.tries != 1 {
		return errBroken
	}
	p.claim.next++
	m := rota.Message{Value: msg.Data, Time: time.Unix(0, at.time), Position: at.sequence}
	for k, vs := range msg.Header {
		for _, v := range vs {
			m.Headers = append(m.Headers, rota.Header{Key: k, Value: []byte(v)})
		}
	}
	if m.ID = msg.Header.Get(nats.MsgIdHdr); m.ID == "" {
		p.id = strconv.AppendUint(append(append(p.id[:0], p.s.set.Stream...), '-'), at.sequence, 10)
		m.ID = string(p.id)
	}
	p.buf, p.acks = append(p.buf, m), append(p.acks, msg.Reply)
	return nil
}

// word is what the broker says about a question. One that has brought as many bytes
// as it may is at its end; if it has brought none, the next message is too large for
// any like it, and is asked for alone.
func (p *pump) word(status string, msg *nats.Msg) error {
	switch status {
	case "100": // it still has it
		return p.pulse(msg)
	case "404", "408", "409":
		open, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
		if err == nil {
			p.wanted = max(0, p.wanted-open)
			if strings.Contains(msg.Header.Get("Description"), "MaxBytes") && msg.Header.Get("Nats-Pending-Bytes") == strconv.Itoa(mostBytes) {
				p.large = true
			}
			return p.ask()
		}
	}
	return fmt.Errorf("rotanats: consumer %s: %s %s", p.claim.Consumer, status, msg.Header.Get("Description"))
}

// pulse looks at how much the broker says it has delivered: what went to somebody
// else, whom we do not know of, would show by its number only when the next one
// comes. Replicas may count a moment before they send, so it must say so again.
func (p *pump) pulse(msg *nats.Msg) error {
	last, err := strconv.ParseUint(msg.Header.Get("Nats-Last-Consumer"), 10, 64)
	switch {
	case err != nil || last < p.claim.next:
		p.astray = time.Time{}
	case p.astray.IsZero():
		p.astray = time.Now()
	case time.Since(p.astray) > astrayTime:
		return errBroken
	}
	return nil
}

// hand delivers the batch and settles what is done, until all of it is.
func (p *pump) hand(ctx context.Context, deliver rota.Deliver) error {
	msgs, acks := p.buf, p.acks
	for len(msgs) > 0 {
		begun := time.Now()
		n, err := deliver(ctx, msgs...)
		p.learn(time.Since(begun), max(n, 1))
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		if n > 0 {
			if err := p.settle(acks[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, rota.ErrDead) {
			if err := p.bury(ctx, &msgs[n], acks[n], err); err != nil {
				return err
			}
			n++
		} else if err != nil {
			return err
		}
		msgs, acks = msgs[n:], acks[n:]
	}
	return nil
}

// settle tells the broker that messages are done.
func (p *pump) settle(acks []string) error {
	if p.claim.all {
		acks = acks[len(acks)-1:]
	}
	return p.own.Settle(func() error {
		for _, ack := range acks {
			if err := p.nc.Publish(ack, nil); err != nil {
				return err
			}
			p.last = ack
		}
		return nil
	})
}

// bury stores a message where the dead are, then settles it.
func (p *pump) bury(ctx context.Context, msg *rota.Message, ack string, because error) error {
	err := p.own.Settle(func() error { return p.s.deadLetter(ctx, p.own, p.claim.Stream, msg, because) })
	if err != nil {
		return err
	}
	return p.settle([]string{ack})
}

// learn adapts how much is fetched ahead to what a message takes.
func (p *pump) learn(took time.Duration, n int) {
	each := took / time.Duration(n)
	if p.each == 0 {
		p.each = each
	}
	p.each += (each - p.each) / 4
	p.window = int(min(max(finishTime/max(p.each, 1), 1), time.Duration(p.s.set.Prefetch)))
}
