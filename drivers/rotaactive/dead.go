package rotaactive

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota"
)

// Headers of a dead letter. They are names that a selector of JMS can contain. A message
// that is dead-lettered loses headers of its own that begin with rota_, so that nobody
// takes them for these.
const (
	ownHeaders     = "rota_"
	headerGroup    = "rota_group"
	headerQueue    = "rota_partition"
	headerMessage  = "rota_message"      // its ID
	headerSent     = "rota_message_time" // when it was sent
	headerReason   = "rota_error"
	headerAttempts = "rota_attempts"
	headerTime     = "rota_time" // when it became a dead letter
	headerFormer   = "rota_former"
)

// storeLetter sends a letter to the queue of dead letters. ActiveMQ could move the message
// there by itself, upon a NACK, but not with the reason, the attempts and the group.
func (s *source) storeLetter(ctx context.Context, l *rota.Letter) error {
	c, err := s.connected(ctx, s.side)
	if err == nil {
		err = c.send(ctx, outgoing{queue: s.set.deadQueue(), Message: writeLetter(l)})
	}
	if err != nil {
		return fmt.Errorf("cannot dead-letter a message of %s to %s: %w", l.Message.Partition, s.set.deadQueue(), err)
	}
	return nil
}

// writeLetter makes a message to be sent.
func writeLetter(l *rota.Letter) rota.Message {
	out := rota.Message{Key: l.Message.Key, Value: l.Message.Value, Headers: []rota.Header{newName()}}
	for _, h := range []struct{ key, value string }{
		{headerGroup, l.Group}, {headerQueue, l.Message.Partition}, {headerMessage, oneLine(l.Message.ID)}, {headerSent, stamp(l.Message.Time)},
		{headerReason, oneLine(l.Reason)}, {headerAttempts, strconv.Itoa(l.Message.Attempt)}, {headerTime, stamp(l.Time)}, {headerFormer, l.Former},
	} {
		if h.value != "" {
			out.Headers = append(out.Headers, rota.Header{Key: h.key, Value: []byte(h.value)})
		}
	}
	for _, h := range l.Message.Headers {
		if !strings.HasPrefix(h.Key, ownHeaders) {
			out.Headers = append(out.Headers, h)
		}
	}
	return out
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// readLetter decodes a letter. Anybody who may send to the queue can write any headers, so
// ours count only if they are complete. Without them a letter has a message and no
// history: the broker has put it there, or somebody else.
func readLetter(d *delivery) rota.Letter {
	l := rota.Letter{ID: letterID(d), Time: d.Time, Reason: "not known: the letter has no headers that rota has written", Message: d.Message}
	l.Message.Headers, l.Message.Attempt = nil, 1
	own := map[string]string{}
	for _, h := range d.Headers {
		if strings.HasPrefix(h.Key, ownHeaders) {
			own[h.Key] = string(h.Value)
		} else {
			l.Message.Headers = append(l.Message.Headers, h)
		}
	}
	attempts, err1 := strconv.ParseUint(own[headerAttempts], 10, 31)
	dead, err2 := time.Parse(time.RFC3339Nano, own[headerTime])
	sent, err3 := time.Parse(time.RFC3339Nano, own[headerSent])
	if own[headerSent] == "" {
		sent, err3 = time.Time{}, nil
	}
	if errors.Join(err1, err2, err3) != nil || attempts == 0 || checkQueue(own[headerQueue]) != nil {
		return l
	}
	l.Message.Partition, l.Message.ID, l.Message.Attempt, l.Message.Time = own[headerQueue], oneLine(own[headerMessage]), int(attempts), sent
	l.Time, l.Reason, l.Group = dead, oneLine(own[headerReason]), oneLine(own[headerGroup])
	if plainID(own[headerFormer]) {
		l.Former = own[headerFormer]
	}
	return l
}

// letterID is a short name for a message, since the IDs of the broker have no limit.
func letterID(d *delivery) string {
	of := d.selector()
	if of == "" {
		of = d.Time.String() + string(d.Value)
	}
	sum := sha256.Sum256([]byte(of))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

func plainID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// letters are the messages in the queue of dead letters.
func (s *source) letters(ctx context.Context) (client, []*delivery, error) {
	c, err := s.connected(ctx, s.side)
	if err != nil {
		return nil, nil, err
	}
	all, err := c.browse(ctx, s.set.deadQueue())
	if err != nil {
		return nil, nil, fmt.Errorf("dead letters in %s: %w", s.set.deadQueue(), err)
	}
	return c, all, nil
}

// Letters implements rota.DeadLetters. The queue of dead letters may have those of other
// sources too: only letters of our partitions are shown, and those that are of none.
func (s *source) Letters(ctx context.Context, partition string) iter.Seq2[rota.Letter, error] {
	return func(yield func(rota.Letter, error) bool) {
		_, all, err := s.letters(ctx)
		if err != nil {
			yield(rota.Letter{}, named(err))
			return
		}
		for _, d := range all {
			l := readLetter(d)
			if of := l.Message.Partition; partition != "" && of != partition || of != "" && !slices.Contains(s.set.queues, of) {
				continue
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

// DropLetter implements rota.DeadLetters.
func (s *source) DropLetter(ctx context.Context, id string) error {
	c, all, err := s.letters(ctx)
	if err != nil {
		return named(err)
	}
	i := slices.IndexFunc(all, func(d *delivery) bool { return letterID(d) == id })
	if i < 0 {
		return fmt.Errorf("rotaactive: dead letter %.64q in %s: %w", id, s.set.deadQueue(), rota.ErrNotFound)
	}
	which := all[i].selector()
	if which == "" {
		return fmt.Errorf("rotaactive: dead letter %s in %s has no ID, that AMQP finds it by, since rota has not sent it: drop it with a URL of STOMP", id, s.set.deadQueue())
	}
	if err := c.remove(ctx, s.set.deadQueue(), which); err != nil {
		return fmt.Errorf("rotaactive: drop dead letter %s in %s: %w", id, s.set.deadQueue(), err)
	}
	return nil
}

// RenewLetter implements rota.DeadLetters.
func (s *source) RenewLetter(ctx context.Context, l rota.Letter) error {
	if err := s.storeLetter(ctx, &l); err != nil {
		return named(err)
	}
	return s.DropLetter(ctx, l.Former)
}
