package rotanats_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A campaign hands partitions over all the time while messages flow and faults happen, on
// one kind of server. Its ledger looks for gaps and for messages under two sessions. The
// campaign itself looks for lower tokens behind higher ones, for partitions that stay
// silent after a fault, and for requests beyond reason.
type campaign struct {
	*testing.T
	*broker
	l      *ledger
	mem    *rotatest.MemStore
	faults []fault

	pulses   pulses
	diary    diary
	started  atomic.Int64          // ownerships: each begins with a hand-over
	highest  map[string]rota.Token // guarded by the ledger
	members  int
	leave    []func()
	silences map[string][]time.Duration // by fault
}

// A fault happens, and is over when do returns.
type fault struct {
	name string
	do   func() error
}

// TestCampaign runs a campaign on a server and on an embedded one, small beside other tests. With
// ROTA_CAMPAIGN=7000,110, as make nats-campaign runs it, each kind of server has one, with
// so many hand-overs and faults, and no partition may be silent for more than 5 s after a
// fault.
func TestCampaign(t *testing.T) {
	handOvers, faults, most := 150, 4, 90*time.Second
	alone := os.Getenv("ROTA_CAMPAIGN") != ""
	if alone {
		if _, err := fmt.Sscanf(os.Getenv("ROTA_CAMPAIGN"), "%d,%d", &handOvers, &faults); err != nil {
			t.Fatal(err)
		}
		most = 5 * time.Second
	}
	kinds := map[string]func(*testing.T) *campaign{"single": onSingle, "embedded": onEmbedded}
	if alone {
		kinds["cluster"] = onCluster
	}
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			if !alone {
				t.Parallel()
			}
			open(t).run(handOvers, faults, most)
		})
	}
}

func onEmbedded(t *testing.T) *campaign {
	dir := filepath.Join(t.TempDir(), "data")
	kill := host(t, dir)
	c := newCampaign(t, "folder:"+dir, 1)
	c.faults = append(c.faults, fault{"server killed", func() error {
		next := host(t, dir) // takes over
		kill()
		kill = next
		return nil
	}})
	return c
}

func onSingle(t *testing.T) *campaign {
	s := rotatest.StartNATS(t)
	c := newCampaign(t, s.URL(), 1)
	c.faults = append(c.faults, killed(t, s), frozen(s))
	return c
}

func onCluster(t *testing.T) *campaign {
	cluster := startCluster(t)
	c := newCampaign(t, cluster.URL(), 3)
	n := 0
	next := func(of func(*rotatest.RealServer) fault) func() error {
		return func() error { n++; return of(cluster.Nodes[n%len(cluster.Nodes)]).do() }
	}
	c.faults = append(c.faults,
		fault{"server killed", next(func(s *rotatest.RealServer) fault { return killed(t, s) })},
		fault{"server frozen", next(frozen)},
		fault{"leader of the stream steps down", func() error { return c.ask("$JS.API.STREAM.LEADER.STEPDOWN." + c.stream) }},
		fault{"leader of a consumer steps down", func() error {
			return c.ask("$JS.API.CONSUMER.LEADER.STEPDOWN." + c.stream + "." + c.some())
		}})
	return c
}

func killed(t *testing.T, s *rotatest.RealServer) fault {
	return fault{"server killed", func() error {
		if err := s.Kill(); err != nil {
			return err
		}
		if err := s.Start(t.Context()); err != nil {
			return err
		}
		return s.Ready(t.Context())
	}}
}

func frozen(s *rotatest.RealServer) fault {
	return fault{"server frozen", func() error {
		if err := s.Freeze(); err != nil {
			return err
		}
		time.Sleep(time.Second) // the fault
		return s.Thaw()
	}}
}

func newCampaign(t *testing.T, url string, replicas int) *campaign {
	t.Helper()
	b := newBroker(t, url, func(c *jetstream.StreamConfig) { c.Replicas = replicas })
	for i := len(b.names); i < 16; i++ {
		b.names = append(b.names, fmt.Sprintf("%s.in.%d", b.stream, i))
	}
	c := &campaign{T: t, broker: b, l: newLedger(t), mem: rotatest.NewMemStore(), pulses: pulses{at: map[string][]time.Time{}},
		highest: map[string]rota.Token{}, silences: map[string][]time.Duration{}}
	c.l.other = func(m rota.Message) bool {
		c.pulses.add(m.Partition)
		if m.Token < c.highest[m.Partition] {
			t.Errorf("%s: token %d behind %d", m.Partition, m.Token, c.highest[m.Partition])
		}
		c.highest[m.Partition] = m.Token
		return false
	}
	c.faults = []fault{
		{"consumer deleted", func() error { return c.ask("$JS.API.CONSUMER.DELETE." + c.stream + "." + c.some()) }},
		{"notes in memory deleted", func() error { return c.ask("$JS.API.STREAM.DELETE.KV_rota-sources-now") }},
	}
	return c
}

// some returns the name of some consumer, "none" if they cannot be listed.
func (c *campaign) some() string {
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	if st, err := c.js.Stream(ctx, c.stream); err == nil {
		for name := range st.ConsumerNames(ctx).Name() {
			return name
		}
	}
	return "none"
}

// ask sends a request whose answer may be that somebody else was faster.
func (c *campaign) ask(subject string) error {
	_, err := c.js.Conn().Request(subject, nil, 10*time.Second)
	return err
}

// join runs one more member.
func (c *campaign) join() (leave func()) {
	c.members++
	name := fmt.Sprint("m", c.members)
	log := slog.New(slog.NewTextHandler(&c.diary, &slog.HandlerOptions{Level: slog.LevelDebug})).With("member", name)
	source := rotanats.Source(with(c.url, fmt.Sprintf("stream=%s&subject=%[1]s.in.*&partitions=%d", c.stream, len(c.names))), rotanats.Log(log))
	ctx, cancel := context.WithCancel(c.T.Context())
	ended := c.l.memberUntil(ctx, name, c.mem.Open(), source, func(cfg *rota.Config) {
		cfg.Lease, cfg.Heartbeat = 15*time.Second, 0
		cfg.Trace = func(e rota.Event) {
			if e.Kind == rota.EventStart {
				c.started.Add(1)
			}
			if e.Partition != "" && e.Kind != rota.EventHandle && e.Kind != rota.EventHandled {
				log.Debug(string(e.Kind), "partition", e.Partition, "token", e.Token)
			}
		}
	})
	return func() {
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("%s: %v", name, err)
		}
		source.(interface{ Close() error }).Close()
	}
}

// churn replaces one member after the other until it is told to end. It waits until each
// partition has gone on, for five seconds at most: on a busy machine an owner would leave
// before it can have handled a message, and so would the next.
func (c *campaign) churn(rest func(time.Duration) bool) {
	for i := 0; rest(100 * time.Millisecond); i = (i + 1) % len(c.leave) {
		c.leave[i]()
		c.leave[i] = c.join()
		for since := time.Now(); !c.pulses.everywhere(c.names, since) && time.Since(since) < 5*time.Second; {
			if !rest(10 * time.Millisecond) {
				return
			}
		}
	}
}

// everywhere tells whether each partition has had a message since an instant.
func (p *pulses) everywhere(partitions []string, since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(partitions, func(name string) bool {
		at := p.at[name]
		return len(at) == 0 || at[len(at)-1].Before(since)
	})
}

func (c *campaign) run(handOvers, faults int, most time.Duration) {
	for range 4 {
		c.leave = append(c.leave, c.join())
	}
	halt := c.keepPublishing(c.T, c.names)
	for _, p := range c.names {
		c.pulses.silence(c.T, p, time.Now(), 3)
	}
	begun, requests := time.Now(), c.requests()
	during(c.T, c.churn, func() {
		for i := range faults {
			c.suffer(c.faults[i%len(c.faults)], most)
		}
		for deadline := time.Now().Add(time.Hour); c.started.Load() < int64(handOvers) && !c.Failed(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				c.Fatalf("%d hand-overs in an hour", c.started.Load())
			}
		}
	})
	asked, sent := requests.Load(), halt()
	c.l.wait("every message is handled", 2*time.Minute, func() bool {
		for i, p := range c.names {
			if c.l.done[p] < sent[i] {
				return false
			}
		}
		return true
	})
	total := 0
	for _, n := range sent {
		total += n
	}
	c.checkRequests(asked, total, faults)
	c.Logf("%d hand-overs, %d faults, %d messages, %d came again, %d requests in %v", c.started.Load(), faults, total, c.l.again, asked, time.Since(begun).Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(c.silences)) {
		list := slices.Sorted(slices.Values(c.silences[name]))
		c.Logf("silence after %s: median %v, longest %v, of %d", name, list[len(list)/2].Round(time.Millisecond), list[len(list)-1].Round(time.Millisecond), len(list))
	}
}

// led returns nil if every consumer of the stream has a leader.
func (c *campaign) led(ctx context.Context) error {
	st, err := c.js.Stream(ctx, c.stream)
	if err != nil {
		return err
	}
	list := st.ListConsumers(ctx)
	for info := range list.Info() {
		if info.Cluster != nil && info.Cluster.Leader == "" {
			err = fmt.Errorf("consumer %s has no leader", info.Name)
		}
	}
	return cmp.Or(list.Err(), err)
}

// suffer lets a fault happen, waits until the stream stores messages and its consumers have
// leaders again, and measures how long partitions stay silent then.
func (c *campaign) suffer(f fault, most time.Duration) {
	c.Helper()
	if err := f.do(); err != nil {
		c.Logf("%s: %v", f.name, err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		ctx, cancel := context.WithTimeout(c.T.Context(), 2*time.Second)
		_, err := c.js.Publish(ctx, c.stream+".in.probe", nil)
		if err == nil {
			err = c.led(ctx)
		}
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s: the server has not recovered: %v", f.name, err)
		}
	}
	over := time.Now()
	longest, silent := time.Duration(0), ""
	for _, p := range c.names {
		if s := c.pulses.silence(c.T, p, over, 3); s > longest {
			longest, silent = s, p
		}
	}
	c.silences[f.name] = append(c.silences[f.name], longest)
	if longest > most {
		c.Errorf("%s: %s was silent for %v after %v:\n%s", f.name, silent, longest, over, c.diary.about(silent))
	}
	c.pulses.forget(over)
	c.diary.forget()
}

// A diary keeps what members logged since the last fault.
type diary struct {
	mu   sync.Mutex
	text strings.Builder
}

func (d *diary) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(line)
}

func (d *diary) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.Reset()
}

// about returns the lines that name a partition, or none.
func (d *diary) about(partition string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out strings.Builder
	for line := range strings.Lines(d.text.String()) {
		if !strings.Contains(line, "partition=") || strings.Contains(line, "partition="+partition+" ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// forget removes what was before an instant.
func (p *pulses) forget(before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, at := range p.at {
		first, _ := slices.BinarySearchFunc(at, before, time.Time.Compare)
		p.at[name] = slices.Clone(at[first:])
	}
}

// requests counts what everybody asks the server for, on a connection of its own.
func (c *campaign) requests() *atomic.Int64 {
	c.Helper()
	nc, err := rotanats.Connect(c.url, []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(nc.Close)
	n := new(atomic.Int64)
	for _, subject := range []string{"$JS.API.>", "$KV.>"} {
		if _, err := nc.Subscribe(subject, func(*nats.Msg) { n.Add(1) }); err != nil {
			c.Fatal(err)
		}
	}
	return n
}

// checkRequests compares the requests with what the campaign may cost: at most 20 for a hand-over that
// makes a new consumer, two for a message, and 160 per minute for a partition that is refused,
// as each may be for ten seconds after a fault.
func (c *campaign) checkRequests(requests int64, messages, faults int) {
	most := 20*c.started.Load() + 2*int64(messages) + int64(160/6*len(c.names)*faults)
	c.Logf("%d requests, of %d that are permitted", requests, most)
	if requests > most {
		c.Errorf("%d requests, want %d at most", requests, most)
	}
}
