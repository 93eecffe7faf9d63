package rotarabbit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A queue has one group of readers. Which, is noted at the broker: for each queue there is an
// exchange, to which nobody publishes, with the name of the group as its alternate exchange.
// RabbitMQ refuses to declare an exchange with another one, in words that name both: a
// compare-and-set in one request, durable, and known to every node of a cluster.

const (
	notePrefix  = "rota.reads."
	groupPrefix = "rota.group."
)

// noteName is the name of the exchange. Names have at most 255 bytes.
func noteName(queue string) string {
	if len(notePrefix)+len(queue) <= 255 {
		return notePrefix + queue
	}
	sum := sha256.Sum256([]byte(queue))
	return notePrefix + hex.EncodeToString(sum[:])
}

// Bind implements rota.Binder.
func (s *source) Bind(group string) error {
	if s.bad != nil {
		return s.bad
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group != "" && s.group != group {
		return fmt.Errorf("rotarabbit: group %s reads this source already: give group %s a source of its own", s.group, group)
	}
	if group == s.set.takeover {
		return fmt.Errorf("rotarabbit: takeover=%s names the group itself: leave it out", group)
	}
	s.group = group
	return nil
}

// claim notes that our group reads a queue. It closes the channel if the broker refuses.
func (s *source) claim(ctx context.Context, ch *amqp.Channel, queue string) error {
	s.mu.Lock()
	group := s.group
	s.mu.Unlock()
	err := do(ctx, func() error {
		return ch.ExchangeDeclare(noteName(queue), "fanout", true, false, true, false, amqp.Table{"alternate-exchange": groupPrefix + group})
	})
	switch code(err) {
	case amqp.PreconditionFailed:
		return &taken{queue, group, formerGroup(err), err}
	case amqp.AccessRefused:
		return said(err, "this user may not note which group reads queue %s: give it the right to configure, write and read %s.*", queue, "rota")
	}
	return plain(err)
}

// taken is the error about a queue that another group reads.
type taken struct {
	queue, group, by string
	err              error
}

func (t *taken) Error() string {
	by := t.by
	if by == "" {
		by = "another"
	}
	return fmt.Sprintf("group %s reads queue %s, and this is group %s: a queue has one group of readers; give this one queues of its own, bound to the same exchange, or stop group %[1]s and add takeover=%[1]s to the URL (%[4]v)", by, t.queue, t.group, plain(t.err))
}

func (t *taken) Unwrap() error { return t.err }

// formerGroup reads the group out of the broker's refusal: … current is the value
// 'rota.group.NAME' of type 'longstr'. It is empty if there is none.
func formerGroup(err error) string {
	var e *amqp.Error
	if !errors.As(err, &e) {
		return ""
	}
	_, current, ok := strings.Cut(e.Reason, "but current is")
	if !ok {
		return ""
	}
	_, name, ok := strings.Cut(current, "'"+groupPrefix)
	if !ok {
		return ""
	}
	name, _, ok = strings.Cut(name, "' of type")
	if !ok {
		return ""
	}
	return name
}

// inherit removes the note of the group that the URL names. The next claim is ours, unless a
// member of that group comes first.
func (s *source) inherit(ctx context.Context, ch *amqp.Channel, queue string) error {
	return do(ctx, func() error { return ch.ExchangeDelete(noteName(queue), false, false) })
}
