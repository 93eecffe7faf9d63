//go:build linux

package processes

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestFrozenOwners freezes an owner that has fetched as many messages as it may. The next owner
// begins with the first message that was not settled: no message is skipped, and no more are
// repeated than the driver leaves unsettled. With ROTA_FROZEN=50, as make frozen-owners sets it,
// each broker has so many trials, and the next owner has to begin within the lease and three
// heartbeats of the broker.
func TestFrozenOwners(t *testing.T) {
	v := os.Getenv("ROTA_FROZEN")
	if v == "" {
		t.Skip("ROTA_FROZEN is not set: make frozen-owners runs this")
	}
	t.Parallel()
	trials, err := strconv.Atoi(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range chosenPairs(t) {
		if p.store != "embedded" {
			continue // what is shown is the broker's
		}
		t.Run(p.broker, func(t *testing.T) {
			t.Parallel()
			h, f := p.serve(t), freezes{}
			t.Run("trials", func(t *testing.T) {
				for i := range trials {
					t.Run(fmt.Sprint(i), func(t *testing.T) {
						t.Parallel()
						f.trial(newCrew(t, h, 2))
					})
				}
			})
			f.judge(t, h.broker)
		})
	}
}

// freezes are what the trials of one broker came to.
type freezes struct {
	mu       sync.Mutex
	silences []time.Duration // from the freeze to the first message of the next owner
	repeats  []int
}

// trial lets one of two members be frozen.
func (f *freezes) trial(c *crew) {
	const each = 600
	to := c.stock(each)
	c.sink.slow(5 * time.Millisecond)
	c.join(false, "s", "v")
	v := c.member("v")
	p := ""
	c.until("v to be at work", func() bool {
		for name := range v.owns {
			p = c.partition(partNumber(name))
		}
		return p != "" && c.sink.counts("")[p] >= 30
	})
	token := c.tokens([]string{"v"})[c.part(p)]
	began := time.Now()
	v.signal(syscall.SIGSTOP)
	sent := []int{each, each}
	sent[partNumber(c.part(p))]++ // it may have handled all the others already
	if err := to.Publish(c.Context(), p, fmt.Append(nil, each)); err != nil {
		c.Fatal(err)
	}
	var next beginning
	c.until("the next owner to begin", func() (is bool) {
		next, is = c.sink.begun(p, token)
		return is
	})
	c.sink.slow(0)
	v.signal(syscall.SIGCONT)
	if err := c.sink.await(c, sent); err != nil {
		c.Error(err)
	}
	v.code()
	if err := c.judge(); err != nil {
		c.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silences, f.repeats = append(f.silences, next.at.Sub(began)), append(f.repeats, next.next-next.number)
}

// stock publishes as much to every partition, and returns the publisher. One publishes all, since
// rota check takes the numbers at the end of ActiveMQ's IDs, which are those of a publisher, for the
// order.
func (c *crew) stock(each int) publisher {
	c.Helper()
	if c.host.broker.stream != nil { // which fill makes
		c.fill(each)
		return c.publisher()
	}
	c.ready()
	c.appear()
	to := c.publisher()
	var values [][]byte
	for n := range each {
		values = append(values, fmt.Append(nil, n))
	}
	for p := range c.parts {
		if err := to.Publish(c.Context(), c.partition(p), values...); err != nil {
			c.Fatal(err)
		}
	}
	return to
}

// judge compares what the trials came to with what is promised.
func (f *freezes) judge(t *testing.T, b *broker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.silences) == 0 {
		return // the trials have failed
	}
	slices.Sort(f.silences)
	slices.Sort(f.repeats)
	n := len(f.silences)
	most := lease + 3*b.beat
	t.Logf("%d trials: the next owner began after %v (median) and %v (at most), of %v that are permitted; %d messages were repeated at most, of %d", n,
		f.silences[n/2].Round(time.Millisecond), f.silences[n-1].Round(time.Millisecond), most, f.repeats[n-1], b.window)
	if f.silences[n-1] > most {
		t.Errorf("the next owner began after %v: %v", f.silences[n-1], f.silences)
	}
	if f.repeats[n-1] > b.window {
		t.Errorf("%d messages were repeated: %v", f.repeats[n-1], f.repeats)
	}
}

// partNumber is the number of what scenarios call a partition.
func partNumber(name string) int {
	n, _ := strconv.Atoi(name[1:])
	return n
}
