package rotatest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

const (
	keepsLost   = "it keeps the partition of a connection that has ended"
	keepsSilent = "it keeps the partition of a connection that is silent"
	dialsOnce   = "its source connects once only"
)

// linked is a MemSource whose partitions belong to connections: the broker gives a partition
// to the next one when the connection of its owner has ended, or was silent for a while.
type linked struct {
	memBroker
	l     net.Listener
	flaw  string
	mu    sync.Mutex
	owner map[string]net.Conn
}

// A source sends beats, and the broker waits for silence.
const (
	beatEvery   = 100 * time.Millisecond
	silenceTime = time.Second
)

func newLinked(t testing.TB, flaw string) *linked {
	b := &linked{memBroker: memBroker{NewMemSource(32, "q0", "q1")}, l: listen(t), flaw: flaw, owner: map[string]net.Conn{}}
	go accept(b.l, b.serve)
	return b
}

// serve answers "own PARTITION" and "settle PARTITION UPTO", and reads beats.
func (b *linked) serve(c net.Conn) {
	defer c.Close()
	var mine string
	in := bufio.NewReader(c)
	for {
		if b.flaw != keepsSilent {
			c.SetReadDeadline(time.Now().Add(silenceTime))
		}
		line, err := in.ReadString('\n')
		if err != nil {
			b.release(mine)
			return
		}
		var verb, partition string
		var upTo uint64
		fmt.Sscan(line, &verb, &partition, &upTo)
		switch verb {
		case "own":
			if !b.own(partition, c) {
				fmt.Fprintln(c, "busy")
				return
			}
			mine = partition
			fmt.Fprintln(c, "yours")
		case "settle":
			b.MemSource.mu.Lock()
			q := b.queues[partition]
			q.msgs = slices.DeleteFunc(slices.Clone(q.msgs), func(m rota.Message) bool { return m.Position <= upTo })
			b.MemSource.mu.Unlock()
			fmt.Fprintln(c, "settled")
		}
	}
}

func (b *linked) own(partition string, c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner[partition] != nil {
		return false
	}
	b.owner[partition] = c
	return true
}

func (b *linked) release(partition string) {
	if partition == "" || b.flaw == keepsLost {
		return
	}
	if b.flaw == toTheEnd {
		b.MemSource.mu.Lock()
		q := b.queues[partition]
		n := min(len(q.msgs), 32)
		q.msgs = slices.Concat(q.msgs[n:], q.msgs[:n])
		b.MemSource.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.owner, partition)
}

func (b *linked) Addr() string        { return b.l.Addr().String() }
func (b *linked) Tidy() error         { return nil }
func (b *linked) Source() rota.Source { return b.SourceAt(b.Addr()) }
func (b *linked) SourceAt(addr string) rota.Source {
	return &linking{MemSource: b.MemSource, addr: addr, flaw: b.flaw}
}

// linking is a source that owns partitions by a connection for each.
type linking struct {
	*MemSource
	addr, flaw string
	dialed     sync.Map
}

func (s *linking) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	for {
		c, in, err := s.link(own.Partition())
		if err == nil {
			return s.consume(ctx, own, deliver, c, in)
		}
		if _, again := s.dialed.LoadOrStore(own.Partition(), true); again && s.flaw == dialsOnce {
			<-own.Stop()
			return nil
		}
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *linking) link(partition string) (net.Conn, *bufio.Reader, error) {
	if _, again := s.dialed.Load(partition); again && s.flaw == dialsOnce {
		return nil, nil, errAway
	}
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, nil, err
	}
	c.SetReadDeadline(time.Now().Add(2 * silenceTime)) // the wire may be halted
	fmt.Fprintf(c, "own %s\n", partition)
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err == nil && line != "yours\n" {
		err = errors.New("somebody has it")
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	c.SetReadDeadline(time.Time{})
	return c, in, nil
}

func (s *linking) consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver, c net.Conn, in *bufio.Reader) error {
	s.dialed.Store(own.Partition(), true)
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	own.Started()
	s.mu.Lock()
	q := s.queues[own.Partition()]
	s.mu.Unlock()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		msgs, arrived := s.fetch(q)
		if len(msgs) == 0 {
			select {
			case <-own.Stop():
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-arrived:
			case <-beat.C:
				if _, err := fmt.Fprintln(c, "beat"); err != nil {
					return err
				}
			}
			continue
		}
		var done sync.WaitGroup
		handled := make(chan struct{})
		done.Go(func() { // beats go on while messages are handled
			for {
				select {
				case <-handled:
					return
				case <-beat.C:
					fmt.Fprintln(c, "beat")
				}
			}
		})
		n, err := deliver(ctx, msgs...)
		close(handled)
		done.Wait()
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		if n > 0 {
			settled := own.Settle(func() error {
				fmt.Fprintf(c, "settle %s %d\n", own.Partition(), msgs[n-1].Position)
				_, err := in.ReadString('\n')
				return err
			})
			if settled != nil {
				return settled
			}
		}
		if errors.Is(err, rota.ErrStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
