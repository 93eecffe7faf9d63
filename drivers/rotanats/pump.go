package rotanats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

// A pump pulls messages of one partition, delivers and settles them.
type pump struct {
	s       *source
	own     rota.Ownership
	claim   *claim
	nc      *nats.Conn
	epoch   *epoch
	sub     *nats.Subscription
	in      chan *nats.Msg  // messages and statuses that have arrived
	denied  chan error      // has the server's refusal of a pull or an acknowledgement
	elected <-chan struct{} // has an element when the consumer has another leader
	close   func()
	buf     []rota.Message // the batch that is being delivered
	acks    []string       // the ack subject of each message in buf
	id      []byte         // scratch space for a message's ID
	request []byte         // scratch space for a pull
	next    string         // the subject of pulls

	timing      pullTiming    // of the next pull
	outstanding int           // messages pulled and not arrived
	window      int           // target for outstanding and arrived messages together
	each        time.Duration // recent average of the time that a message takes
	large       bool          // the next message is larger than maxBytes
	ending      bool          // no more pulls
	slow        int           // batches of slow messages in a row
	quickSince  time.Time     // when slow messages last became quick
	last        string        // the ack subject of the last settled message
	delayed     delayed       // settled soon
	first       uint64        // number of the first delivery
	back        pair          // deliveries up to this one are read from the stream: the last owner gave them back
	proven      bool          // the broker has confirmed an acknowledgement
	gapSince    time.Time     // since when the broker has counted more deliveries than have arrived
	leaderless  time.Time     // since when no server accepts pulls
	received    uint64        // sequence of the last message that has arrived, here or at the last owner; 0 if it is not known
	read        stretch       // of the stream, for deliveries that went astray
	reply       string        // the ack subject of some delivery; "" before the first
}

// Timing of a pump.
const (
	// Prefetch is sized to this much work, or to a single message that takes longer.
	finishTime = 20 * time.Millisecond

	// What was fetched is finished before a stop if it takes no longer than this. Otherwise
	// it is given back, which takes longer than a hand-over without that.
	giveBackTime = 50 * time.Millisecond

	firstWindow = 8  // until the time that a message takes is known
	maxBatch    = 64 // messages delivered and settled together
	stopTime    = 5 * time.Second
	gapTime     = 200 * time.Millisecond // shorter than the interval of idle heartbeats
)

// maxBytes limits what one pull may bring. With a limit on the number alone, 256
// messages of a megabyte would be in memory for each partition. Two pulls may be in
// flight while the messages of a third are delivered.
const maxBytes = 16 << 20

// maxSilences is how many pulls in a row are lost when the pump gives up.
const maxSilences = 3

var (
	errGap         = errors.New("rotanats: gap in the delivery sequence")
	errNoHeartbeat = errors.New("rotanats: the broker does not answer pull requests")
	errNoConsumer  = errors.New("rotanats: somebody has deleted the consumer")
)

func (s *source) newPump(ctx context.Context, c *claim, own rota.Ownership) (*pump, error) {
	nc, epoch, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	p := &pump{s: s, own: own, claim: c, nc: nc, epoch: epoch, timing: firstPull, window: min(firstWindow, s.set.Prefetch),
		first: c.next, reply: c.Reply}
	p.next = s.api("CONSUMER.MSG.NEXT." + s.set.Stream + "." + c.Consumer)
	if c.Each > 0 {
		p.learn(c.Each, 1)
	}
	if c.next > 1 && c.settled.stream.Equal(c.Stream) { // its last owner has settled everything that had arrived
		p.received = c.settled.sequence
	}
	if c.given.Consumer >= c.next {
		p.back, p.received = c.given, c.floor
	}
	p.in = make(chan *nats.Msg, 2*s.set.Prefetch+64) // room for every message that can be pulled, and for statuses
	if p.sub, err = nc.ChanSubscribe(nc.NewInbox(), p.in); err != nil {
		return nil, fmt.Errorf("rotanats: %v: %w", s.set, err)
	}
	p.denied = make(chan error, 1)
	remove := s.onRefusal(p.concerns, p.refuse)
	elected, forget := s.elections.await(s, nc, c.Consumer)
	p.elected = elected
	s.meter.attach(own.Partition(), c.Consumer)
	p.close = func() {
		s.meter.detach(own.Partition(), c.Consumer)
		remove()
		forget()
		endSubscription(p.sub)
	}
	if err := p.pull(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// concerns tells whether a refusal is about the pump's subscription, pulls or
// acknowledgements. None of them is a request that the server would answer.
func (p *pump) concerns(r *refusal) bool {
	switch {
	case !r.publish:
		return r.subject == p.sub.Subject
	case strings.HasPrefix(r.subject, "$JS.ACK."):
		return strings.Contains(r.subject, "."+p.claim.Consumer+".")
	}
	return r.subject == p.next
}

func (p *pump) refuse(err error) {
	select {
	case p.denied <- fmt.Errorf("rotanats: consume %s: %w", p.own.Partition(), err):
	default: // the first one is enough
	}
}

// run delivers messages until the ownership stops; then it finishes those that were
// fetched and are quick, gives the others back, and leaves the consumer to the next owner.
func (p *pump) run(ctx context.Context, deliver rota.Deliver) error {
	defer p.close()
	err := p.consume(ctx, deliver)
	if err != nil {
		p.sendDelayed(ctx) // what was handled must not come again; why it ended says more than an error here
	}
	return err
}

func (p *pump) consume(ctx context.Context, deliver rota.Deliver) error {
	missed, silences := time.NewTimer(2*p.timing.heartbeat), 0
	defer missed.Stop()
	delay := time.NewTimer(delayTime)
	defer delay.Stop()
	for {
		// A select chooses at random among ready channels, so a stop is looked for
		// first: otherwise a busy partition would stop late.
		select {
		case <-p.own.Stop():
			return p.stop(ctx, deliver, true)
		case err := <-p.denied:
			return err
		default:
		}
		if p.owed() > 0 {
			if err := p.readBack(ctx); err != nil {
				return err
			}
			if err := p.pullAndDeliver(ctx, deliver); err != nil {
				return p.ended(ctx, deliver, err)
			}
			missed.Reset(2 * p.timing.heartbeat)
			continue
		}
		if p.delayed.n > 0 && len(p.in) == 0 {
			delay.Reset(delayTime)
		}
		select {
		case msg := <-p.in:
			p.timing, silences = laterPull, 0
			if err := p.batch(ctx, msg); err != nil {
				return err
			}
			missed.Reset(2 * p.timing.heartbeat)
			if err := p.pullAndDeliver(ctx, deliver); err != nil {
				return p.ended(ctx, deliver, err)
			}
		case <-p.own.Stop():
			return p.stop(ctx, deliver, true)
		case <-ctx.Done():
			return ctx.Err()
		case <-p.epoch.Done():
			return errGone
		case err := <-p.denied:
			return err
		case <-p.elected:
			silences = 0
			if err := p.pullAnew(electedPull); err != nil {
				return err
			}
			missed.Reset(2 * p.timing.heartbeat)
		case <-delay.C:
			if err := p.sendDelayed(ctx); err != nil {
				return err
			}
		case <-missed.C: // the pull was lost
			if silences++; silences == maxSilences {
				return errNoHeartbeat
			}
			switch p.timing {
			case refusedPull:
				p.timing = electedPull
			case electedPull: // the new leader needs longer
				p.timing = firstPull
			}
			if err := p.pullAnew(p.timing); err != nil {
				return err
			}
			missed.Reset(2 * p.timing.heartbeat)
		}
	}
}

// pullAndDeliver delivers the batch, while more messages arrive.
func (p *pump) pullAndDeliver(ctx context.Context, deliver rota.Deliver) error {
	if err := p.pull(); err != nil {
		return err
	}
	if err := p.deliverBatch(ctx, deliver); err != nil {
		return err
	}
	return p.pace(ctx)
}

// batch reads a message and those that have arrived behind it into buf, but no more than
// take finishTime: a stop waits for them.
func (p *pump) batch(ctx context.Context, msg *nats.Msg) error {
	p.buf, p.acks = p.buf[:0], p.acks[:0]
	for {
		if err := p.readMessage(ctx, msg); err != nil {
			return err
		}
		if len(p.buf) >= p.atOnce() {
			return nil
		}
		select {
		case msg = <-p.in:
		default:
			return nil
		}
	}
}

// readMessage reads one message. JetStream numbers the deliveries of a consumer. A gap
// in these numbers, or a redelivery, means that a message was lost on the way: it would
// be handled out of order.
func (p *pump) readMessage(ctx context.Context, msg *nats.Msg) error {
	if status := msg.Header.Get("Status"); status != "" && msg.Reply == "" {
		return p.readStatus(status, msg)
	}
	ack, err := readAckInfo(msg.Reply)
	if err != nil {
		return fmt.Errorf("rotanats: a message of %s: %w", p.own.Partition(), err)
	}
	p.outstanding = max(0, p.outstanding-1)
	p.large = false
	p.gapSince, p.leaderless = time.Time{}, time.Time{}
	switch {
	case p.repeated(ack):
		return nil
	case p.astray(ack):
		p.claim.next++
		return nil
	case ack.delivery > p.claim.next && ack.tries == 1:
		p.reply = msg.Reply
		if err := p.recover(ctx, ack.delivery-1, ack.sequence-1); err != nil {
			return fmt.Errorf("%w: %w", errGap, err)
		}
	case ack.delivery != p.claim.next || ack.tries != 1 || ack.sequence <= p.received:
		return errGap
	}
	p.claim.next++
	p.received, p.reply = ack.sequence, msg.Reply
	m := rota.Message{Value: msg.Data, Time: time.Unix(0, ack.time), Position: ack.sequence}
	for k, vs := range msg.Header {
		for _, v := range vs {
			m.Headers = append(m.Headers, rota.Header{Key: k, Value: []byte(v)})
		}
	}
	if m.ID = msg.Header.Get(nats.MsgIdHdr); m.ID == "" {
		p.id = strconv.AppendUint(append(append(p.id[:0], p.s.set.Stream...), '-'), ack.sequence, 10)
		m.ID = string(p.id)
	}
	p.buf, p.acks = append(p.buf, m), append(p.acks, msg.Reply)
	return nil
}

// repeated tells whether a message has arrived before: a new leader of the consumer repeats
// deliveries that it had not heard of when the last leader ended, under the same numbers.
// The next acknowledgement covers them, except on a work queue.
func (p *pump) repeated(ack ackInfo) bool {
	return p.claim.all && ack.tries == 1 && ack.delivery < p.claim.next && ack.sequence <= p.received
}

// deliverBatch delivers the batch and settles the messages that are done, until all
// are.
func (p *pump) deliverBatch(ctx context.Context, deliver rota.Deliver) error {
	msgs, acks := p.buf, p.acks
	for len(msgs) > 0 {
		begun := time.Now()
		n, err := deliver(ctx, msgs...)
		p.learn(time.Since(begun), max(n, 1))
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		if n > 0 {
			if err := p.settle(ctx, acks[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, rota.ErrDead) {
			if err := p.storeDead(ctx, msgs[n], acks[n], err); err != nil {
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

// storeDead stores a message as a dead letter, then settles it.
func (p *pump) storeDead(ctx context.Context, msg rota.Message, ack string, because error) error {
	err := p.own.DeadLetter(msg, because, func(l rota.Letter) error {
		id := fmt.Sprintf("%s-%s-%d-%d", p.s.set.Stream, l.Group, p.claim.Stream.UnixNano(), msg.Position)
		return p.s.storeLetter(ctx, p.own.Check, id, &l)
	})
	if err != nil {
		return err
	}
	return p.settle(ctx, []string{ack})
}
