//go:build linux

package processes

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/rotatest"
)

// A host is where members meet and where their messages are. NATS is both; the other
// stores have a NATS beside them for the messages.
type host struct {
	name  string
	addr  string // of NATS
	token string

	store     string // address of the store, if it is not NATS
	storeLike string // its URL: %s is the address, then a name of the test's own
}

// hosts are the stores that every row must hold on.
var hosts = map[string]func(*testing.T) *host{"embedded": serveEmbedded, "nats": serveNATS}

// moreHosts are stores on which some rows are shown each time, and all by make matrix.
var moreHosts = map[string]func(*testing.T) *host{"etcd": serveEtcd, "zookeeper": serveZooKeeper, "redis": serveRedis}

// shownOnMore are the rows that are shown on moreHosts each time: one of each kind of
// thing that a store does in a group's life.
var shownOnMore = regexp.MustCompile(`^Test(S0_04|S0_05|S0_08|S2_Join|S2_Leave|S2_Kill)_`)

// everywhere runs a test on every host, each with a server of its own.
func everywhere(t *testing.T, test func(t *testing.T, h *host)) {
	all := maps.Clone(hosts)
	if os.Getenv("ROTA_MATRIX") != "" || shownOnMore.MatchString(t.Name()) {
		maps.Copy(all, moreHosts)
	}
	for name, serve := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serve(t)
			h.name = name
			test(t, h)
		})
	}
}

// serveEmbedded runs rota serve: the embedded server as a process of its own.
func serveEmbedded(t *testing.T) *host {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	token, file := rand.Text(), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t), "serve", "--dir", dir, "--listen", addr, "--token-file", file)
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("rota serve: %s", &out)
		}
	})
	deadline := time.Now().Add(patience)
	for !strings.Contains(out.String(), "serving") {
		if time.Now().After(deadline) {
			t.Fatalf("rota serve is not ready: %s", &out)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return &host{addr: addr, token: token}
}

// serveNATS runs nats-server.
func serveNATS(t *testing.T) *host {
	return &host{addr: rotatest.StartNATS(t).Addr()}
}

func serveEtcd(t *testing.T) *host {
	return beside(t, rotatest.StartEtcd(t), "etcd://%s/%s")
}

func serveZooKeeper(t *testing.T) *host {
	return beside(t, rotatest.StartZooKeeper(t), "zk://%s/%s")
}

func serveRedis(t *testing.T) *host {
	return beside(t, rotatest.StartRedis(t), "redis://%s?prefix=%s")
}

// beside is a store with a NATS beside it.
func beside(t *testing.T, s *rotatest.RealServer, like string) *host {
	h := serveNATS(t)
	h.store, h.storeLike = s.Addr(), like
	return h
}

// doors are the addresses that a member needs, by name.
func (h *host) doors() map[string]string {
	if h.store == "" {
		return map[string]string{"broker": h.addr}
	}
	return map[string]string{"broker": h.addr, "store": h.store}
}

// url names the NATS server at one of its addresses.
func (h *host) url(addr, query string) string {
	user := ""
	if h.token != "" {
		user = h.token + "@"
	}
	return "nats://" + user + addr + "?" + query
}

// storeURL names the store at one of its addresses.
func (h *host) storeURL(t *testing.T, doors map[string]string) string {
	if h.store == "" {
		return h.url(doors["broker"], "sync=always&bucket="+h.bucket(t))
	}
	return fmt.Sprintf(h.storeLike, doors["store"], h.bucket(t))
}

// openStore opens the store that a URL names.
func openStore(url string) rota.Store {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "etcd":
		return rotaetcd.Store(url)
	case "zk":
		return rotazk.Store(url)
	case "redis":
		return rotaredis.Store(url)
	}
	return rotanats.Store(url)
}

// bucket is a name of its own for each test.
func (h *host) bucket(t *testing.T) string {
	f := fnv.New32()
	f.Write([]byte(t.Name()))
	return fmt.Sprintf("t%08x", f.Sum32())
}

// A mill publishes to every partition of a crew, in order and without end.
type mill struct {
	c    *crew
	js   jetstream.JetStream
	stop context.CancelFunc
	done sync.WaitGroup
	sent []int // per partition, confirmed

	each []atomic.Int32 // per partition: so many at a time
}

// grind begins once the members have made the stream.
func (c *crew) grind(every time.Duration) *mill {
	c.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &mill{c: c, js: c.broker(), stop: cancel, sent: make([]int, c.parts), each: make([]atomic.Int32, c.parts)}
	for p := range m.each {
		m.each[p].Store(1)
	}
	c.Cleanup(cancel)
	m.done.Go(func() { m.run(ctx, every) })
	return m
}

func (c *crew) broker() jetstream.JetStream {
	c.Helper()
	opts := []nats.Option{nats.MaxReconnects(-1)}
	if c.host.token != "" {
		opts = append(opts, nats.Token(c.host.token))
	}
	nc, err := nats.Connect("nats://"+c.host.addr, opts...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.Fatal(err)
	}
	return js
}

// fill makes the stream and publishes as much to every partition.
func (c *crew) fill(each int) {
	c.Helper()
	js := c.broker()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: c.stream(), Subjects: []string{c.stream() + ".*"}}); err != nil {
		c.Fatal(err)
	}
	for n := range each {
		for p := range c.parts {
			if _, err := js.PublishAsync(fmt.Sprintf("%s.%d", c.stream(), p), fmt.Append(nil, n), jetstream.WithStallWait(patience)); err != nil {
				c.Fatal(err)
			}
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		c.Fatal("the backlog is not published")
	}
}

func (m *mill) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var all sync.WaitGroup
		for p := range m.sent {
			all.Go(func() {
				for range m.each[p].Load() {
					m.publish(p)
				}
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := m.js.Publish(ctx, fmt.Sprintf("%s.%d", m.c.stream(), p), fmt.Append(nil, m.sent[p])); err == nil {
		m.sent[p]++
	} // else it is there twice, or there is no stream yet
}

// finish stops and waits until the sink has got everything.
func (m *mill) finish() error {
	m.stop()
	m.done.Wait()
	return m.c.sink.await(m.c, m.sent)
}
