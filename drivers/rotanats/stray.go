package rotanats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// A delivery that the broker has counted may never arrive. nats-server sends deliveries in
// the loop that also stores messages: one that waits behind a write is sent when the owner
// that stops no longer listens. A leader that steps down may count a delivery and not send
// it. The messages are in the stream, so the owner reads them from there. Otherwise the
// consumer would have to be replaced, which costs synced writes and, in a cluster, an
// election. nats-server notices that nobody listened, and sends them once more to the owner that
// pulls next, under new numbers: then they have been read already, see astray.

// maxStray is how many deliveries are read from the stream. If more are missing, a new
// consumer is cheaper.
const maxStray = 32

// Timeouts for asking how many there are, and for reading them. A consumer without a leader
// does not answer, and a stop must not wait for it.
const (
	countTime = time.Second
	strayTime = 2 * time.Second
)

// A stretch of the stream has the sequences behind one, up to another.
type stretch struct{ after, last uint64 }

var errStray = errors.New("rotanats: the missing deliveries are not in the stream")

// recover reads the deliveries up to a number into buf, which must be the messages of the
// partition up to a sequence that have not arrived. It fails if the stream has fewer or more
// of them. On a work queue it always fails: each message there needs its own
// acknowledgement, and others may have removed it.
func (p *pump) recover(ctx context.Context, delivery, sequence uint64) error {
	if !p.claim.all || p.received == 0 || p.reply == "" || delivery-p.claim.next >= maxStray {
		return errStray
	}
	ctx, cancel := context.WithTimeout(ctx, strayTime)
	defer cancel()
	for {
		msg, err := p.storedUpTo(ctx, sequence)
		if err != nil {
			return err
		}
		if all := p.claim.next > delivery; (msg == nil) != all {
			return errStray
		} else if all {
			return nil
		}
		if err := p.readStored(msg); err != nil {
			return err
		}
	}
}

// storedUpTo returns the first message of the partition that has not arrived, nil if there
// is none up to a sequence.
func (p *pump) storedUpTo(ctx context.Context, sequence uint64) (*storedMessage, error) {
	var got storedMessage
	err := p.s.ask(ctx, "STREAM.MSG.GET."+p.s.set.Stream, map[string]any{"seq": p.received + 1, "next_by_subj": p.own.Partition()}, &got)
	if code(err) == codeNoMessage || err == nil && got.Message.Seq > sequence {
		return nil, nil
	}
	return &got, err
}

// readStored reads a message of the stream as if it had arrived.
func (p *pump) readStored(got *storedMessage) error {
	msg := &nats.Msg{Subject: got.Message.Subject, Data: got.Message.Data,
		Reply: ackSubject(p.reply, got.Message.Seq, p.claim.next, got.Message.Time.UnixNano())}
	if len(got.Message.Hdrs) > 0 {
		header, err := nats.DecodeHeadersMsg(got.Message.Hdrs)
		if err != nil {
			return fmt.Errorf("rotanats: message %d of %s: %w", got.Message.Seq, p.s.set.Stream, err)
		}
		msg.Header = header
	}
	p.outstanding++ // readMessage takes it for one that was pulled
	before := p.received
	if err := p.readMessage(context.Background(), msg); err != nil {
		return err
	}
	if p.read.last == 0 {
		p.read.after = before
	}
	p.read.last = got.Message.Seq
	return nil
}

// astray tells whether this is the redelivery of a message that was read from the stream. It
// was handled, or will be before what comes behind it; the next acknowledgement covers it.
func (p *pump) astray(ack ackInfo) bool {
	return ack.tries > 1 && ack.delivery == p.claim.next && ack.sequence > p.read.after && ack.sequence <= p.read.last
}

// ackSubject returns the reply subject that another delivery of the same consumer has.
func ackSubject(reply string, sequence, delivery uint64, at int64) string {
	tokens := strings.Split(reply, ".")
	first := 4 // see readAckInfo
	if len(tokens) >= 11 {
		first = 6
	}
	copy(tokens[first:], []string{"1", strconv.FormatUint(sequence, 10), strconv.FormatUint(delivery, 10), strconv.FormatInt(at, 10)})
	return strings.Join(tokens, ".")
}
