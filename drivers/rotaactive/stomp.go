package rotaactive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-stomp/stomp/v3/frame"

	"github.com/rota-dev/rota"
)

// A stompConn is a client that speaks STOMP. Frames are read and written by go-stomp's
// package frame. The connection is our own, since that of go-stomp stops when one
// subscription is not read, and knows no timeout for a request: see docs/decisions.md.
type stompConn struct {
	conn *timedConn
	out  chan *frame.Frame

	ended  chan struct{}
	finish sync.Once
	reason error // set before ended is closed

	mu       sync.Mutex
	last     uint64                                   // number of the last request or subscription
	receipts map[string]func(error)                   // by receipt; called once, without the lock
	sinks    map[string]func(f *frame.Frame, e error) // by subscription; called by the reader
}

// silences is how many heart-beats of the broker may be missing.
const silences = 3

// mostOut is how many frames may wait to be written.
const mostOut = 256

// dialSTOMP connects to a server by STOMP.
func dialSTOMP(ctx context.Context, s *settings, server string) (client, error) {
	conn, err := s.connect(ctx, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c := &stompConn{conn: &timedConn{conn, silences * s.beat, writeTime}, out: make(chan *frame.Frame, mostOut), ended: make(chan struct{}),
		receipts: map[string]func(error){}, sinks: map[string]func(*frame.Frame, error){}}
	r := frame.NewReaderSize(c.conn, 1<<16)
	err = c.signIn(s, r, server)
	if !stop() {
		err = fmt.Errorf("no answer to CONNECT: is this the port of another protocol? (%w)", ctx.Err())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	go c.read(r)
	go c.write(s.beat / 2)
	return c, nil
}

// signIn sends CONNECT and waits for CONNECTED.
func (c *stompConn) signIn(s *settings, r *frame.Reader, server string) error {
	password, err := s.ReadPassword()
	if err != nil {
		return permanent{err}
	}
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	beat := strconv.FormatInt(s.beat.Milliseconds(), 10)
	hello := frame.New(frame.CONNECT, frame.AcceptVersion, "1.2", frame.Host, host, frame.HeartBeat, beat+","+beat)
	if s.User != "" {
		hello.Header.Add(frame.Login, s.User)
		hello.Header.Add(frame.Passcode, string(password))
	}
	if err := frame.NewWriter(c.conn).Write(hello); err != nil {
		return err
	}
	for {
		f, err := r.Read()
		switch {
		case errors.Is(err, frame.ErrInvalidCommand) || errors.Is(err, frame.ErrInvalidFrameFormat):
			return fmt.Errorf("it does not speak STOMP: is this the port of another protocol? (%w)", err)
		case err != nil:
			return err
		case f == nil: // a heart-beat
			continue
		case f.Command == frame.ERROR:
			return errorOf(f)
		case f.Command != frame.CONNECTED || f.Header.Get(frame.Version) != "1.2":
			return fmt.Errorf("it answers %.40q, version %.40q: rota needs STOMP 1.2", f.Command, f.Header.Get(frame.Version))
		}
		if sends, _, err := frame.ParseHeartBeat(f.Header.Get(frame.HeartBeat)); err != nil || sends == 0 {
			c.conn.read = 0 // it sends no heart-beats: silence says nothing
		}
		return nil
	}
}

// errorOf returns the words of an ERROR frame. The body has a stack trace, and the class of
// the error where there are no words.
func errorOf(f *frame.Frame) error {
	text := f.Header.Get(frame.Message)
	if text == "" || text == "null" {
		text, _, _ = strings.Cut(string(f.Body[:min(len(f.Body), 500)]), "\n")
	}
	return fmt.Errorf("%s", oneLine(text))
}

// read reads frames until the connection ends. It never waits for anybody: otherwise one
// partition would stop all others, and the heart-beats.
func (c *stompConn) read(r *frame.Reader) {
	for {
		f, err := r.Read()
		if err != nil {
			c.fail(explainRead(err))
			return
		}
		if f == nil {
			continue // a heart-beat
		}
		switch f.Command {
		case frame.MESSAGE:
			c.mu.Lock()
			sink := c.sinks[f.Header.Get(frame.Subscription)]
			c.mu.Unlock()
			if sink != nil { // otherwise the subscription has just ended
				sink(f, nil)
			}
		case frame.RECEIPT:
			c.receipt(f.Header.Get(frame.ReceiptId), nil)
		case frame.ERROR:
			if err := inWords(errorOf(f)); !c.receipt(f.Header.Get(frame.ReceiptId), err) {
				c.fail(err)
				return
			}
		}
	}
}

// explainRead says what the end of a connection means.
func explainRead(err error) error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("the broker's heart-beats are missing")
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the broker has closed the connection (%w)", err)
	}
	return err
}

// receipt ends the request that waits for it, and tells whether there is one.
func (c *stompConn) receipt(id string, err error) bool {
	c.mu.Lock()
	end := c.receipts[id]
	delete(c.receipts, id)
	c.mu.Unlock()
	if end != nil {
		end(err)
	}
	return end != nil
}

// write writes frames, and a heart-beat at each tick. What is due together is sent
// together.
func (c *stompConn) write(every time.Duration) {
	buffer := bufio.NewWriterSize(c.conn, 1<<16)
	w := frame.NewWriter(buffer)
	beat := time.NewTicker(every)
	defer beat.Stop()
	for {
		var err error
		select {
		case f := <-c.out:
			err = w.Write(f)
		case <-beat.C:
			err = w.Write(nil)
		case <-c.ended:
			return
		}
		for more := true; more && err == nil; {
			select {
			case f := <-c.out:
				err = w.Write(f)
			default:
				more = false
			}
		}
		if err == nil {
			err = buffer.Flush()
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// fail ends the connection and everything on it.
func (c *stompConn) fail(err error) {
	c.finish.Do(func() {
		c.reason = fmt.Errorf("the connection was lost: %w", err)
		close(c.ended)
		c.conn.Close()
		c.mu.Lock()
		receipts, sinks := c.receipts, c.sinks
		c.receipts, c.sinks = map[string]func(error){}, map[string]func(*frame.Frame, error){}
		c.mu.Unlock()
		for _, end := range receipts {
			end(c.reason)
		}
		for _, sink := range sinks {
			sink(nil, c.reason)
		}
	})
}

func (c *stompConn) done() <-chan struct{} { return c.ended }
func (c *stompConn) err() error            { return c.reason }
func (c *stompConn) close()                { c.fail(errClosed) }

// post queues a frame to be written.
func (c *stompConn) post(ctx context.Context, f *frame.Frame) error {
	select {
	case c.out <- f:
		return nil
	case <-c.ended:
		return c.reason
	case <-ctx.Done():
		return ctx.Err()
	}
}

// name makes a name that is new on this connection.
func (c *stompConn) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return strconv.FormatUint(c.last, 10)
}

// request posts a frame that wants a receipt. end is called once, with the answer or the
// end of the connection, and must not block.
func (c *stompConn) request(ctx context.Context, f *frame.Frame, end func(error)) error {
	id := c.name()
	f.Header.Set(frame.Receipt, id)
	c.mu.Lock()
	c.receipts[id] = end
	c.mu.Unlock()
	if err := c.post(ctx, f); err != nil {
		c.mu.Lock()
		delete(c.receipts, id)
		c.mu.Unlock()
		return err
	}
	select {
	case <-c.ended: // it may have ended before the receipt was noted
		c.receipt(id, c.reason)
	default:
	}
	return nil
}

// call is request, and waits for the answer.
func (c *stompConn) call(ctx context.Context, f *frame.Frame) error {
	answer := make(chan error, 1)
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	if err := c.request(ctx, f, func(err error) { answer <- err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the broker does not answer: %w", ctx.Err())
	}
}

// within adds a timeout to a ctx without a deadline.
func within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// listen makes a sink for a new subscription, and remove ends it.
func (c *stompConn) listen(id string, sink func(*frame.Frame, error)) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sinks[id] = sink
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sinks, id)
	}
}

// unsubscribe ends a subscription without waiting for anything.
func (c *stompConn) unsubscribe(id string) {
	go c.post(context.Background(), frame.New(frame.UNSUBSCRIBE, frame.Id, id)) // until the connection ends
}

func destination(queue string) string { return "/queue/" + queue }

// send sends all messages and then waits for all receipts.
func (c *stompConn) send(ctx context.Context, msgs ...outgoing) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	answers := make(chan error, len(msgs))
	for i := range msgs {
		if err := c.request(ctx, writeFrame(&msgs[i]), func(err error) { answers <- err }); err != nil {
			return err
		}
	}
	var failed error
	for range msgs {
		select {
		case err := <-answers:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return fmt.Errorf("the broker does not answer: %w", ctx.Err())
		}
	}
	return failed
}

// browse reads until the broker says that this is the end.
func (c *stompConn) browse(ctx context.Context, queue string) ([]*delivery, error) {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	type result struct {
		list []*delivery
		err  error
	}
	id, end := c.name(), make(chan result, 1)
	finish := func(r result) {
		select {
		case end <- r:
		default: // it has ended already
		}
	}
	var list []*delivery
	defer c.listen(id, func(f *frame.Frame, err error) {
		switch {
		case err != nil:
			finish(result{nil, err})
		case f.Header.Get("browser") == "end":
			finish(result{list, nil})
		case len(list) < mostBrowsed:
			if d := readFrame(f); !isMarker(d) {
				list = append(list, d)
			}
		}
	})()
	f := frame.New(frame.SUBSCRIBE, frame.Id, id, frame.Destination, destination(queue), frame.Ack, frame.AckAuto, "browser", "true")
	err := c.request(ctx, f, func(err error) {
		if err != nil {
			finish(result{nil, err})
		}
	})
	if err != nil {
		return nil, err
	}
	defer c.unsubscribe(id)
	select {
	case r := <-end:
		return r.list, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the broker does not answer: %w", ctx.Err())
	}
}

func (c *stompConn) oldest(ctx context.Context, queue string) (*delivery, error) {
	all, err := c.browse(ctx, queue)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

func (c *stompConn) precede(ctx context.Context, msg outgoing) ([]*delivery, error) {
	if err := c.send(ctx, msg); err != nil {
		return nil, err
	}
	all, err := c.browse(ctx, msg.queue)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(d *delivery) bool { return d.header(nameHeader) == msg.header(nameHeader) }); i >= 0 {
		all = all[:i] // otherwise the broker does not show as many as there are
	}
	return all, nil
}

// mostBrowsed limits what is read of a queue, whatever the broker shows.
const mostBrowsed = 10_000

// remove subscribes to this one message.
func (c *stompConn) remove(ctx context.Context, queue, selector string) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	sub, err := c.subscribe(ctx, queue, 1, "selector", selector)
	if err != nil {
		return err
	}
	defer sub.abandon()
	wait := time.NewTimer(removeTime)
	defer wait.Stop()
	select {
	case d := <-sub.arrived():
		if err := sub.settle(ctx, []*delivery{d}); err != nil {
			return err
		}
		return sub.end(ctx)
	case <-sub.failed():
		return sub.err()
	case <-wait.C:
		return rota.ErrNotFound
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removeTime is how long a broker has to find a message that it has just shown.
const removeTime = 5 * time.Second

// ask subscribes to a temporary queue for the answers.
func (c *stompConn) ask(ctx context.Context, queues []string, show func(map[string]any) bool) error {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	id := c.name()
	replies := "/temp-queue/rota-" + id
	end := make(chan error, 1)
	defer c.listen(id, func(f *frame.Frame, err error) {
		if err == nil {
			var answer map[string]any
			if answer, err = readMap(f.Body); err == nil && !show(answer) {
				return
			}
		}
		select {
		case end <- err:
		default: // it has ended already
		}
	})()
	err := c.call(ctx, frame.New(frame.SUBSCRIBE, frame.Id, id, frame.Destination, replies, frame.Ack, frame.AckAuto, "transformation", "jms-map-json"))
	if err != nil {
		return err
	}
	defer c.unsubscribe(id)
	for _, q := range queues {
		if err := c.post(ctx, writeFrame(&outgoing{queue: q, replyTo: replies, expires: true})); err != nil {
			return err
		}
	}
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
