package rotanats_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
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
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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
			t.Fatalf("%s: %d messages in a minute", partition, len(after))
		}
	}
}

// keepPublishing publishes to each partition, one message after the other, until the test
// ends.
func (b *broker) keepPublishing(t testing.TB, partitions []string) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, p := range partitions {
		wg.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				if err := b.Publish(p, fmt.Appendf(nil, "%s %d", p, n)); err != nil && ctx.Err() == nil {
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
	t.Cleanup(func() { stop(); wg.Wait() })
}

// TestElectionOfAConsumersLeader makes the leader of each consumer step down while messages
// flow. The next leader may not know of the owner's pull. With ROTA_ELECTIONS=48, as
// make elections runs it, it is tried so often, beside a consumer of the NATS client,
// and no partition may be silent for more than half a second. Other tests run beside
// it otherwise, so then only a stall is an error.
func TestElectionOfAConsumersLeader(t *testing.T) {
	times, most := 6, 5*time.Second
	if text := os.Getenv("ROTA_ELECTIONS"); text != "" {
		var err error
		if times, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		most = 500 * time.Millisecond
	} else {
		t.Parallel()
	}
	c := startCluster(t)
	b := newBroker(t, c.URL(), func(c *jetstream.StreamConfig) { c.Replicas = 3 })
	p := &pulses{at: map[string][]time.Time{}}
	l := newLedger(t)
	l.other = func(m rota.Message) bool { p.add(m.Partition); return false }
	mem := rotatest.NewMemStore()
	for _, name := range []string{"a", "b"} {
		l.member(name, mem.Open(), b.Source())
	}
	bare := b.stream + ".in.bare"
	b.bare(t, bare, p)
	b.keepPublishing(t, append(slices.Clone(b.names), bare))
	l.wait("all are consumed", 60*time.Second, l.reached(b, 5))
	var rota, client []time.Duration
	for i := range times {
		name := b.names[i%len(b.names)]
		rota = append(rota, b.stepDown(t, p, name))
		if i%4 == 0 {
			client = append(client, b.stepDown(t, p, bare))
		}
	}
	slices.Sort(rota)
	slices.Sort(client)
	t.Logf("longest silences: %v; of a consumer of the NATS client: %v; %d messages came again", rounded(rota), rounded(client), l.again)
	if longest := rota[len(rota)-1]; longest > most {
		t.Errorf("a partition was silent for %v", longest)
	}
}

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

// bare consumes a partition with the NATS client alone.
func (b *broker) bare(t testing.TB, partition string, p *pulses) {
	t.Helper()
	c, err := b.js.CreateConsumer(t.Context(), b.stream, jetstream.ConsumerConfig{Durable: "bare", FilterSubject: partition, AckPolicy: jetstream.AckExplicitPolicy})
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

func rounded(list []time.Duration) (out []time.Duration) {
	for _, d := range list {
		out = append(out, d.Round(time.Millisecond))
	}
	return out
}
