package rotaredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A feed is one connection to a node that is subscribed to channels, for all watches of
// the store. It never goes on after its connection was lost: the client would subscribe
// again by itself, and changes in between would be missing without a sign.
type feed struct {
	n      *node
	client *redis.Client
	ps     *redis.PubSub
	bySlot bool // the channels of a Cluster belong to slots
	gone   chan struct{}
	asked  chan struct{} // with room for one: there is something to subscribe to or to end

	mu     sync.Mutex
	topics map[string]*topic
	why    error
}

// A topic is a channel that watches want. Its state changes only when the server has
// confirmed the last request, so that requests cannot overtake each other.
type topic struct {
	watches map[*watch]bool
	state   topicState
	on      chan struct{} // closed when the server has confirmed the subscription
}

type topicState int

const (
	wanted topicState = iota // to be subscribed to
	asking                   // the request is sent
	on
	leaving // the request to end it is sent
)

var (
	errGone   = errors.New("the connection was lost")
	errSilent = errors.New("the server does not answer")
	errMoved  = errors.New("the Cluster has moved the group to another node")
)

func openFeed(n *node) *feed {
	o := n.set.options(n.addr, false)
	o.OnConnect = n.connected
	dial, used := o.Dialer, false
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if used { // only the client's reconnect comes here
			return brokenConn{err: errGone}, nil
		}
		used = true
		return dial(ctx, network, addr)
	}
	f := &feed{n: n, client: redis.NewClient(o), bySlot: n.set.kind == cluster, gone: make(chan struct{}), asked: make(chan struct{}, 1), topics: map[string]*topic{}}
	f.ps = f.client.Subscribe(context.Background()) // connects with the first channel
	go f.ask()
	return f
}

// add registers a watch of a channel and returns once the server tells of its changes.
func (f *feed) add(ctx context.Context, channel string, w *watch) error {
	f.mu.Lock()
	t := f.topics[channel]
	if t == nil {
		t = &topic{watches: map[*watch]bool{}, on: make(chan struct{})}
		f.topics[channel] = t
	}
	t.watches[w] = true
	confirmed := t.on
	f.mu.Unlock()
	signal(f.asked)
	select {
	case <-confirmed:
		return nil
	case <-f.gone:
		return f.ended()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *feed) remove(channel string, w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[channel]; t != nil {
		delete(t.watches, w)
		signal(f.asked)
	}
}

// ask sends requests for topics until the feed ends. It starts the reader after the first
// one, which has connected.
func (f *feed) ask() {
	reading := false
	for {
		select {
		case <-f.gone:
			return
		case <-f.asked:
		}
		subscribe, unsubscribe := f.due()
		if err := f.send(subscribe, unsubscribe); err != nil {
			f.fail(err)
			return
		}
		if !reading && len(subscribe) > 0 {
			reading = true
			go f.read()
		}
	}
}

// send sends requests. In a Cluster each has one channel, since those of different slots
// must not be in one.
func (f *feed) send(subscribe, unsubscribe []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if !f.bySlot {
		if len(subscribe) > 0 {
			if err := f.ps.Subscribe(ctx, subscribe...); err != nil {
				return err
			}
		}
		if len(unsubscribe) > 0 {
			return f.ps.Unsubscribe(ctx, unsubscribe...)
		}
		return nil
	}
	for _, channel := range subscribe {
		if err := f.ps.SSubscribe(ctx, channel); err != nil {
			return err
		}
	}
	for _, channel := range unsubscribe {
		if err := f.ps.SUnsubscribe(ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

// due returns the channels to subscribe to and those to end, and marks them as asked.
func (f *feed) due() (subscribe, unsubscribe []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for channel, t := range f.topics {
		switch {
		case t.state == wanted && len(t.watches) == 0:
			delete(f.topics, channel)
		case t.state == wanted:
			t.state = asking
			subscribe = append(subscribe, channel)
		case t.state == on && len(t.watches) == 0:
			t.state, t.on = leaving, make(chan struct{})
			unsubscribe = append(unsubscribe, channel)
		}
	}
	return subscribe, unsubscribe
}

// read receives until the connection is lost or the feed ends.
func (f *feed) read() {
	silent := 0
	for f.ended() == nil {
		msg, err := f.ps.ReceiveTimeout(context.Background(), pingEvery)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			if silent++; silent > pingsLost {
				f.fail(errSilent)
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), pingEvery)
			err = f.ps.Ping(ctx)
			cancel()
			if err != nil {
				f.fail(err)
				return
			}
			continue
		case err != nil:
			f.fail(err)
			return
		}
		silent = 0
		switch m := msg.(type) {
		case *redis.Subscription:
			f.confirmed(m)
		case *redis.Message:
			f.changed(m)
		}
	}
}

// confirmed handles the server's answer to a request.
func (f *feed) confirmed(m *redis.Subscription) {
	f.mu.Lock()
	t := f.topics[m.Channel]
	begins := m.Kind == "subscribe" || m.Kind == "ssubscribe"
	switch {
	case t == nil:
	case begins && t.state == asking:
		t.state = on
		close(t.on)
	case !begins && t.state == leaving:
		t.state = wanted
	default: // nobody asked for it
		f.mu.Unlock()
		f.fail(errMoved)
		return
	}
	f.mu.Unlock()
	signal(f.asked) // what is wanted may have changed meanwhile
}

// changed passes a change on to the watches of its channel.
func (f *feed) changed(m *redis.Message) {
	f.mu.Lock()
	var watches []*watch
	if t := f.topics[m.Channel]; t != nil {
		watches = slices.Collect(maps.Keys(t.watches))
	}
	f.mu.Unlock()
	for _, w := range watches {
		w.touch(m.Payload)
	}
}

func (f *feed) ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// fail ends the feed and, by its channel gone, all watches.
func (f *feed) fail(err error) {
	f.mu.Lock()
	if f.why != nil {
		f.mu.Unlock()
		return
	}
	f.why = fmt.Errorf("rotaredis: the watch may have missed changes: %w", inWords(err))
	close(f.gone)
	f.mu.Unlock()
	go func() { // it may wait for a write in flight
		f.ps.Close()
		f.client.Close()
	}()
}

// signal fills a channel that has room for one, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// jitter returns a time around d, so that members do not all come at once.
func jitter(d time.Duration) time.Duration { return d/2 + time.Duration(newNonce())*d/(1<<nonceBits) }
