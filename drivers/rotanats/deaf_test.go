package rotanats_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

// serveDeaf runs a cluster of three servers in this process, with an administrator and a
// user "deaf" that may do everything but hear of elections. It returns the URL of a user.
func serveDeaf(t *testing.T) (of func(user string) string) {
	t.Helper()
	var routes []*url.URL
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		l.Close()
	}
	var all []*server.Server
	for i, r := range routes {
		port := 0
		if _, err := fmt.Sscan(r.Port(), &port); err != nil {
			t.Fatal(err)
		}
		ns, err := server.NewServer(&server.Options{ServerName: fmt.Sprint("n", i+1), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Cluster: server.ClusterOpts{Name: "deaf", Host: "127.0.0.1", Port: port}, Routes: routes,
			Users: []*server.User{{Username: "admin", Password: "admin"}, {Username: "deaf", Password: "deaf", Permissions: &server.Permissions{
				Subscribe: &server.SubjectPermission{Deny: []string{"$JS.EVENT.ADVISORY.>"}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		go ns.Start()
		t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
		all = append(all, ns)
	}
	var addrs []string
	for _, ns := range all {
		if !ns.ReadyForConnections(30 * time.Second) {
			t.Fatal("a server does not start")
		}
		addrs = append(addrs, ns.Addr().String())
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		// Only the leader knows them.
		if slices.ContainsFunc(all, func(ns *server.Server) bool { return len(ns.JetStreamClusterPeers()) == len(all) }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the servers do not form a cluster")
		}
	}
	return func(user string) string {
		return fmt.Sprintf("nats://%s:%[1]s@%s", user, strings.Join(addrs, ","))
	}
}

// TestDeafToElections runs a group whose user may not hear of elections, while leaders of
// the bucket, the stream and the consumers change. All of it works, if later, and each
// missing right is told once by each member.
func TestDeafToElections(t *testing.T) {
	t.Parallel()
	of := serveDeaf(t)
	b := newBroker(t, of("admin"), func(c *jetstream.StreamConfig) { c.Replicas = 3 })
	member := *b
	member.url = of("deaf")
	l, h := newLedger(t), newFindings()
	p := &pulses{at: map[string][]time.Time{}}
	l.other = func(m rota.Message) bool { p.add(m.Partition); return false }
	join := func(name string) (leave func()) {
		store := rotanats.Store(of("deaf") + "?sync=always")
		t.Cleanup(func() { store.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		ended := l.memberUntil(ctx, name, store, member.Source(), h.tune, func(c *rota.Config) { c.Lease, c.Heartbeat = 20*time.Second, time.Second })
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	leaveA, leaveB := join("a"), join("b")
	b.keepPublishing(t, b.names)
	for _, name := range b.names {
		p.silence(t, name, time.Now(), 5)
	}
	for _, name := range b.names {
		t.Logf("%s: silent for %v when the leader of its consumer stepped down", name, b.stepDown(t, p, name).Round(time.Millisecond))
	}
	for _, stream := range []string{b.stream, "KV_rota", "KV_rota-sources", "KV_rota-sources-now"} {
		if _, err := b.js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, 10*time.Second); err != nil {
			t.Logf("%s: %v", stream, err)
		}
	}
	leaveC := join("c") // which needs a plan, and hand-overs
	for _, leave := range []func(){leaveA, leaveB} {
		leave()
		for _, name := range b.names {
			p.silence(t, name, time.Now(), 5)
		}
	}
	leaveC()
	for _, subject := range []string{"CONSUMER.LEADER_ELECTED." + b.stream, "STREAM.LEADER_ELECTED.KV_rota"} {
		h.wait(t, "does not let this user subscribe to $JS.EVENT.ADVISORY."+subject, "later")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	told := map[string]int{}
	for _, text := range h.all {
		told[text]++
	}
	for text, n := range told {
		if strings.Contains(text, "ADVISORY") && n > 3 {
			t.Errorf("three members tell %d times: %s", n, text)
		}
	}
}
