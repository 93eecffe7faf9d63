package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// pulses are the times at which messages of each partition were handled.
type pulses struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (p *pulses) add(partition string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[partition] = append(p.at[partition], time.Now())
}

// silence waits until so many messages of a partition were handled after an instant, and
// returns the longest time without one since then.
func (p *pulses) silence(t testing.TB, partition string, since time.Time, messages int) (longest time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		at := p.at[partition]
		first, _ := slices.BinarySearchFunc(at, since, time.Time.Compare)
		after := slices.Clone(at[first:])
		p.mu.Unlock()
		if len(after) >= messages {
			for last := since; len(after) > 0; after = after[1:] {
				longest, last = max(longest, after[0].Sub(last)), after[0]
			}
			return longest
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d messages in two minutes", partition, len(after))
		}
	}
}

// keepPublishing publishes to each partition, one message after the other, until halt is
// called or the test ends. halt returns how many messages each has.
func (b *broker) keepPublishing(t testing.TB, partitions []string) (halt func() []int) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	sent := make([]int, len(partitions))
	for i, p := range partitions {
		wg.Go(func() {
			for ctx.Err() == nil {
				sent[i]++
				if err := b.Publish(p, fmt.Appendf(nil, "%s %d", p, sent[i])); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond): // the rate of the publisher
				}
			}
		})
	}
	halt = sync.OnceValue(func() []int { stop(); wg.Wait(); return sent })
	t.Cleanup(func() { halt() })
	return halt
}

// TestElectionOfAConsumersLeader makes the leader of each consumer step down while messages
// flow. The next leader may not know of the owner's pull. With ROTA_ELECTIONS=48, as
// make elections runs it, it is tried so often, beside a consumer of the NATS client,
// and no partition may be silent for more than half a second. Other tests run beside
// it otherwise, so then only a stall is an error.
func TestElectionOfAConsumersLeader(t *testing.T) {
	times, most := elections(t, 6), 5*time.Second
	if os.Getenv("ROTA_ELECTIONS") != "" {
		most = 500 * time.Millisecond
	}
	_, b, l, p := beside(t)
	var ours, bare []time.Duration
	for i := range times {
		ours = append(ours, b.stepDown(t, p, b.names[i%len(b.names)]))
		if i%4 == 0 {
			bare = append(bare, b.stepDown(t, p, b.bare(0)))
		}
	}
	t.Logf("longest silences: %v; of a consumer of the NATS client: %v; %d messages came again", rounded(ours), rounded(bare), l.again)
	if longest := slices.Max(ours); longest > most {
		t.Errorf("a partition was silent for %v", longest)
	}
}

// TestRollingRestart restarts the servers of a cluster one after the other while messages
// flow. No partition may be silent for much longer than one that the NATS client consumes
// by itself.
func TestRollingRestart(t *testing.T) {
	times, most := elections(t, 2), 10*time.Second
	if os.Getenv("ROTA_ELECTIONS") != "" {
		times, most = max(times/4, 3), 500*time.Millisecond
	}
	c, b, l, p := beside(t)
	var ours, bare []time.Duration
	for i := range times {
		n := c.Nodes[i%len(c.Nodes)]
		since := time.Now()
		if err := errors.Join(n.Stop(t.Context()), n.Start(t.Context()), n.Ready(t.Context())); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		var our, other time.Duration
		for k, name := range b.names {
			p.silence(t, name, back, 20)
			p.silence(t, b.bare(k), back, 20)
			our, other = max(our, p.silence(t, name, since, 20)), max(other, p.silence(t, b.bare(k), since, 20))
		}
		ours, bare = append(ours, our), append(bare, other)
	}
	t.Logf("longest silences: %v; of consumers of the NATS client: %v; %d messages came again", rounded(ours), rounded(bare), l.again)
	if longest, other := slices.Max(ours), slices.Max(bare); longest > other+most {
		t.Errorf("a partition was silent for %v, one of the NATS client for %v", longest, other)
	}
}

// elections returns how often a test is to be tried: as often as ROTA_ELECTIONS says, alone,
// or a few times beside other tests.
func elections(t *testing.T, few int) int {
	text := os.Getenv("ROTA_ELECTIONS")
	if text == "" {
		t.Parallel()
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// beside runs a group on a cluster, and beside it as many consumers of the NATS client, while
// messages flow to all.
func beside(t *testing.T) (*cluster, *broker, *ledger, *pulses) {
	t.Helper()
	c := startCluster(t)
	b := newBroker(t, c.URL(), func(c *jetstream.StreamConfig) { c.Replicas = 3 })
	p := &pulses{at: map[string][]time.Time{}}
	l := newLedger(t)
	l.other = func(m rota.Message) bool { p.add(m.Partition); return false }
	mem := rotatest.NewMemStore()
	for _, name := range []string{"a", "b"} {
		l.member(name, mem.Open(), b.Source())
	}
	all := slices.Clone(b.names)
	for i := range b.names {
		b.consumeBare(t, b.bare(i), p)
		all = append(all, b.bare(i))
	}
	b.keepPublishing(t, all)
	for _, name := range all {
		p.silence(t, name, time.Now(), 5)
	}
	return c, b, l, p
}

// bare is a partition that no group consumes.
func (b *broker) bare(i int) string { return fmt.Sprintf("%s.in.bare%d", b.stream, i) }

// stepDown makes the leader of a partition's consumer step down, and returns how long the
// partition was silent.
func (b *broker) stepDown(t testing.TB, p *pulses, partition string) time.Duration {
	t.Helper()
	p.silence(t, partition, time.Now(), 5)
	since := time.Now()
	for deadline := since.Add(30 * time.Second); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := b.js.Conn().RequestWithContext(ctx, "$JS.API.CONSUMER.LEADER.STEPDOWN."+b.stream+"."+b.consumer(partition), nil)
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	return p.silence(t, partition, since, 10)
}

// consumeBare consumes a partition with the NATS client alone.
func (b *broker) consumeBare(t testing.TB, partition string, p *pulses) {
	t.Helper()
	c, err := b.js.CreateConsumer(t.Context(), b.stream, jetstream.ConsumerConfig{Durable: partition[strings.LastIndexByte(partition, '.')+1:], FilterSubject: partition, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.Consume(func(m jetstream.Msg) {
		p.add(partition)
		m.Ack()
	}, jetstream.PullMaxMessages(256), jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.Stop)
}

// rounded returns sorted milliseconds.
func rounded(list []time.Duration) (out []time.Duration) {
	for _, d := range slices.Sorted(slices.Values(list)) {
		out = append(out, d.Round(time.Millisecond))
	}
	return out
}
