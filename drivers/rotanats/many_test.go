package rotanats_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/internal/measure"
	"github.com/rota-dev/rota/rotatest"
)

// TestManyPartitions has many partitions of one stream on the embedded server. Four members
// consume them, and one of them leaves. With ROTA_MANY=10000, as make many runs it, it also
// measures what they cost at rest.
func TestManyPartitions(t *testing.T) {
	n, window := 300, time.Duration(0)
	if text := os.Getenv("ROTA_MANY"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		window = 65 * time.Second
	} else {
		t.Parallel()
	}
	dir := filepath.Join(t.TempDir(), "data")
	_, pid := hostProcess(t, dir)
	c := newCrowd(t, "folder:"+dir, n)
	t.Logf("%d partitions; the server has %d MB", n, measure.Resident(t, pid))
	c.publish()
	begun := time.Now()
	var leave []func()
	for i := range 4 {
		leave = append(leave, c.member(fmt.Sprint("m", i)))
	}
	c.wait("all are consumed", &c.handled, int64(n))
	t.Logf("all are consumed after %.1f s; the server has %d MB, this process with four members %d MB", time.Since(begun).Seconds(), measure.Resident(t, pid), measure.Resident(t, os.Getpid()))
	if window > 0 {
		asked, said := c.rates(window)
		t.Logf("at rest: %.0f requests/s, %.0f answers/s; the server has %d MB", asked, said, measure.Resident(t, pid))
	}
	c.readings(pid)
	begun = time.Now()
	before := c.started.Load()
	leave[0]()
	t.Logf("one of four has left after %.1f s", time.Since(begun).Seconds())
	c.wait("the others have taken over", &c.started, before+int64(n/4))
	t.Logf("the others have taken over %d partitions %.1f s after it was told to leave", c.started.Load()-before, time.Since(begun).Seconds())
	begun = time.Now()
	c.publish()
	c.wait("all go on", &c.handled, 2*int64(n))
	t.Logf("a message of each partition was published and handled in %.1f s; the server has %d MB", time.Since(begun).Seconds(), measure.Resident(t, pid))
	for name, source := range c.sources {
		for _, text := range source.(rota.Warner).Warnings() {
			t.Errorf("%s warns: %s", name, text)
		}
	}
}

// TestTheEmbeddedServerPermitsManyConsumers makes more consumers of one stream than a server
// permits by default.
func TestTheEmbeddedServerPermitsManyConsumers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	host(t, dir)
	c := newCrowd(t, "folder:"+dir, 0)
	if _, err := c.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "MEMORY", Subjects: []string{"memory.*"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	for i := range 1001 {
		name := fmt.Sprint("c", i)
		if _, err := c.js.CreateConsumer(t.Context(), "MEMORY", jetstream.ConsumerConfig{Durable: name, MemoryStorage: true}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// A crowd is members that consume many partitions.
type crowd struct {
	*testing.T
	url     string
	n       int
	js      jetstream.JetStream
	store   *rotatest.MemStore
	sources map[string]rota.Source
	handled atomic.Int64
	started atomic.Int64
	changed chan struct{}
}

func newCrowd(t *testing.T, url string, n int) *crowd {
	nc, err := rotanats.Connect(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "MANY", Subjects: []string{"many.*"}}); err != nil {
		t.Fatal(err)
	}
	return &crowd{t, url, n, js, rotatest.NewMemStore(), map[string]rota.Source{}, atomic.Int64{}, atomic.Int64{}, make(chan struct{}, 1)}
}

func (c *crowd) member(name string) (leave func()) {
	c.Helper()
	src := rotanats.Source(fmt.Sprintf("%s?stream=MANY&subject=many.*&partitions=%d", c.url, c.n))
	c.sources[name] = src
	m, err := rota.New(rota.Config{Group: "many", Name: name, Store: c.store.Open(), Source: src, NewGroup: true, Lease: 15 * time.Second, Log: slog.New(slog.DiscardHandler),
		Trace: func(e rota.Event) {
			if e.Kind == rota.EventStart {
				c.count(&c.started)
			}
		},
		Handle: func(context.Context, rota.Message) error {
			c.count(&c.handled)
			return nil
		}})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	leave = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.Error(err)
		}
		src.(interface{ Close() error }).Close()
	})
	c.Cleanup(leave)
	return leave
}

// readings tells what the load loop costs: one reading of all partitions, which a leader
// takes every two seconds.
func (c *crowd) readings(server int) {
	c.Helper()
	var names []string
	for i := range c.n {
		names = append(names, fmt.Sprint("many.", i))
	}
	const times = 5
	meter, worked, begun := c.sources["m0"].(rota.Meter), processor(c.T, server), time.Now()
	for range times {
		got, err := meter.Read(c.Context(), names)
		if err != nil || len(got) != c.n {
			c.Errorf("%d readings of %d partitions: %v", len(got), c.n, err)
			return
		}
	}
	c.Logf("one reading of %d partitions takes %v, and %v of the server's processor time", c.n,
		(time.Since(begun) / times).Round(time.Millisecond), ((processor(c.T, server) - worked) / times).Round(time.Millisecond))
}

// processor is the processor time that a process has used.
func processor(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// publish publishes a message to each partition.
func (c *crowd) publish() {
	c.Helper()
	for i := range c.n {
		if _, err := c.js.PublishAsync(fmt.Sprintf("many.%d", i), nil); err != nil {
			c.Fatal(err)
		}
		if i%1000 != 999 && i != c.n-1 {
			continue
		}
		select {
		case <-c.js.PublishAsyncComplete():
		case <-time.After(5 * time.Minute):
			c.Fatal("not all messages are stored after 5 minutes")
		}
	}
}

func (c *crowd) count(what *atomic.Int64) {
	what.Add(1)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// wait waits until a counter has reached a number.
func (c *crowd) wait(what string, counter *atomic.Int64, n int64) {
	c.Helper()
	for timeout := time.After(15 * time.Minute); counter.Load() < n; {
		select {
		case <-c.changed:
		case <-timeout:
			c.Fatalf("%s: the counter is at %d of %d", what, counter.Load(), n)
		}
	}
}

// rates returns how many requests and answers there are per second.
func (c *crowd) rates(window time.Duration) (requests, answers float64) {
	c.Helper()
	var asked, said atomic.Int64
	for subject, count := range map[string]*atomic.Int64{"$JS.API.>": &asked, "$KV.>": &asked, "_INBOX.>": &said} {
		sub, err := c.js.Conn().Subscribe(subject, func(*nats.Msg) { count.Add(1) })
		if err != nil {
			c.Fatal(err)
		}
		defer sub.Unsubscribe()
	}
	time.Sleep(window) // the period that is measured
	return float64(asked.Load()) / window.Seconds(), float64(said.Load()) / window.Seconds()
}
