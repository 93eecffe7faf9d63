//go:build linux

package processes

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/internal/servers"
	"github.com/rota-dev/rota/rotatest"
)

// A host is where members meet and where their messages are: a store and a broker.
type host struct {
	name     string
	addr     string                             // of the store
	url      func(addr, name string) string     // of the store, with a name of the test's own
	requests func(addr string) (float64, error) // that the store has got so far; nil where nobody counts
	server   server                             // of the store
	broker   *broker
}

// A server can be taken away and brought back, with what it had on disk.
type server interface {
	Kill() error
	Start(context.Context) error
	Freeze() error
	Thaw() error
}

// A pair names a store and a broker that make a host.
type pair struct{ store, broker string }

// name is that of the host. The embedded store goes without saying, and so does NATS as the
// broker.
func (p pair) name() string {
	switch {
	case p.broker == "nats":
		return p.store
	case p.store == "embedded":
		return p.broker
	}
	return p.broker + "+" + p.store
}

// stores are the stores, each with a NATS for the messages.
var stores = map[string]func(*testing.T) *host{"embedded": serveEmbedded, "nats": serveNATS, "etcd": serveEtcd, "zookeeper": serveZooKeeper, "redis": serveRedis}

// shownOnMore are the rows that make test shows on every store with NATS, and on every broker
// with the embedded store: one of each kind of thing that a store and a broker do in a group's
// life. All others it shows on NATS alone; make matrix shows all on every pair.
var shownOnMore = regexp.MustCompile(`^Test(S0_04|S0_05|S0_08|S2_Join|S2_Leave|S2_Kill)_|^TestFrozenOwners`)

// shownOn are the rows that make test shows on some stores besides NATS: B-loss on one of
// them, since each trial takes a server of its own away for longer than a lease, and S0-infra
// on those that it names.
var shownOn = map[string]*regexp.Regexp{
	"redis":     regexp.MustCompile(`^Test(B_Loss|S0_Infra)_`),
	"zookeeper": regexp.MustCompile(`^TestS0_Infra_`),
}

// chosenPairs are those that a test runs on. ROTA_STORES and ROTA_BROKERS name some stores and
// brokers, for all tests.
func chosenPairs(t *testing.T) (out []pair) {
	chosenStores, chosenBrokers := named(t, "ROTA_STORES", stores), named(t, "ROTA_BROKERS", brokers)
	matrix := os.Getenv("ROTA_MATRIX") != "" || chosenStores != nil || chosenBrokers != nil
	for _, p := range allPairs() {
		chosen := (chosenStores == nil || slices.Contains(chosenStores, p.store)) && (chosenBrokers == nil || slices.Contains(chosenBrokers, p.broker))
		onNATS := p.broker == "nats" && (p.store == "embedded" || p.store == "nats")
		onMore := shownOnMore.MatchString(t.Name()) && (p.broker == "nats" || p.store == "embedded")
		onThis := shownOn[p.store] != nil && shownOn[p.store].MatchString(t.Name()) && p.broker == "nats"
		if chosen && (matrix || onNATS || onMore || onThis) {
			out = append(out, p)
		}
	}
	return out
}

// allPairs are every store with NATS as the broker, and every other broker with two stores.
func allPairs() (out []pair) {
	for _, store := range slices.Sorted(maps.Keys(stores)) {
		out = append(out, pair{store, "nats"})
	}
	for _, broker := range slices.Sorted(maps.Keys(brokers)) {
		if broker != "nats" {
			out = append(out, pair{"embedded", broker}, pair{"zookeeper", broker})
		}
	}
	return out
}

// named reads a variable that names some of the keys of a table; nil if it names none.
func named[V any](t *testing.T, variable string, table map[string]V) (out []string) {
	text := os.Getenv(variable)
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if _, ok := table[name]; !ok {
			t.Fatalf("%s: %q: want some of %q, with commas between", variable, name, slices.Sorted(maps.Keys(table)))
		}
		out = append(out, name)
	}
	return out
}

// serve runs a host: a store for this test alone, and a broker that all tests share.
func (p pair) serve(t *testing.T) *host {
	var h *host
	if p.broker != "nats" && p.store == "zookeeper" { // a Java machine for each test is too much
		h = storeHost(zooKeeper.Server(t), "zk://%s/%s", zooKeeperRequests)
	} else {
		h = stores[p.store](t)
	}
	if p.broker != "nats" {
		h.broker = brokers[p.broker](t)
	}
	h.name = p.name()
	return h
}

// everywhere runs a test on every chosen host.
func everywhere(t *testing.T, test func(t *testing.T, h *host)) {
	for _, p := range chosenPairs(t) {
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			test(t, p.serve(t))
		})
	}
}

// inTurn is everywhere for a test that keeps the machine busy by itself: one host after the
// other.
func inTurn(t *testing.T, test func(t *testing.T, h *host)) {
	for _, p := range chosenPairs(t) {
		t.Run(p.name(), func(t *testing.T) { test(t, p.serve(t)) })
	}
}

// onStores is everywhere for what is shown of stores alone: beside other brokers than NATS there
// would be nothing new to see, and tests share some of those stores.
func onStores(t *testing.T, test func(t *testing.T, p pair)) {
	for _, p := range chosenPairs(t) {
		if p.broker == "nats" {
			t.Run(p.name(), func(t *testing.T) {
				t.Parallel()
				test(t, p)
			})
		}
	}
}

// serveEmbedded runs rota serve: the embedded server as a process of its own.
func serveEmbedded(t *testing.T) *host {
	addr, release, err := servers.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	token, file := rand.Text(), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &embedded{argv: []string{program(t), "serve", "--dir", t.TempDir(), "--listen", addr, "--token-file", file}}
	t.Cleanup(func() {
		e.Kill()
		if t.Failed() {
			t.Logf("rota serve: %s", &e.out)
		}
	})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return natsHost(addr, token, e)
}

// An embedded server is a rota serve.
type embedded struct {
	argv []string
	cmd  *exec.Cmd
	out  lockedBuffer // of all its starts
}

// Start returns once it serves.
func (e *embedded) Start(context.Context) error {
	began := len(e.out.String())
	e.cmd = exec.Command(e.argv[0], e.argv[1:]...)
	e.cmd.Stdout, e.cmd.Stderr = &e.out, &e.out
	if err := e.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); !strings.Contains(e.out.String()[began:], "serving"); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("rota serve is not ready: %s", &e.out)
		}
	}
	return nil
}

func (e *embedded) Kill() error {
	if e.cmd == nil || e.cmd.Process == nil {
		return nil // it never started
	}
	err := e.cmd.Process.Kill()
	e.cmd.Wait()
	return err
}

func (e *embedded) Freeze() error { return e.cmd.Process.Signal(syscall.SIGSTOP) }
func (e *embedded) Thaw() error   { return e.cmd.Process.Signal(syscall.SIGCONT) }

// serveNATS runs nats-server.
func serveNATS(t *testing.T) *host {
	s := rotatest.StartNATS(t)
	return natsHost(s.Addr(), "", s)
}

// natsHost is a NATS that is both store and broker. The token is that of its users, "" for
// none.
func natsHost(addr, token string, s server) *host {
	if token != "" {
		token += "@"
	}
	return &host{
		addr:   addr,
		url:    func(addr, name string) string { return "nats://" + token + addr + "?sync=always&bucket=" + name },
		server: s,
		broker: natsBroker(addr, token),
	}
}

func serveEtcd(t *testing.T) *host {
	return beside(t, rotatest.StartEtcd(t), "etcd://%s/%s", etcdRequests)
}

func serveZooKeeper(t *testing.T) *host {
	return beside(t, rotatest.StartZooKeeper(t), "zk://%s/%s", zooKeeperRequests)
}

func serveRedis(t *testing.T) *host {
	return beside(t, rotatest.StartRedis(t), "redis://%s?prefix=%s", redisRequests)
}

// beside is a store with a NATS beside it.
func beside(t *testing.T, s *rotatest.RealServer, like string, requests func(string) (float64, error)) *host {
	h := storeHost(s, like, requests)
	h.broker = serveNATS(t).broker
	return h
}

func storeHost(s *rotatest.RealServer, like string, requests func(string) (float64, error)) *host {
	return &host{addr: s.Addr(), url: func(addr, name string) string { return fmt.Sprintf(like, addr, name) }, requests: requests, server: s}
}

// zooKeeper is the store of all tests that have it beside another broker than NATS.
var zooKeeper = rotatest.Share(func(t testing.TB) *rotatest.RealServer { return rotatest.StartZooKeeper(t) })

// doors are the addresses that a member needs, by name.
func (h *host) doors() map[string]string {
	return map[string]string{"broker": h.broker.addr, "store": h.addr}
}

// storeURL names the store at one of its addresses.
func (h *host) storeURL(t *testing.T, doors map[string]string) string {
	return h.url(doors["store"], h.bucket(t))
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
