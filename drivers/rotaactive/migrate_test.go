package rotaactive

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/go-stomp/stomp/v3"

	"github.com/rota-dev/rota"
)

// migrates does what docs/migrate.md says of ActiveMQ: consumers of a plain client consume queues
// for a while, are stopped while messages flow, and a group goes on. Each message is handled once,
// and in order.
func migrates(t *testing.T, b *broker) {
	plain := plainSTOMP
	if strings.HasPrefix(b.scheme, "amqp") {
		plain = plainAMQP
	}
	l := &ledger{done: map[string]int{}}
	halt, sent, wg := make(chan struct{}), map[string]int{}, sync.WaitGroup{}
	wg.Go(func() { sent = flow(b, halt) })
	ended := sync.OnceFunc(func() { close(halt); wg.Wait() })
	t.Cleanup(ended)
	flows := func(who string) {
		t.Helper()
		before := l.sum()
		eventually(t, who+" handles messages", func() bool { return l.sum() > before+60 })
	}
	var stops []func()
	for _, q := range b.names {
		stops = append(stops, plain(t, b.addr, q, l))
	}
	flows("the client")
	for _, stop := range stops {
		stop()
	}
	b.member(t, b.Source(), nil, func(c *rota.Config) { c.Handle = l.handle })
	flows("the group")
	ended()
	eventually(t, "all messages are handled", func() bool { return l.has(sent) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.repeated > 0 || len(l.errs) > 0 {
		t.Errorf("%d messages were handled twice; %q", l.repeated, l.errs)
	}
}

// plainSTOMP consumes a queue by go-stomp. stop is what the page says: it finishes the message in
// hand, handles no other, and disconnects with a receipt, so that its acknowledgement has arrived.
func plainSTOMP(t *testing.T, addr, queue string, l *ledger) (stop func()) {
	t.Helper()
	c, err := stomp.Dial("tcp", addr, stomp.ConnOpt.HeartBeat(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := c.Subscribe(destination(queue), stomp.AckClientIndividual, stomp.SubscribeOpt.Header("activemq.prefetchSize", "20"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // of the message in hand
	var stopped bool
	go func() {
		for m := range sub.C { // to the end: one that nobody reads stops the connection
			mu.Lock()
			if !stopped && m.Err == nil {
				l.handle(t.Context(), rota.Message{Partition: queue, Value: m.Body})
				if err := c.Ack(m); err != nil {
					t.Error(err)
				}
			}
			mu.Unlock()
		}
	}()
	return sync.OnceFunc(func() {
		mu.Lock()
		stopped = true
		mu.Unlock()
		if err := c.Disconnect(); err != nil {
			t.Error(err)
		}
	})
}

// plainAMQP consumes a queue by go-amqp. stop finishes the message in hand, and ends the session.
func plainAMQP(t *testing.T, addr, queue string, l *ledger) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c, err := amqp.Dial(ctx, "amqp://"+addr, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.NewReceiver(ctx, node(queue), &amqp.ReceiverOptions{Credit: 20})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, err := r.Receive(ctx, nil)
			if err != nil {
				return
			}
			l.handle(ctx, rota.Message{Partition: queue, Value: m.GetData()})
			if err := r.AcceptMessage(context.Background(), m); err != nil {
				t.Error(err)
			}
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-ended
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

// flow publishes numbered messages to all queues until stop is closed, each until it was
// confirmed. A message that was stored, but not confirmed, is there twice.
func flow(b *broker, stop <-chan struct{}) map[string]int {
	sent := map[string]int{}
	for {
		for _, q := range b.names {
			msg := rota.Message{Value: fmt.Append(nil, sent[q]+1)}
			for {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				err := b.pub.publish(ctx, q, msg)
				cancel()
				if err == nil {
					sent[q]++
					break
				}
				select {
				case <-stop:
					return sent
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
		select {
		case <-stop:
			return sent
		case <-time.After(time.Millisecond):
		}
	}
}

// A ledger notes what was handled of each queue. Messages are numbered from 1.
type ledger struct {
	mu       sync.Mutex
	done     map[string]int // queue → all up to here were handled
	repeated int
	errs     []string
}

func (l *ledger) handle(_ context.Context, m rota.Message) error {
	var n int
	fmt.Sscan(string(m.Value), &n)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch done := l.done[m.Partition]; {
	case n == done+1:
		l.done[m.Partition] = n
	case n <= done:
		l.repeated++
	default:
		l.errs = append(l.errs, fmt.Sprintf("%s: message %d comes after %d", m.Partition, n, done))
	}
	return nil
}

func (l *ledger) sum() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.done {
		n += d
	}
	return n
}

func (l *ledger) has(sent map[string]int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for q, n := range sent {
		if l.done[q] < n {
			return false
		}
	}
	return true
}
