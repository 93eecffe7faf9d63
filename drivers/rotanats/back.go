package rotanats

import "context"

// With very slow handlers a stop may not wait for what was fetched. The owner that
// stops gives them back: it leaves them unsettled and notes that it did. JetStream would
// deliver them to nobody before their acknowledgement is overdue, so the next owner reads
// them from the stream, like deliveries that went astray, before it delivers others. It
// asks the broker which they are: a note could be forged, and messages would be skipped.

// unsettled is the number of the first delivery that was not settled, as far as we know.
func (p *pump) unsettled() uint64 {
	if last, err := readAckInfo(p.last); err == nil {
		return last.delivery + 1
	}
	return p.first
}

// left tells whether the broker has counted deliveries that nobody has settled. It empties
// the pump. The next owner needs the reply subject of some delivery to settle them: without
// one it replaces the consumer.
func (p *pump) left(info *consumerInfo) bool {
	next := p.unsettled()
	left := next < p.claim.next || p.owed() > 0 || info.Delivered.Consumer >= next
	for len(p.in) > 0 {
		if msg := <-p.in; msg.Reply != "" {
			p.reply, left = msg.Reply, true
		}
	}
	return left && p.claim.all
}

// given returns the deliveries that the last owner gave back, by what the broker says about
// the consumer. ok is false if that does not fit the note.
func (n *note) given(info *consumerInfo) (last pair, ok bool) {
	if info == nil || info.AckFloor.Consumer+1 != n.Next || info.Delivered.Consumer-info.AckFloor.Consumer > maxStray {
		return pair{}, false
	}
	return info.Delivered, true
}

// owed is how many deliveries that the last owner gave back are still to be read.
func (p *pump) owed() int {
	if p.claim.next > p.back.Consumer {
		return 0
	}
	return int(p.back.Consumer - p.claim.next + 1)
}

// readBack reads the next message that the last owner gave back. With the last of them, the
// stream must have no more of the partition up to there.
func (p *pump) readBack(ctx context.Context) error {
	p.buf, p.acks = p.buf[:0], p.acks[:0]
	ctx, cancel := context.WithTimeout(ctx, strayTime)
	defer cancel()
	msg, err := p.storedUpTo(ctx, p.back.Stream)
	if err == nil && msg == nil {
		err = errStray
	}
	if err == nil {
		err = p.readStored(msg)
	}
	if err != nil || p.owed() > 0 || p.received >= p.back.Stream {
		return err
	}
	if msg, err = p.storedUpTo(ctx, p.back.Stream); err == nil && msg != nil {
		err = errStray
	}
	return err
}
