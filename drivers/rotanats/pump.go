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

// A pump pulls messages of one partition, delivers and settles them.
type pump struct {
	s      *source
	own    rota.Ownership
	claim  *claim
	nc     *nats.Conn
	epoch  *epoch
	sub    *nats.Subscription
	in     chan *nats.Msg // messages and statuses that have arrived
	denied chan error     // has the server's refusal of a pull or an acknowledgement
	close  func()
	buf    []rota.Message // the batch that is being delivered
	acks   []string       // the ack subject of each message in buf
	id     []byte         // scratch space for a message's ID

	timing      pullTiming    // of the next pull
	outstanding int           // messages pulled and not arrived
	window      int           // target for outstanding and arrived messages together
	each        time.Duration // recent average of the time that a message takes
	large       bool          // the next message is larger than maxBytes
	ending      bool          // no more pulls
	last        string        // the ack subject of the last settled message
	proven      bool          // the broker has confirmed an acknowledgement
	gapSince    time.Time     // since when the broker has counted more deliveries than have arrived
}

// Timing of a pump.
const (
	// Fetched messages that are quick are finished before a stop, so that the next
	// owner can use the consumer. Prefetch is sized to this much work.
	finishTime  = 20 * time.Millisecond
	firstWindow = 8  // until the time that a message takes is known
	maxBatch    = 64 // messages delivered and settled together
	stopTime    = 5 * time.Second
	gapTime     = 200 * time.Millisecond // shorter than the interval of idle heartbeats
)

// maxBytes limits what one pull may bring. With a limit on the number alone, 256
// messages of a megabyte would be in memory for each partition. Two pulls may be in
// flight while the messages of a third are delivered.
const maxBytes = 16 << 20

// pullTiming is the expiry and the idle heartbeat of a pull request. Those of the
// first pull are short: in a cluster not every server may know a new consumer yet, and
// then the pull is lost.
type pullTiming struct{ expiry, heartbeat time.Duration }

var (
	firstPull = pullTiming{2 * time.Second, 300 * time.Millisecond}
	laterPull = pullTiming{30 * time.Second, 5 * time.Second}
)

// maxSilences is how many pulls in a row are lost when the pump gives up.
const maxSilences = 3

var (
	errGap         = errors.New("rotanats: gap in the delivery sequence")
	errNoHeartbeat = errors.New("rotanats: the broker does not answer pull requests")
)

func (s *source) newPump(ctx context.Context, c *claim, own rota.Ownership) (*pump, error) {
	nc, epoch, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	p := &pump{s: s, own: own, claim: c, nc: nc, epoch: epoch, timing: firstPull, window: min(firstWindow, s.set.Prefetch)}
	if c.Each > 0 {
		p.learn(c.Each, 1)
	}
	p.in = make(chan *nats.Msg, 2*s.set.Prefetch+64) // room for every message that can be pulled, and for statuses
	if p.sub, err = nc.ChanSubscribe(nc.NewInbox(), p.in); err != nil {
		return nil, fmt.Errorf("rotanats: %v: %w", s.set, err)
	}
	p.denied = make(chan error, 1)
	remove := s.onRefusal(p.concerns, p.refuse)
	p.close = func() {
		remove()
		p.sub.Unsubscribe()
	}
	if err := p.pull(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// pullSubject is where pulls are published to.
func (p *pump) pullSubject() string {
	return p.s.api("CONSUMER.MSG.NEXT." + p.s.set.Stream + "." + p.claim.Consumer)
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
	return r.subject == p.pullSubject()
}

func (p *pump) refuse(err error) {
	select {
	case p.denied <- fmt.Errorf("rotanats: consume %s: %w", p.own.Partition(), err):
	default: // the first one is enough
	}
}

// pull keeps the window filled. It pulls half of the window or more at a time, so that
// requests stay few.
func (p *pump) pull() error {
	have := p.outstanding + len(p.in)
	if p.ending || have > p.window/2 {
		return nil
	}
	n := p.window - have
	request := map[string]int64{"batch": int64(n), "expires": int64(p.timing.expiry), "idle_heartbeat": int64(p.timing.heartbeat), "max_bytes": maxBytes}
	if p.large {
		n = 1
		request["batch"] = 1
		delete(request, "max_bytes")
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := p.nc.PublishRequest(p.pullSubject(), p.sub.Subject, body); err != nil {
		return fmt.Errorf("rotanats: pull messages of %s: %w", p.own.Partition(), err)
	}
	p.outstanding += n
	return nil
}

// run delivers messages until the ownership stops; then it finishes those that were
// fetched and are quick, and leaves the consumer to the next owner.
func (p *pump) run(ctx context.Context, deliver rota.Deliver) error {
	defer p.close()
	missed, silences := time.NewTimer(2*p.timing.heartbeat), 0
	defer missed.Stop()
	for {
		// A select chooses at random among ready channels, so a stop is looked for
		// first: otherwise a busy partition would stop late.
		select {
		case <-p.own.Stop():
			return p.stop(ctx, deliver)
		case err := <-p.denied:
			return err
		default:
		}
		select {
		case msg := <-p.in:
			p.timing, silences = laterPull, 0
			missed.Reset(2 * p.timing.heartbeat)
			if err := p.batch(msg); err != nil {
				return err
			}
			if err := p.pull(); err != nil { // more messages arrive while these are handled
				return err
			}
			if err := p.deliverBatch(ctx, deliver); err != nil {
				return p.ended(ctx, err)
			}
		case <-p.own.Stop():
			return p.stop(ctx, deliver)
		case <-ctx.Done():
			return ctx.Err()
		case <-p.epoch.Done():
			return errGone
		case err := <-p.denied:
			return err
		case <-missed.C: // the pull was lost
			if silences++; silences == maxSilences {
				return errNoHeartbeat
			}
			p.outstanding = 0
			if err := p.pull(); err != nil {
				return err
			}
			missed.Reset(2 * p.timing.heartbeat)
		}
	}
}

// ended is the result of run after a delivery ended early. ErrStop ends it in good
// order: the rest goes back. A consumer that has delivered messages which nobody settled
// would keep them from the next owner, so it is not released: the next owner replaces it
// by one that begins after the last settled message. What was settled must have reached
// the broker by then, or it would be delivered again.
func (p *pump) ended(ctx context.Context, err error) error {
	if !errors.Is(err, rota.ErrStop) {
		return err
	}
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return p.logUnreleased(p.confirmFloor(brief))
}

// confirmFloor waits until the broker shows the last settled message as acknowledged,
// which is what the next owner reads. The answer to an acknowledgement is not enough: a
// replicated consumer answers a repeated one before it has stored the first.
func (p *pump) confirmFloor(ctx context.Context) error {
	if p.last == "" {
		return nil
	}
	last, err := readAckInfo(p.last)
	for wait := time.Millisecond; err == nil; wait = min(2*wait, 50*time.Millisecond) {
		var info *consumerInfo
		info, err = p.s.info(ctx, p.claim.Consumer)
		if err != nil || info == nil || info.AckFloor.Consumer >= last.delivery {
			return err
		}
		select {
		case <-time.After(wait):
			err = p.confirm(ctx) // the acknowledgement may be lost
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// stop ends the subscription, finishes the messages that have arrived and releases the
// consumer. If they would take too long, ErrStop ends it.
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
	for len(p.in) > 0 { // after the flush nothing more arrives
		if err := p.batch(<-p.in); err != nil {
			return err
		}
		if err := p.deliverBatch(ctx, deliver); err != nil {
			return p.ended(ctx, err)
		}
	}
	return p.release(brief)
}

// release lets the next owner use the consumer. The last acknowledgement and the note
// are sent at the same time, so the note may be stored although the acknowledgement
// was lost. Then the next owner's first acknowledgement covers all messages before it.
// On a work queue it covers only its own message, so there the next owner asks the
// broker whether messages are unacknowledged.
func (p *pump) release(ctx context.Context) error {
	select {
	case p.s.slots <- struct{}{}:
		defer func() { <-p.s.slots }()
	case <-ctx.Done():
		return p.logUnreleased(ctx.Err())
	}
	settled := make(chan error, 1)
	go func() { settled <- p.confirm(ctx) }()
	noted := p.note(ctx, true)
	return p.logUnreleased(errors.Join(<-settled, noted))
}

// note writes the note in memory for the next owner.
func (p *pump) note(ctx context.Context, released bool) error {
	n := p.claim.note
	n.Token, n.Released, n.Former, n.Each = p.own.Token(), released, "", p.each
	if p.claim.all {
		n.Next, n.Settled, n.SettledTime = p.claim.next, 0, 0
		if m := p.claim.settled; m.stream.Equal(n.Stream) {
			n.Settled, n.SettledTime = m.sequence, m.time
		}
	}
	return p.s.record(ctx, p.s.memoryNotes, p.own, p.claim, n, &p.claim.memoryRev)
}

// leaveMark notes what was settled after the pump has failed: if its consumer was deleted,
// nothing else says so, and the partition may have another owner before this one has
// attached again.
func (p *pump) leaveMark(ctx context.Context) {
	if !p.proven || !p.claim.all || p.epoch.Err() != nil {
		return
	}
	brief, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := p.note(brief, false); err != nil {
		p.s.set.Log.Debug("not noted", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
	}
}

// confirm waits until the broker has processed all acknowledgements: it repeats the
// last one as a request, which the broker answers after those before it. A consumer whose
// leader changes does not answer, so confirm retries.
func (p *pump) confirm(ctx context.Context) error {
	if p.last == "" {
		return nil
	}
	msg := nats.NewMsg(p.last)
	msg.Data = []byte("+ACK")
	for wait := replyTimeout; ; wait *= 2 {
		once, cancel := context.WithTimeout(ctx, wait)
		err := p.own.Settle(func() error { _, err := p.s.request(once, msg); return err })
		silence := once.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !silence {
			return err
		}
	}
}

// logUnreleased keeps run from failing when the consumer could not be released: all
// messages are settled, and the next owner replaces the consumer.
func (p *pump) logUnreleased(err error) error {
	if errors.Is(err, rota.ErrLost) {
		return err
	}
	if err != nil {
		p.s.set.Log.Debug("not released", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
	}
	return nil
}

// batch reads a message and those that have arrived behind it into buf.
func (p *pump) batch(msg *nats.Msg) error {
	p.buf, p.acks = p.buf[:0], p.acks[:0]
	for {
		if err := p.readMessage(msg); err != nil {
			return err
		}
		if len(p.buf) >= maxBatch {
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
func (p *pump) readMessage(msg *nats.Msg) error {
	if status := msg.Header.Get("Status"); status != "" && msg.Reply == "" {
		return p.readStatus(status, msg)
	}
	ack, err := readAckInfo(msg.Reply)
	if err != nil {
		return fmt.Errorf("rotanats: a message of %s: %w", p.own.Partition(), err)
	}
	p.outstanding--
	p.large = false
	p.gapSince = time.Time{}
	if ack.delivery != p.claim.next || ack.tries != 1 {
		return errGap
	}
	p.claim.next++
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

// readStatus reads a status message, which the broker sends about a pull. A pull ends
// when it has brought maxBytes. If it has brought none of them, the next message is
// larger than that and is pulled alone, without a limit.
func (p *pump) readStatus(status string, msg *nats.Msg) error {
	switch status {
	case "100": // an idle heartbeat: the pull is still open
		return p.checkHeartbeat(msg)
	case "404", "408", "409":
		open, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
		if err == nil {
			p.outstanding = max(0, p.outstanding-open)
			if strings.Contains(msg.Header.Get("Description"), "MaxBytes") && msg.Header.Get("Nats-Pending-Bytes") == strconv.Itoa(maxBytes) {
				p.large = true
			}
			return p.pull()
		}
	}
	return fmt.Errorf("rotanats: consumer %s: %s %s", p.claim.Consumer, status, msg.Header.Get("Description"))
}

// checkHeartbeat looks for a gap at the end of the delivery sequence. If a message went
// to another client that uses this consumer, its missing number would otherwise show
// only when the next message arrives. A replica may count a delivery a moment before
// it sends the message, so a gap counts only if a later heartbeat still shows it.
func (p *pump) checkHeartbeat(msg *nats.Msg) error {
	last, err := strconv.ParseUint(msg.Header.Get("Nats-Last-Consumer"), 10, 64)
	switch {
	case err != nil || last < p.claim.next:
		p.gapSince = time.Time{}
	case p.gapSince.IsZero():
		p.gapSince = time.Now()
	case time.Since(p.gapSince) > gapTime:
		return errGap
	}
	return nil
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

// settle acknowledges messages. If one acknowledgement covers all messages before it,
// only the last is sent. The first of a pump is confirmed: otherwise an owner whose
// acknowledgements go nowhere would handle all that it may fetch, and again at each attempt.
func (p *pump) settle(ctx context.Context, acks []string) error {
	if p.claim.all {
		acks = acks[len(acks)-1:]
	}
	err := p.own.Settle(func() error {
		for _, ack := range acks {
			if err := p.nc.Publish(ack, nil); err != nil {
				return err
			}
			p.last = ack
		}
		return nil
	})
	if err == nil && !p.proven {
		err = p.prove(ctx)
	}
	if err != nil {
		return err
	}
	if info, err := readAckInfo(p.last); err == nil && p.claim.all {
		p.claim.settled = mark{p.claim.Stream, info.sequence, info.time}
	}
	return nil
}

// prove waits for the confirmation of the first acknowledgement.
func (p *pump) prove(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := p.confirm(brief); err != nil {
		return fmt.Errorf("rotanats: settle messages of %s: %w", p.own.Partition(), err)
	}
	p.proven = true
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

// learn adapts the window to the time that a message takes, as a moving average.
func (p *pump) learn(took time.Duration, n int) {
	each := took / time.Duration(n)
	if p.each == 0 {
		p.each = each
	}
	p.each += (each - p.each) / 4
	p.window = int(min(max(finishTime/max(p.each, 1), 1), time.Duration(p.s.set.Prefetch)))
}
