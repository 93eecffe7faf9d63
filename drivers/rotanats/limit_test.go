package rotanats_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// serveAccount runs a server whose account permits a number of consumers per stream, -1
// for any.
func serveAccount(t *testing.T, consumers int) *server.Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: consumers, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1}
	if err := ns.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
		t.Fatal(err)
	}
	return ns
}

// TestALimitOfConsumersIsReported lists more partitions than consumers are permitted, by
// the stream, the account or the server. Both numbers are reported when the partitions are
// listed, before members fail at them.
func TestALimitOfConsumersIsReported(t *testing.T) {
	for _, c := range []struct {
		stream, account, partitions int
		want                        string
	}{
		{3, -1, 3, ""},
		{3, -1, 5, "stream FEW permits 3 consumers, and each of 5 partitions needs one: 2 of them will not be served; raise max_consumers of the stream,"},
		{-1, 4, 5, "the account of stream FEW permits 4 consumers, and each of 5 partitions needs one: 1 of them will not be served; raise max_consumers of the account,"},
		{3, 4, 5, "stream FEW permits 3 consumers"},
		{-1, 4, 4, ""},
		{-1, -1, 1000, ""},
		{-1, -1, 1001, "that of the server counts, 1000 unless its operator has raised it, and each of 1001 partitions needs one; set max_consumers of the stream to 2002 or more"},
		{3000, -1, 1001, ""},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			ns := serveAccount(t, c.account)
			b := newBroker(t, ns.ClientURL())
			if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FEW", Subjects: []string{"few.*"}, MaxConsumers: c.stream}); err != nil {
				t.Fatal(err)
			}
			src := rotanats.Source(fmt.Sprintf("%s?stream=FEW&subject=few.*&partitions=%d", b.url, c.partitions))
			defer src.(io.Closer).Close()
			for range 2 { // the second time by what is known
				list, err := src.Partitions(t.Context())
				if err != nil || len(list) != c.partitions {
					t.Errorf("%d partitions, %v", len(list), err)
				}
			}
			said := src.(rota.Warner).Warnings()
			if len(said) > 1 || (len(said) == 1) != (c.want != "") || !strings.Contains(strings.Join(said, ""), c.want) {
				t.Errorf("says %q, want %q", said, c.want)
			}
		})
	}
}

// TestTooFewConsumers consumes more partitions than the stream permits consumers: those
// without one are reported with both numbers, and served once the limit is raised.
func TestTooFewConsumers(t *testing.T) {
	t.Parallel()
	var config jetstream.StreamConfig
	b := newBroker(t, serve(t).URL(), func(c *jetstream.StreamConfig) { c.MaxConsumers, config = 1, *c })
	l, f := newLedger(t), newFindings()
	l.member("a", rotatest.NewMemStore(), b.Source(), f.tune)
	for _, p := range b.names {
		if err := b.Publish(p, fmt.Appendf(nil, "%s 1", p)); err != nil {
			t.Fatal(err)
		}
	}
	f.wait(t, "source-failed", "stream "+b.stream+" has 1 consumers, and the limit of the stream is 1: raise max_consumers of the stream")
	config.MaxConsumers = 10
	if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	l.wait("all are served", 60*time.Second, func() bool { return len(l.done) == len(b.names) })
}

// TestACreatedStreamHasRoom checks that a stream which the source creates permits a
// consumer for each partition, unless its account does not.
func TestACreatedStreamHasRoom(t *testing.T) {
	for account, want := range map[int]int{-1: 15_000, 1600: -1} {
		t.Run(fmt.Sprint(account), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, serveAccount(t, account).ClientURL())
			src := rotanats.Source(b.url + "?stream=MADE&subject=made.*&partitions=1500&create=true")
			defer src.(io.Closer).Close()
			if _, err := src.Partitions(t.Context()); err != nil {
				t.Fatal(err)
			}
			st, err := b.js.Stream(t.Context(), "MADE")
			if err != nil {
				t.Fatal(err)
			}
			if got := st.CachedInfo().Config.MaxConsumers; got != want {
				t.Errorf("it permits %d consumers, want %d", got, want)
			}
			if said := src.(rota.Warner).Warnings(); len(said) > 0 {
				t.Errorf("warns %q", said)
			}
		})
	}
}
