//go:build linux

package processes

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A mill publishes to every partition of a test, in order and without end. It has to know
// what the broker has confirmed, so it calls what rota produce calls.
type mill struct {
	c    *crew
	to   publisher
	stop context.CancelFunc
	done sync.WaitGroup
	sent []int // per partition, confirmed

	most       int            // so many for each partition; 0 for no end
	mu         sync.Mutex     // guards unanswered
	unanswered map[string]int // by the name of a partition: publications without an answer

	each []atomic.Int32 // per partition: so many at a time
	idle []atomic.Bool  // per partition: the last round has published nothing there
}

// grind starts a mill. With NATS it begins once members have made the stream.
func (c *crew) grind(every time.Duration) *mill { return c.grindBy(every, 1, 0) }

// grindUpTo starts a mill that is as quick as the broker, and ends with a number of messages for each
// partition.
func (c *crew) grindUpTo(most int) *mill { return c.grindBy(time.Millisecond, 100, most) }

func (c *crew) grindBy(every time.Duration, each int32, most int) *mill {
	c.Helper()
	c.ready()
	c.appear()
	ctx, cancel := context.WithCancel(context.Background())
	m := &mill{c: c, most: most, unanswered: map[string]int{}, to: c.publisher(), stop: cancel, sent: make([]int, c.parts), each: make([]atomic.Int32, c.parts), idle: make([]atomic.Bool, c.parts)}
	for p := range m.each {
		m.each[p].Store(each)
	}
	c.Cleanup(func() {
		cancel()
		m.done.Wait() // before the broker's part of the test is removed
	})
	m.done.Go(func() { m.run(ctx, every) })
	return m
}

func (m *mill) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var all sync.WaitGroup
		for p := range m.sent {
			all.Go(func() {
				n := m.each[p].Load()
				for range n {
					m.publish(p)
				}
				m.idle[p].Store(n == 0)
			})
		}
		all.Wait()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *mill) publish(p int) {
	if m.most > 0 && m.sent[p] >= m.most {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := m.to.Publish(ctx, m.c.partition(p), fmt.Append(nil, m.sent[p]))
	if err == nil {
		m.sent[p]++
		return
	}
	m.mu.Lock() // it is there twice then, or there is nothing to publish to yet
	defer m.mu.Unlock()
	m.unanswered[m.c.partition(p)]++
}

// rest publishes nothing more to a partition, and waits until all of it has arrived.
func (m *mill) rest(p int) {
	m.c.Helper()
	m.each[p].Store(0)
	m.c.until("the mill to rest", m.idle[p].Load)
	m.c.until("everything to arrive", func() bool { return m.c.sink.counts("")[m.c.partition(p)] == m.sent[p] })
}

// finish stops and waits until the sink has got everything.
func (m *mill) finish() error {
	m.stop()
	m.done.Wait()
	return m.c.sink.await(m.c, m.sent)
}

// fill lets rota produce publish as much to every partition.
func (c *crew) fill(each int) {
	c.Helper()
	c.ready()
	c.appear()
	if b := c.host.broker; b.stream != nil {
		if _, err := b.stream(c).CreateStream(c.Context(), jetstream.StreamConfig{Name: c.stream(), Subjects: []string{c.stream() + ".*"}}); err != nil {
			c.Fatal(err)
		}
	}
	var lines strings.Builder
	for n := range each {
		for range c.parts { // to which they are published in turn
			fmt.Fprintln(&lines, n)
		}
	}
	cmd := exec.Command(c.rota, "produce", "--source", c.sourceURL(), "-")
	cmd.Stdin = strings.NewReader(lines.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		c.Fatalf("rota produce: %v: %s", err, out)
	}
}
