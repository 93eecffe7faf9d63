package rotanats

import (
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// elections tells pumps of a cluster that their consumer has another leader, which may not
// know their pulls. Without it a lost pull shows only when heartbeats are missing. One
// subscription serves all pumps of a source.
type elections struct {
	mu      sync.Mutex
	waiting map[string]chan struct{} // by consumer; each channel has room for one
	sub     *nats.Subscription       // nil until the first pump of a cluster; the client keeps it through reconnects
}

// await returns a channel that gets an element after each election of the consumer's leader.
// If the server refuses the subscription, the link warns of that, and the channel stays empty.
func (e *elections) await(s *source, nc *nats.Conn, consumer string) (elected <-chan struct{}, remove func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[string]chan struct{}{}
	}
	if e.sub == nil && nc.ConnectedClusterName() != "" {
		sub, err := nc.Subscribe("$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED."+s.set.Stream+".*", e.tell)
		if err != nil {
			s.set.Log.Debug("cannot hear of elections", "err", err)
		}
		e.sub = sub
	}
	c := make(chan struct{}, 1)
	e.waiting[consumer] = c
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.waiting[consumer] == c {
			delete(e.waiting, consumer)
		}
	}
}

// tell tells the pump of the consumer that an advisory is about.
func (e *elections) tell(advisory *nats.Msg) {
	consumer := advisory.Subject[strings.LastIndexByte(advisory.Subject, '.')+1:]
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.waiting[consumer]; c != nil {
		signal(c)
	}
}
