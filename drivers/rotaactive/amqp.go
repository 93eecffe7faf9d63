package rotaactive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/rota-dev/rota"
)

// An amqpConn is a client that speaks AMQP 1.0.
type amqpConn struct {
	conn    *amqp.Conn
	sender  *amqp.Sender       // to any queue
	ready   chan *amqp.Session // opened before they are needed
	markers *markers
}

// mostReady is how many sessions are opened before they are needed.
const mostReady = 32

// dialAMQP connects to a server by AMQP 1.0.
func dialAMQP(ctx context.Context, s *settings, server string) (client, error) {
	password, err := s.ReadPassword()
	if err != nil {
		return nil, permanent{err}
	}
	sign := amqp.SASLTypeAnonymous()
	if s.User != "" {
		sign = amqp.SASLTypePlain(s.User, string(password))
	}
	tcp, err := s.connect(ctx, server)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	conn, err := amqp.NewConn(ctx, tcp, &amqp.ConnOptions{HostName: host, SASLType: sign, IdleTimeout: silences * s.beat, WriteTimeout: writeTime})
	if err != nil {
		tcp.Close()
		if s.User == "" && strings.Contains(err.Error(), "auth failed") {
			return nil, permanent{fmt.Errorf("%s (%w)", wantsUser, err)}
		}
		return nil, sentence(err)
	}
	c := &amqpConn{conn: conn, ready: make(chan *amqp.Session, mostReady), markers: s.markers}
	session, err := conn.NewSession(ctx, nil)
	if err == nil {
		c.sender, err = session.NewSender(ctx, "", nil)
	}
	if err != nil {
		conn.Close()
		return nil, sentence(err)
	}
	return c, nil
}

// sentence returns what the broker says in an error, and the error itself where the broker
// says nothing.
func sentence(err error) error {
	var said *amqp.Error
	if errors.As(err, &said) && said.Description != "" {
		return inWords(fmt.Errorf("%s: %s", said.Condition, oneLine(said.Description)))
	}
	return inWords(err)
}

func (c *amqpConn) done() <-chan struct{} { return c.conn.Done() }

func (c *amqpConn) err() error {
	return fmt.Errorf("the connection was lost: %w", sentence(c.conn.Err()))
}

func (c *amqpConn) close() { c.conn.Close() }

func (c *amqpConn) send(ctx context.Context, msgs ...outgoing) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	receipts := make([]amqp.SendReceipt, len(msgs))
	for i := range msgs {
		var err error
		if receipts[i], err = c.sender.SendWithReceipt(ctx, writeMessage(&msgs[i]), nil); err != nil {
			return sentence(err)
		}
	}
	for i := range receipts {
		state, err := receipts[i].Wait(ctx)
		if err != nil {
			return sentence(err)
		}
		if refused, ok := state.(*amqp.StateRejected); ok {
			return sentence(&amqp.LinkError{RemoteErr: refused.Error})
		}
	}
	return nil
}

// browse sends a marker behind all other messages, reads up to it and removes it: the
// broker tells the end of a queue only in answer to a drain, which go-amqp sends without
// the credit that ActiveMQ wants with it. The marker is stored like all messages: ActiveMQ
// keeps no order between those that are and those that are not.
func (c *amqpConn) browse(ctx context.Context, queue string) (out []*delivery, err error) {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	name := c.markers.add()
	defer c.markers.remove(name)
	out, err = c.precede(ctx, outgoing{queue: queue, Message: rota.Message{Headers: []rota.Header{name, {Key: markerHeader, Value: []byte(c.markers.of)}}}})
	return out, errors.Join(err, c.remove(ctx, queue, selecting(nameHeader, string(name.Value))))
}

func (c *amqpConn) oldest(ctx context.Context, queue string) (*delivery, error) {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	r, err := c.receiver(ctx, node(queue)+"?consumer.browser=true", 1, &amqp.ReceiverOptions{})
	if err != nil {
		return nil, err
	}
	defer r.end()
	brief, end := context.WithTimeout(ctx, oldestTime)
	defer end()
	m, err := r.Receive(brief, nil)
	switch {
	case err == nil:
		return readMessage(m), nil
	case brief.Err() != nil && ctx.Err() == nil:
		return nil, nil
	}
	return nil, sentence(err)
}

// oldestTime is how long the oldest message of a queue is waited for, which may be empty.
const oldestTime = 200 * time.Millisecond

func (c *amqpConn) precede(ctx context.Context, msg outgoing) (out []*delivery, err error) {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	if err := c.send(ctx, msg); err != nil {
		return nil, err
	}
	r, err := c.receiver(ctx, node(msg.queue)+"?consumer.browser=true", mostBrowsed, &amqp.ReceiverOptions{})
	if err != nil {
		return nil, err
	}
	defer r.end()
	for {
		brief, end := context.WithTimeout(ctx, browseTime)
		m, err := r.Receive(brief, nil)
		late := brief.Err() != nil && ctx.Err() == nil
		end()
		switch {
		case late: // the broker does not show as many as there are
			return out, nil
		case err != nil:
			return nil, sentence(err)
		}
		switch d := readMessage(m); {
		case d.header(nameHeader) == msg.header(nameHeader):
			return out, nil
		case !isMarker(d):
			out = append(out, d)
		case c.markers.stale(d):
			if err := c.remove(ctx, msg.queue, d.selector()); err != nil && !errors.Is(err, rota.ErrNotFound) {
				return nil, err
			}
		}
	}
}

// markerHeader is the header of a marker, which is no message.
const markerHeader = "rota_marker"

func isMarker(d *delivery) bool { return d.header(markerHeader) != "" }

// markers are the messages that this source has sent to queues and is about to remove.
type markers struct {
	of string // a name that nobody else uses

	mu   sync.Mutex
	live map[string]bool
}

func newMarkers() *markers { return &markers{of: rand.Text(), live: map[string]bool{}} }

func (m *markers) add() rota.Header {
	name := rota.Header{Key: nameHeader, Value: []byte(m.of + "." + rand.Text())}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[string(name.Value)] = true
	return name
}

func (m *markers) remove(name rota.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, string(name.Value))
}

// stale tells whether such a message was left behind: by this source, when its connection was
// lost, or by one that has died.
func (m *markers) stale(d *delivery) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ours := strings.HasPrefix(d.header(nameHeader), m.of+".")
	return ours && !m.live[d.header(nameHeader)] || time.Since(d.Time) > markerTime
}

// markerTime is how long such a message is there at most while its client lives.
const markerTime = time.Minute

// browseTime is how long a broker may take to show the next message of a queue.
const browseTime = 3 * time.Second

// remove receives this one message.
func (c *amqpConn) remove(ctx context.Context, queue, selector string) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	r, err := c.receiver(ctx, node(queue), 1, &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{amqp.NewSelectorFilter(selector)}})
	if err != nil {
		return err
	}
	defer r.end()
	brief, end := context.WithTimeout(ctx, removeTime)
	defer end()
	m, err := r.Receive(brief, nil)
	if err == nil {
		err = r.AcceptMessage(ctx, m)
	} else if brief.Err() != nil && ctx.Err() == nil {
		err = rota.ErrNotFound
	}
	return errors.Join(sentence(err), sentence(r.Close(ctx)))
}

// ask receives the answers from a temporary queue.
func (c *amqpConn) ask(ctx context.Context, queues []string, show func(map[string]any) bool) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	r, err := c.receiver(ctx, "", len(queues)+spare, &amqp.ReceiverOptions{DynamicAddress: true})
	if err != nil {
		return err
	}
	defer r.end()
	var questions []outgoing
	for _, q := range queues {
		questions = append(questions, outgoing{queue: q, replyTo: r.Address(), expires: true})
	}
	if err := c.send(ctx, questions...); err != nil {
		return err
	}
	for {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			return sentence(err)
		}
		if err := r.AcceptMessage(ctx, m); err != nil {
			return sentence(err)
		}
		if show(mapOf(m.Value)) {
			return nil
		}
	}
}

// node is the address of a queue.
func node(queue string) string { return "queue://" + queue }

func (c *amqpConn) consume(ctx context.Context, queue string, prefetch int) (feed, error) {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	r, err := c.receiver(ctx, node(queue)+"?consumer.exclusive=true", prefetch, &amqp.ReceiverOptions{})
	if err != nil {
		return nil, err
	}
	f := &amqpFeed{r: r, prefetch: prefetch, in: make(chan *delivery, prefetch), gone: make(chan struct{})}
	f.receiving, f.stop = context.WithCancel(context.Background())
	go f.receive()
	return f, nil
}

// An amqpReceiver is a link with a session of its own, so that one whose opening was broken
// off can be ended as a whole: the broker might otherwise give the queue to a link that
// nobody reads.
type amqpReceiver struct {
	*amqp.Receiver
	c       *amqpConn
	session *amqp.Session
}

// prepare opens a session for the next receiver.
func (c *amqpConn) prepare(ctx context.Context) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	if len(c.ready) == cap(c.ready) {
		return nil
	}
	session, err := c.conn.NewSession(ctx, nil)
	if err != nil {
		return sentence(err)
	}
	select {
	case c.ready <- session:
	default: // others were quicker
		(&amqpReceiver{c: c, session: session}).end()
	}
	return nil
}

func (c *amqpConn) session(ctx context.Context) (*amqp.Session, error) {
	select {
	case s := <-c.ready:
		return s, nil
	default:
		return c.conn.NewSession(ctx, nil)
	}
}

// receiver opens a link that gets this many messages.
func (c *amqpConn) receiver(ctx context.Context, address string, credit int, opts *amqp.ReceiverOptions) (*amqpReceiver, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, sentence(err)
	}
	r := &amqpReceiver{c: c, session: session}
	opts.Credit = -1 // we issue it
	if r.Receiver, err = session.NewReceiver(ctx, address, opts); err == nil {
		err = r.IssueCredit(uint32(credit))
	}
	if err != nil {
		r.end()
		return nil, sentence(err)
	}
	return r, nil
}

// end closes the link and its session without waiting for it. If the broker does not
// confirm that, the whole connection ends.
func (r *amqpReceiver) end() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		if r.Receiver != nil {
			r.Close(ctx)
		}
		if r.session.Close(ctx); ctx.Err() != nil {
			r.c.close()
		}
	}()
}

// An amqpFeed is one subscription by AMQP 1.0.
type amqpFeed struct {
	r        *amqpReceiver
	prefetch int
	credit   int // of messages that were settled: it is issued when it is worth a frame
	in       chan *delivery

	receiving context.Context
	stop      context.CancelFunc

	gone   chan struct{}
	reason error // set before gone is closed
	ending sync.Once
}

// receive moves messages into the feed's own queue, which has room for the whole credit.
func (f *amqpFeed) receive() {
	for {
		m, err := f.r.Receive(f.receiving, nil)
		if err != nil {
			if f.receiving.Err() == nil {
				f.reason = fmt.Errorf("the subscription has ended: %w", sentence(err))
				close(f.gone)
			}
			return
		}
		select {
		case f.in <- readMessage(m):
		case <-f.receiving.Done():
			return
		}
	}
}

func (f *amqpFeed) arrived() <-chan *delivery { return f.in }
func (f *amqpFeed) failed() <-chan struct{}   { return f.gone }
func (f *amqpFeed) err() error                { return f.reason }

func (f *amqpFeed) together() bool { return false } // each is settled by itself

func (f *amqpFeed) settle(ctx context.Context, all []*delivery) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	// The credit goes first. It is sent before the next settlement, and certainly before the
	// link is closed: go-amqp might send it later, and the broker ends a connection that
	// speaks of a closed link.
	if f.credit += len(all); f.credit >= f.prefetch/4 {
		if err := f.r.IssueCredit(uint32(f.credit)); err != nil {
			return sentence(err)
		}
		f.credit = 0
	}
	for _, d := range all {
		if err := f.r.AcceptMessage(ctx, d.ack.(*amqp.Message)); err != nil {
			return sentence(err)
		}
	}
	return nil
}

// end waits until the broker has closed its end of the link. It carries out what was sent
// on a session in order, so all settlements have reached it by then.
func (f *amqpFeed) end(ctx context.Context) (err error) {
	err = errEnded
	f.ending.Do(func() {
		ctx, cancel := within(ctx, callTime)
		defer cancel()
		f.stop()
		err = sentence(f.r.Close(ctx))
		f.r.end()
	})
	return err
}

func (f *amqpFeed) abandon() {
	f.ending.Do(func() {
		f.stop()
		f.r.end()
	})
}

// mapOf returns a map with strings as keys.
func mapOf(v any) map[string]any {
	out := map[string]any{}
	switch m := v.(type) {
	case map[string]any:
		return m
	case map[any]any:
		for k, v := range m {
			out[fmt.Sprint(k)] = v
		}
	}
	return out
}
