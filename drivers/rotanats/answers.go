package rotanats

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// answers sends requests and gives each its answer, by one subscription of a connection.
// nats.Conn.Request does the same; but its random numbers take 5 KB of every connection, and
// a thousand members have a thousand.
type answers struct {
	mu      sync.Mutex
	prefix  string // of the subjects of answers; "" before the first request
	asked   uint64
	waiting map[string]chan *nats.Msg // subject → where the answer goes
}

// ask sends a request and waits for its answer, until ctx ends.
func (a *answers) ask(ctx context.Context, nc *nats.Conn, msg *nats.Msg) (*nats.Msg, error) {
	reply, answer, err := a.expect(nc)
	if err != nil {
		return nil, err
	}
	defer a.forget(reply)
	if err := nc.PublishMsg(&nats.Msg{Subject: msg.Subject, Reply: reply, Header: msg.Header, Data: msg.Data}); err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nil, nats.ErrNoResponders
		}
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// expect returns the subject of an answer and where it will be.
func (a *answers) expect(nc *nats.Conn) (reply string, answer chan *nats.Msg, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prefix == "" {
		prefix := nc.NewInbox() + "."
		sub, err := nc.Subscribe(prefix+"*", a.deliver)
		if err != nil {
			return "", nil, err
		}
		sub.SetPendingLimits(-1, -1) // deliver never blocks
		a.prefix, a.waiting = prefix, map[string]chan *nats.Msg{}
	}
	a.asked++
	reply, answer = a.prefix+strconv.FormatUint(a.asked, 36), make(chan *nats.Msg, 1)
	a.waiting[reply] = answer
	return reply, answer, nil
}

func (a *answers) forget(reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, reply)
}

// deliver gives a message to the request that waits for it; one that comes late has none.
func (a *answers) deliver(msg *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply := msg.Subject
	if !strings.HasPrefix(reply, a.prefix) && len(a.waiting) == 1 {
		// The server maps subjects of this account, and the answer came by another one.
		for only := range a.waiting {
			reply = only
		}
	}
	if answer := a.waiting[reply]; answer != nil {
		delete(a.waiting, reply)
		answer <- msg
	}
}
