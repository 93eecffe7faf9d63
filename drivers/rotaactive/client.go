package rotaactive

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/rota-dev/rota"
)

// A client is one connection to a broker. It is the contract that both protocols meet;
// everything else in this package is written once, for both.
type client interface {
	// prepare does what the next consume would otherwise wait for.
	prepare(ctx context.Context) error

	// consume subscribes to a queue as its exclusive consumer, or waits behind another
	// one. It returns when the broker has confirmed the subscription.
	consume(ctx context.Context, queue string, prefetch int) (feed, error)

	// send sends messages to queues, in order, and returns when the broker has stored
	// all of them. If it fails, some may be stored.
	send(ctx context.Context, msgs ...outgoing) error

	// browse returns the messages of a queue, oldest first, and leaves them there. The
	// broker shows a limited number.
	browse(ctx context.Context, queue string) ([]*delivery, error)

	// oldest returns the oldest message of a queue and leaves it there; nil if the broker
	// shows none soon.
	oldest(ctx context.Context, queue string) (*delivery, error)

	// precede sends a message and returns those that are before it in its queue.
	precede(ctx context.Context, msg outgoing) ([]*delivery, error)

	// remove removes the one message that a selector finds, and returns an error that
	// wraps rota.ErrNotFound if the broker does not show it.
	remove(ctx context.Context, queue, selector string) error

	// ask sends an empty message to each of the broker's own queues and calls show with
	// each answer until show returns true.
	ask(ctx context.Context, queues []string, show func(answer map[string]any) (done bool)) error

	// done is closed when the connection has ended, by close or for the reason err.
	done() <-chan struct{}
	err() error
	close()
}

// A dialer connects to one server and signs in.
type dialer func(ctx context.Context, s *settings, server string) (client, error)

// A feed is one subscription.
type feed interface {
	// arrived has the messages that have come, never more than the prefetch. They come in
	// here as they arrive, whether somebody waits for them or not: a subscription that is
	// not read would stop all others of its connection, and its heart-beats.
	arrived() <-chan *delivery

	// settle tells the broker that these messages are done: the oldest that are not.
	settle(ctx context.Context, all []*delivery) error

	// together tells whether messages that are settled together cost little more than one.
	together() bool

	// failed is closed when the broker has ended the subscription or refused a
	// settlement, or the connection has ended, for the reason err.
	failed() <-chan struct{}
	err() error

	// end ends the subscription: the broker gives what is not settled to the next
	// consumer, in order. It returns when the broker has confirmed that, and with it every
	// settlement before.
	end(ctx context.Context) error

	// abandon ends the subscription without waiting. If the broker does not confirm it
	// soon, the whole connection ends, and the subscription with it.
	abandon()
}

// A delivery is a message as it has arrived.
type delivery struct {
	rota.Message
	id  string // of the broker, if it finds messages by it
	ack any    // what the protocol settles it by
}

// nameHeader is the header of messages that are to be found again. IDs are not enough: by
// AMQP the broker shows those of the sender, if there are any, and finds none of them.
const nameHeader = "rota_name"

// newName makes a header with a name that nobody else uses.
func newName() rota.Header { return rota.Header{Key: nameHeader, Value: []byte(rand.Text())} }

// selector finds this message among those of its queue. It is empty if nothing can.
func (d *delivery) selector() string {
	if name := d.header(nameHeader); name != "" {
		return selecting(nameHeader, name)
	}
	if d.id == "" {
		return ""
	}
	return selecting("JMSMessageID", d.id)
}

func (d *delivery) header(key string) string { return headerOf(&d.Message, key) }
func (o *outgoing) header(key string) string { return headerOf(&o.Message, key) }

// headerOf is the value of a header; "" if there is none.
func headerOf(m *rota.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func selecting(property, value string) string {
	return property + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
}

// An outgoing is a message to be sent.
type outgoing struct {
	queue string
	rota.Message
	replyTo string
	expires bool // it is a question to the broker: nobody needs it later
}
