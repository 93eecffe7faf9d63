package rotatest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rota-dev/rota"
)

const (
	staysThere  = "it stays with the endpoint that was killed"
	skipsOne    = "it leaves out a message at a failover"
	goesBack    = "it delivers again what was settled long ago, at a failover"
	repeatsSome = "it delivers a message twice, without a failover"
	losesSent   = "the broker forgets a message that it has confirmed"
)

// TestFailoverCase shows that a sound source passes, and that sources with one flaw do not.
func TestFailoverCase(t *testing.T) {
	run := func(flaw string) func(testing.TB) {
		return func(tb testing.TB) {
			goElsewhere(newSourceTest(tb, &pairBroker{memBroker: memBroker{NewMemSource(8, "q0", "q1", "q2")}, pair: [2]*awayServer{newAwayServer(), newAwayServer()}, flaw: flaw}))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		if said := probed(t, run("")); said != "" {
			t.Errorf("a sound source: %s", said)
		}
	})
	for flaw, says := range map[string]string{
		staysThere:  "what was published after the kill of the first is handled",
		skipsOne:    "were done",
		goesBack:    "at most 8 were not settled",
		repeatsSome: "no endpoint was killed since",
		losesSent:   "were done",
	} {
		t.Run(flaw, func(t *testing.T) { bites(t, says, run(flaw)) })
	}
}

// pairBroker is a MemSource behind two endpoints.
type pairBroker struct {
	memBroker
	pair [2]*awayServer
	flaw string
}

func (b *pairBroker) Source() rota.Source { return &pairSource{MemSource: b.MemSource, b: b} }

func (b *pairBroker) Unsettled() int { return 8 }

func (b *pairBroker) Send(_ context.Context, partition string, value []byte) error {
	if b.flaw == losesSent && string(value) == partition+" 60" {
		return nil
	}
	for _, s := range b.pair {
		if state, _ := s.now(); state == "running" {
			return b.Publish(partition, value)
		}
	}
	return errAway
}

func (b *pairBroker) Serving(_ context.Context, round int) (Endpoint, error) {
	s := b.pair[round%2]
	return Endpoint{[]string{"the first", "the second"}[round%2], s.Kill, s.Start}, nil
}

// pairSource is a client of a pairBroker.
type pairSource struct {
	*MemSource
	b  *pairBroker
	mu sync.Mutex
	at int
}

// server returns the endpoint of this client, the other one if the last is away.
func (s *pairSource) server() *awayServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, _ := s.b.pair[s.at].now(); state != "running" && s.b.flaw != staysThere {
		s.at = 1 - s.at
	}
	return s.b.pair[s.at]
}

func (s *pairSource) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	q, err := s.attach(own)
	if err != nil {
		return err
	}
	defer s.detach(q)
	own.Started()
	var past []rota.Message
	was := s.server()
	for {
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		server := s.server()
		state, changed := server.now()
		msgs, arrived := s.fetch(q)
		if state != "running" || len(msgs) == 0 {
			select {
			case <-arrived:
			case <-changed:
			case <-own.Stop():
			case <-ctx.Done():
			}
			continue
		}
		if server != was {
			was = server
			switch s.b.flaw {
			case skipsOne:
				s.settle(q, own.Token(), msgs, nil)
				msgs, _ = s.fetch(q) // which nobody has handled
				s.settle(q, own.Token(), msgs[:1], nil)
				continue
			case goesBack:
				deliver(ctx, past[:min(len(past), 1)]...)
			}
		}
		if s.b.flaw == repeatsSome && len(past) >= 30 {
			deliver(ctx, past[len(past)-3])
			past = nil
		}
		n, err := deliver(ctx, msgs...)
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		if s.server() != server {
			continue // what was not settled is delivered again
		}
		if err := own.Settle(func() error { return s.settle(q, own.Token(), msgs[:n], nil) }); err != nil {
			return err
		}
		past = append(past, msgs[:n]...)
		if errors.Is(err, rota.ErrStop) {
			return nil
		}
	}
}
