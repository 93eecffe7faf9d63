package rotanats_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A tap is a TCP proxy to a NATS server that counts what clients publish: every request,
// pull and acknowledgement is a publication.
type tap struct {
	l     net.Listener
	n     atomic.Int64
	mu    sync.Mutex
	ends  []net.Conn
	tasks sync.WaitGroup
}

func newTap(t testing.TB, to string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &tap{l: l}
	x.tasks.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			x.mu.Lock()
			x.ends = append(x.ends, near, far)
			x.mu.Unlock()
			x.tasks.Go(func() { defer near.Close(); defer far.Close(); io.Copy(near, far) })
			x.tasks.Go(func() { defer near.Close(); defer far.Close(); x.count(far, bufio.NewReader(near)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		x.mu.Lock()
		for _, c := range x.ends {
			c.Close()
		}
		x.mu.Unlock()
		x.tasks.Wait()
	})
	return x
}

// count forwards what a client sends, and counts its publications.
func (x *tap) count(to io.Writer, from *bufio.Reader) {
	for {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return
		}
		if _, err := to.Write(line); err != nil {
			return
		}
		fields := strings.Fields(string(line))
		if len(fields) < 3 || fields[0] != "PUB" && fields[0] != "HPUB" {
			continue
		}
		x.n.Add(1)
		size, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
		if err != nil {
			return
		}
		if _, err := io.CopyN(to, from, size+2); err != nil {
			return
		}
	}
}

// A guarded broker has a server of its own, where members have the rights that the page of
// rights lists for a source, and no others.
type guarded struct {
	*broker
	ns   *server.Server
	opts server.Options
	may  []string // subjects that members may publish to
}

// sourceRights are the subjects of the page of rights that a member's source publishes
// to, for another stream, and those for replays of dead letters.
func sourceRights(t testing.TB, stream string) (may []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/stores/nats-rights.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(page), "# the source:")
	list, _, ended := strings.Cut(list, "]")
	if !found || !ended {
		t.Fatal("the page does not list the rights of a source")
	}
	for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(list, -1) {
		may = append(may, strings.ReplaceAll(m[1], "ORDERS", stream))
	}
	if len(may) < 15 {
		t.Fatalf("the page lists %q", may)
	}
	for _, verb := range []string{"STREAM.INFO", "STREAM.MSG.GET", "STREAM.MSG.DELETE"} {
		right := "$JS.API." + verb + ".ORDERS_dead"
		if !strings.Contains(string(page), "`"+right+"`") {
			t.Errorf("the page does not list %s", right)
		}
		may = append(may, strings.ReplaceAll(right, "ORDERS", stream))
	}
	return may
}

// newGuarded runs a server as the page of rights describes it: an administrator has made
// the streams and buckets.
func newGuarded(t *testing.T, tune ...func(*jetstream.StreamConfig)) *guarded {
	t.Helper()
	g := &guarded{opts: server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20}}
	g.opts.Users = []*server.User{{Username: "admin", Password: "admin"}}
	ns, err := server.NewServer(g.opts.Clone())
	if err != nil {
		t.Fatal(err)
	}
	g.ns = ns
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	addr := ns.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	g.opts.Port, _ = strconv.Atoi(port)
	g.broker = newBroker(t, "nats://admin:admin@"+addr, tune...)
	g.makeBuckets(t)
	g.may = sourceRights(t, g.stream)
	g.grant(t, g.may)
	g.url = "nats://member:member@" + addr + "?inbox=_INBOX.orders"
	return g
}

// makeBuckets makes the buckets and the stream of dead letters.
func (g *guarded) makeBuckets(t *testing.T) {
	t.Helper()
	for name, storage := range map[string]jetstream.StorageType{"rota-sources": jetstream.FileStorage, "rota-sources-now": jetstream.MemoryStorage} {
		_, err := g.js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, MaxMsgsPerSubject: 1, MaxMsgSize: 1 << 20, Storage: storage,
			Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, AllowMsgTTL: true,
			RePublish: &jetstream.RePublish{Source: "$KV." + name + ".>", Destination: "_rota." + name + ".>"},
			Metadata:  map[string]string{"rota_seal": strings.Repeat("5a", 32)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: g.stream + "_dead", Subjects: []string{"dead." + g.stream + ".>"}, MaxMsgSize: 2 << 20}); err != nil {
		t.Fatal(err)
	}
}

// grant gives members these rights and no others.
func (g *guarded) grant(t *testing.T, may []string) {
	t.Helper()
	next := g.opts.Clone()
	next.Users = []*server.User{{Username: "admin", Password: "admin"}, {Username: "member", Password: "member", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: may}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.orders.>"}}}}}
	if err := g.ns.ReloadOptions(next); err != nil {
		t.Fatal(err)
	}
}

// findings are the conditions of a member.
type findings struct {
	mu    sync.Mutex
	all   []string
	more  chan struct{}
	began time.Time
}

func newFindings() *findings { return &findings{more: make(chan struct{}, 1), began: time.Now()} }

func (h *findings) tune(c *rota.Config) {
	c.Trace = func(e rota.Event) {
		if e.Kind != rota.EventCondition {
			return
		}
		h.mu.Lock()
		h.all = append(h.all, fmt.Sprintf("%s %s: %s", e.Condition, e.Partition, e.Because))
		h.mu.Unlock()
		select {
		case h.more <- struct{}{}:
		default:
		}
	}
}

func (h *findings) find(says ...string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, text := range h.all {
		if !slices.ContainsFunc(says, func(s string) bool { return !strings.Contains(text, s) }) {
			return text
		}
	}
	return ""
}

// wait waits for a condition that contains all of the texts.
func (h *findings) wait(t testing.TB, says ...string) {
	t.Helper()
	for timeout := time.After(30 * time.Second); h.find(says...) == ""; {
		select {
		case <-h.more:
		case <-timeout:
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Errorf("nobody tells %q; told: %q", says, h.all)
			return
		}
	}
	t.Logf("told after %v: %s", time.Since(h.began).Round(time.Millisecond), h.find(says...))
}

// keep runs a member until leave lets it leave in good order, or cut makes it die. On a
// machine that is too busy for its short lease it may end before that; then it is started
// again, as a supervisor would do.
func (l *ledger) keep(name string, mem *rotatest.MemStore, source func() rota.Source, tune ...func(*rota.Config)) (leave, cut func()) {
	l.Helper()
	store := rotatest.Faulty(mem.Open(), 1)
	ctx, cancel := context.WithCancel(context.Background())
	l.Cleanup(cancel)
	dying, ended := make(chan struct{}), make(chan error, 1)
	tune = append(tune, func(c *rota.Config) { c.Orphan = rota.AtOnce })
	run := func() error { return <-l.memberUntil(ctx, name, store, source(), tune...) }
	go func() {
		for {
			err := run()
			select {
			case <-dying:
			default:
				if errors.Is(err, rota.ErrOrphaned) && ctx.Err() == nil {
					continue
				}
			}
			ended <- err
			return
		}
	}()
	leave = func() {
		l.Helper()
		cancel()
		if err := <-ended; err != nil {
			l.Errorf("%s left: %v", name, err)
		}
	}
	cut = func() {
		l.Helper()
		close(dying)
		store.Fail()
		if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
			l.Errorf("%s was cut off: %v", name, err)
		}
	}
	return leave, cut
}

// without takes rights away from members, until restore is called.
func (g *guarded) without(prefix string) (restore func()) {
	t := g.t.(*testing.T)
	t.Helper()
	left := slices.DeleteFunc(slices.Clone(g.may), func(s string) bool { return strings.HasPrefix(s, strings.ReplaceAll(prefix, "ORDERS", g.stream)) })
	if len(left) == len(g.may) {
		t.Fatalf("%s is not among %q", prefix, g.may)
	}
	g.grant(t, left)
	return func() { g.grant(t, g.may) }
}

func (g *guarded) RefuseSettling() (allow func()) { return g.without("$JS.ACK.") }

func (g *guarded) RefuseDead() (allow func()) { return g.without("dead.") }
