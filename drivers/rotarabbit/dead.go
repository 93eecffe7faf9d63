package rotarabbit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// Headers of a dead letter. A message that is dead-lettered loses headers of its own that
// begin with rota-, so that nobody takes them for these.
const (
	headerLetter   = "rota-letter" // its ID
	headerGroup    = "rota-group"
	headerOf       = "rota-partition"
	headerKey      = "rota-key"
	headerSent     = "rota-message-time" // when it was published
	headerReason   = "rota-error"
	headerAttempts = "rota-attempts"
	headerTime     = "rota-time" // when it became a dead letter
	headerFormer   = "rota-former"

	reservedHeader = "rota-"
)

// mostHeaders is how many bytes of headers a letter keeps: a broker closes the connection
// over headers that do not fit into one frame of 128 KB.
const mostHeaders = 100 << 10

// A letterBox has the dead letters of a virtual host, in one queue.
type letterBox struct {
	link  *link
	pub   *publisher
	turns chan struct{} // a semaphore of one: only one reads them at a time
}

func newLetterBox(l *link) *letterBox {
	return &letterBox{l, newPublisher(l), make(chan struct{}, 1)}
}

// store publishes a letter. The queue is declared if there is none.
func (b *letterBox) store(ctx context.Context, l *rota.Letter) error {
	p := writeLetter(l, rand.Text())
	err := b.pub.publish(ctx, b.link.set.dead, p)
	if errors.Is(err, errNoQueue) {
		if err = b.declare(ctx); err == nil {
			err = b.pub.publish(ctx, b.link.set.dead, p)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot dead-letter a message of %s to queue %s: %w", l.Message.Partition, b.link.set.dead, err)
	}
	return nil
}

// declare makes the queue. It is a classic one: letters are read by fetching them and giving
// them back, which a quorum queue counts, and after some times it drops what was returned.
func (b *letterBox) declare(ctx context.Context) error {
	ctx, cancel := within(ctx)
	defer cancel()
	ch, err := b.link.channel(ctx, &b.link.consuming)
	if err != nil {
		return err
	}
	defer closeChannel(ch)
	_, err = call(ctx, func() (amqp.Queue, error) {
		return ch.QueueDeclare(b.link.set.dead, true, false, false, false, amqp.Table{amqp.QueueTypeArg: classic})
	}, func(amqp.Queue) {})
	if err != nil {
		return queueError(err, b.link.set.dead, "declare queue "+b.link.set.dead)
	}
	return nil
}

// writeLetter encodes a letter.
func writeLetter(l *rota.Letter, id string) amqp.Publishing {
	m := l.Message
	p := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: m.ID, Timestamp: m.Time, Body: m.Value, Headers: amqp.Table{}}
	if len(m.ID) > 255 {
		p.MessageId = ""
	}
	size := 0
	for _, h := range m.Headers {
		if size += len(h.Key) + len(h.Value); !reserved(h.Key) && len(h.Key) <= 255 && size <= mostHeaders {
			p.Headers[h.Key] = string(h.Value)
		}
	}
	for k, v := range map[string]string{
		headerLetter: id, headerGroup: l.Group, headerOf: m.Partition, headerKey: string(m.Key), headerReason: oneLine(l.Reason),
		headerAttempts: strconv.Itoa(m.Attempt), headerTime: l.Time.UTC().Format(time.RFC3339Nano), headerFormer: l.Former,
	} {
		if v != "" {
			p.Headers[k] = v
		}
	}
	if !m.Time.IsZero() {
		p.Headers[headerSent] = m.Time.UTC().Format(time.RFC3339Nano)
	}
	return p
}

func reserved(header string) bool {
	return len(header) >= len(reservedHeader) && strings.EqualFold(header[:len(reservedHeader)], reservedHeader)
}

// oneLine shortens a text for a header.
func oneLine(s string) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	return strings.ToValidUTF8(text[:min(len(text), 500)], "")
}

// readLetter decodes a letter. Anybody who may publish to the queue can write any headers, and
// the broker itself dead-letters messages there if a queue says so. Ours count only if they
// fit together; without them a letter has a message and no history. twins is how many letters
// with the same content were before it.
func readLetter(d *amqp.Delivery, twins func(sum string) int) rota.Letter {
	msg := readMessage(d)
	msg.Key, msg.Attempt = nil, 1
	text := func(key string) string { v, _ := d.Headers[key].(string); return v }
	var own []rota.Header
	for _, h := range msg.Headers {
		if !reserved(h.Key) {
			own = append(own, h)
		}
	}
	msg.Headers = own
	msg.Partition = oneLine(text("x-first-death-queue"))
	l := rota.Letter{Message: msg, Time: d.Timestamp, Reason: "not known: the letter has no headers that rota has written"}
	if why := text("x-first-death-reason"); why != "" {
		l.Reason = "dead-lettered by the broker: " + oneLine(why)
	}
	attempts, err := strconv.ParseUint(text(headerAttempts), 10, 31)
	dead, err2 := time.Parse(time.RFC3339Nano, text(headerTime))
	id := text(headerLetter)
	if errors.Join(err, err2) != nil || attempts == 0 || !validLetter(id) || !validQueue(text(headerOf)) {
		sum := sha256.Sum256(append([]byte(d.MessageId+"\x00"), d.Body...))
		l.ID = hex.EncodeToString(sum[:12])
		l.ID += "-" + strconv.Itoa(twins(l.ID))
		return l
	}
	l.ID, l.Time, l.Reason, l.Group = id, dead, oneLine(text(headerReason)), oneLine(text(headerGroup))
	l.Message.Partition, l.Message.Attempt, l.Message.Time = text(headerOf), int(attempts), time.Time{}
	if key := text(headerKey); key != "" {
		l.Message.Key = []byte(key)
	}
	if sent, err := time.Parse(time.RFC3339Nano, text(headerSent)); err == nil {
		l.Message.Time = sent
	}
	if former := text(headerFormer); validLetter(former) {
		l.Former = former
	}
	return l
}

// validLetter accepts the IDs that we give, and those of letters without one.
func validLetter(id string) bool {
	return id != "" && len(id) <= 64 && strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-'
	}) < 0
}

// Letters reads the dead letters. RabbitMQ cannot show messages without fetching them: they
// are fetched, and given back in order when all were read.
func (s *source) Letters(ctx context.Context, partition string) iter.Seq2[rota.Letter, error] {
	return func(yield func(rota.Letter, error) bool) {
		var all []rota.Letter
		err := s.letters.read(ctx, func(l *rota.Letter) (drop, more bool) {
			if of := l.Message.Partition; of == partition || partition == "" && (of == "" || s.set.queues.matches(of)) {
				all = append(all, *l)
			}
			return false, true
		})
		if err != nil {
			yield(rota.Letter{}, fmt.Errorf("rotarabbit: dead letters in queue %s: %w", s.set.dead, err))
			return
		}
		for _, l := range all {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// DropLetter removes a dead letter.
func (s *source) DropLetter(ctx context.Context, id string) error {
	found := false
	err := s.letters.read(ctx, func(l *rota.Letter) (drop, more bool) {
		found = l.ID == id
		return found, !found
	})
	switch {
	case err != nil:
		return fmt.Errorf("rotarabbit: drop dead letter %.64s in queue %s: %w", id, s.set.dead, err)
	case !found:
		return fmt.Errorf("rotarabbit: dead letter %.64s in queue %s: %w", id, s.set.dead, rota.ErrNotFound)
	}
	return nil
}

// RenewLetter stores a letter again and drops the former one.
func (s *source) RenewLetter(ctx context.Context, l rota.Letter) error {
	if err := s.letters.store(ctx, &l); err != nil {
		return fmt.Errorf("rotarabbit: %w", err)
	}
	return s.DropLetter(ctx, l.Former)
}

// read fetches the letters one by one, oldest first, until visit wants no more, and gives
// those back that are not to be dropped. Nobody else reads them meanwhile.
func (b *letterBox) read(ctx context.Context, visit func(*rota.Letter) (drop, more bool)) error {
	if b.link.bad != nil {
		return permanent{b.link.bad}
	}
	ctx, cancel := within(ctx)
	defer cancel()
	select {
	case b.turns <- struct{}{}:
		defer func() { <-b.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	ch, err := b.link.channel(ctx, &b.link.consuming)
	if err != nil {
		return err
	}
	if _, err := inspect(ctx, ch, b.link.set.dead); err != nil {
		closeChannel(ch)
		if code(err) == amqp.NotFound {
			return nil // there are no letters yet
		}
		return queueError(err, b.link.set.dead, "look at queue "+b.link.set.dead)
	}
	err = b.fetch(ctx, ch, visit)
	// Closing gives the others back, and is answered when what was dropped is gone. The lock
	// must not be released before.
	closed := do(context.WithoutCancel(ctx), ch.Close)
	if err == nil {
		err = closed
	}
	return plain(err)
}

func (b *letterBox) fetch(ctx context.Context, ch *amqp.Channel, visit func(*rota.Letter) (drop, more bool)) error {
	seen := map[string]int{}
	twins := func(sum string) int { seen[sum]++; return seen[sum] }
	for {
		d, err := call(ctx, func() (*amqp.Delivery, error) {
			d, ok, err := ch.Get(b.link.set.dead, false)
			if err != nil || !ok {
				return nil, err
			}
			return &d, nil
		}, func(*amqp.Delivery) {})
		if err != nil {
			return queueError(err, b.link.set.dead, "read queue "+b.link.set.dead)
		}
		if d == nil {
			return nil
		}
		l := readLetter(d, twins)
		drop, more := visit(&l)
		if drop {
			if err := ch.Ack(d.DeliveryTag, false); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// lock waits until no other connection reads the letters. The lock is a queue that belongs to
// our connection: the broker refuses it to others, and removes it when the connection ends.
func (b *letterBox) lock(ctx context.Context) (unlock func(), err error) {
	name := b.link.set.dead + ".lock"
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		ch, err := b.link.channel(ctx, &b.link.consuming)
		if err != nil {
			return nil, err
		}
		_, err = call(ctx, func() (amqp.Queue, error) {
			return ch.QueueDeclare(name, false, false, true, false, amqp.Table{amqp.QueueTypeArg: classic})
		}, func(amqp.Queue) {})
		if err == nil {
			return func() {
				do(context.Background(), func() error { _, err := ch.QueueDelete(name, false, false, false); return err })
				closeChannel(ch)
			}, nil
		}
		closeChannel(ch)
		if code(err) != amqp.ResourceLocked {
			return nil, queueError(err, name, "declare queue "+name)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("somebody else reads the letters: %w", ctx.Err())
		}
	}
}
