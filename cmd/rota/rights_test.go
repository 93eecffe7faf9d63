package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/rotatest"
)

// The page of rights is its own test: its configuration is run, and what it says
// each role may and may not do is tried.
const rightsPage = "../../docs/stores/nats-rights.md"

// rightsConfig is the configuration on the page.
func rightsConfig(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(rightsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, config, ok := strings.Cut(string(b), "```nats\n")
	config, _, ok2 := strings.Cut(config, "```\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no configuration", rightsPage)
	}
	return config
}

// A shop is a server that runs with the page's rights.
type shop struct {
	t    *testing.T
	addr string
}

// openShop runs a server with a configuration, and makes what its administrator
// makes: the buckets and the streams.
func openShop(t *testing.T, config string) *shop {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats-server.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog, opts.StoreDir = "127.0.0.1", -1, true, true, t.TempDir()
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	s := &shop{t, ns.Addr().String()}
	js := s.admin()
	for _, c := range []jetstream.StreamConfig{{Name: "ORDERS", Subjects: []string{"orders.*"}}, {Name: "ORDERS_dead", Subjects: []string{"dead.ORDERS.>"}}} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range []rota.Store{rotanats.Store(s.url("shop-admin")), rotanats.Store(connect.WithParameter(s.url("shop-admin"), "bucket=rota-sources")), rotanats.Store(s.url("billing-admin"))} {
		if _, err := b.Get(t.Context(), "x"); !errors.Is(err, rota.ErrNotFound) {
			t.Fatal(err)
		}
		b.Close()
	}
	return s
}

// url is how a user of the page connects.
func (s *shop) url(user string) string {
	if strings.HasSuffix(user, "-admin") {
		return fmt.Sprintf("nats://%s:%s-secret@%s", user, user, s.addr)
	}
	first, last, _ := strings.Cut(user, "-")
	inbox := first
	api := ""
	if last != "member" {
		inbox, api = last, "&api=$JS.SHOP.API"
	}
	return fmt.Sprintf("nats://%s:%s-secret@%s?inbox=_INBOX.%s%s", user, user, s.addr, inbox, api)
}

func (s *shop) connect(user string) *nats.Conn {
	s.t.Helper()
	nc, err := rotanats.Connect(s.url(user), []nats.Option{nats.MaxReconnects(0), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

const ordersSource = "&stream=ORDERS&subject=orders.*&partitions=2"

// rota runs a command as one of the users.
func (s *shop) rota(user string, args ...string) (code int, out string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), trial.Patience)
	defer cancel()
	code, stdout, stderr := rotaRuns(ctx, append(args, "--store", s.url(user), "--group", "orders")...)
	return code, stdout + stderr
}

// TestRolesDoWhatTheyShould: members join, consume, dead-letter, hand over and leave,
// while others look, give orders and publish.
func TestRolesDoWhatTheyShould(t *testing.T) {
	t.Parallel()
	s := openShop(t, rightsConfig(t))
	handle := func(_ context.Context, m rota.Message) error {
		if string(m.Value) == "poison" {
			return errors.New("poison")
		}
		return nil
	}
	m1 := s.member("m1", handle)
	trial.Until(t, "m1 to run both partitions", func() bool { return m1.count(rota.EventStart) == 2 })
	for _, args := range [][]string{{"status"}, {"explain", "orders.0"}, {"partitions", "list"}} {
		if code, out := s.rota("shop-observer", args...); code != 0 || !strings.Contains(out, "m1") {
			t.Errorf("observer: rota %s: exit %d: %s", strings.Join(args, " "), code, out)
		}
	}
	if code, out := s.rota("orders-operator", "pause", "orders.0"); code != 0 {
		t.Errorf("operator: exit %d: %s", code, out)
	}
	trial.Until(t, "m1 to stop what is paused", func() bool { return m1.count(rota.EventStopped) == 1 })
	if code, out := s.rota("orders-operator", "resume", "orders.0"); code != 0 {
		t.Errorf("operator: exit %d: %s", code, out)
	}
	trial.Until(t, "m1 to run it again", func() bool { return m1.count(rota.EventStart) == 3 })
	code, out, text := rotaRuns(t.Context(), "produce", "--count", "4", "--source", s.url("orders-producer")+ordersSource)
	if code != 0 {
		t.Errorf("producer: exit %d: %s%s", code, out, text)
	}
	if r, err := s.connect("orders-producer").Request("orders.1", []byte("poison"), trial.Patience); err != nil || !strings.Contains(string(r.Data), `"ORDERS"`) {
		t.Errorf("producer: %v, %v", r, err)
	}
	trial.Until(t, "everything but the poison to be handled", func() bool { return m1.count(rota.EventHandled) >= 4+2 })
	dead, err := s.admin().Stream(t.Context(), "ORDERS_dead")
	if err != nil {
		t.Fatal(err)
	}
	trial.Until(t, "the dead letter", func() bool {
		info, err := dead.Info(t.Context())
		return err == nil && info.State.Msgs == 1
	})
	m2 := s.member("m2", handle)
	trial.Until(t, "m2 to get its share", func() bool { return m2.count(rota.EventStart) == 1 })
	if err := m1.end(); err != nil {
		t.Errorf("m1 left with %v", err)
	}
	trial.Until(t, "m2 to take over the rest", func() bool { return m2.count(rota.EventStart) == 2 })
	if err := m2.end(); err != nil {
		t.Errorf("m2 left with %v", err)
	}
	if told := m1.told() + m2.told(); strings.Contains(told, "condition") || strings.Contains(told, "ermission") {
		t.Errorf("a right is missing:\n%s", told)
	}
}

// An attempt is one publication that a user has no business to make. With via it is
// made by the server: via is a question the user may ask, and the subject is where
// its answer is to go.
type attempt struct{ user, via, subject string }

// TestRolesDoNoMore: everything here is refused, and changes nothing.
func TestRolesDoNoMore(t *testing.T) {
	t.Parallel()
	s := openShop(t, rightsConfig(t))
	s.furnish()
	records := []string{"$KV.rota.orders.plan", "$KV.rota.orders.roster", "$KV.rota.orders.member.0000000000000001", "$KV.rota.returns.plan", "$KV.rota.returns.orders"}
	echoes := []string{"_rota.rota.orders.plan", "_rota.rota.returns.plan"}
	streams := []string{"$JS.API.STREAM.DELETE.KV_rota", "$JS.API.STREAM.PURGE.KV_rota", "$JS.API.STREAM.UPDATE.KV_rota", "$JS.API.STREAM.MSG.DELETE.KV_rota",
		"$JS.API.STREAM.CREATE.other", "$JS.API.STREAM.DELETE.ORDERS", "$JS.API.STREAM.PURGE.ORDERS", "$JS.API.CONSUMER.CREATE.KV_rota.x"}
	work := []string{"$JS.API.CONSUMER.CREATE.ORDERS.x", "$JS.API.CONSUMER.DELETE.ORDERS.rota_x", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.rota_x",
		"$JS.ACK.ORDERS.rota_x.1.1.1.1.0", "$KV.rota-sources.post.x", "$KV.rota-sources-now.post.x", "dead.ORDERS.orders.0"}
	var all []attempt
	try := func(user string, subjects ...[]string) {
		for _, subject := range slices.Concat(subjects...) {
			all = append(all, attempt{user: user, subject: subject})
		}
	}
	trick := func(user, via string, subjects ...[]string) {
		for _, subject := range slices.Concat(subjects...) {
			all = append(all, attempt{user, via, subject})
		}
	}
	orders := []string{"$KV.rota.orders.orders"}
	reads := []string{"$JS.API.STREAM.INFO.KV_rota", "$JS.API.STREAM.MSG.GET.KV_rota", "$JS.SHOP.API.STREAM.INFO.KV_rota"}
	try("orders-producer", records, orders, echoes, streams, work, reads)
	trick("orders-producer", "orders.0", records, orders, echoes, streams, work)
	try("shop-observer", records, orders, echoes, streams, work, []string{"orders.0", "$JS.SHOP.API.STREAM.INFO.ORDERS", "$JS.SHOP.API.STREAM.DELETE.KV_rota"})
	trick("shop-observer", "$JS.SHOP.API.STREAM.INFO.KV_rota", records, orders, echoes, streams, work, []string{"orders.0"})
	try("orders-operator", records, echoes, streams, work, []string{"orders.0"})
	trick("orders-operator", "$JS.SHOP.API.STREAM.INFO.KV_rota", records, echoes, streams, work, []string{"orders.0"})
	try("orders-member", []string{"$KV.rota.returns.plan", "$KV.rota.returns.orders"}, echoes, streams, []string{"orders.0"})
	try("returns-member", records[:3], orders, echoes, streams, work, []string{"orders.0"})
	try("billing-member", records, orders, echoes, streams, work, []string{"orders.0"})
	trick("billing-member", "$JS.API.STREAM.INFO.KV_rota", records, orders, echoes, work, []string{"orders.0"})
	before := s.inventory()
	for _, a := range all {
		s.attempt(a)
	}
	if after := s.inventory(); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
	for user, subjects := range map[string][]string{
		"orders-producer": {">", "orders.*", "_rota.>", "_INBOX.>", "_INBOX.orders.>", "$KV.>"},
		"shop-observer":   {">", "orders.*", "_INBOX.>", "_INBOX.orders.>", "$KV.>"},
		"orders-operator": {">", "orders.*", "_INBOX.>", "_INBOX.observer.>", "$KV.>"},
		"orders-member":   {">", "orders.*", "_INBOX.>", "_INBOX.returns.>", "_rota.rota.returns.>", "$KV.>"},
		"returns-member":  {">", "orders.*", "_INBOX.>", "_INBOX.orders.>", "_rota.rota.orders.>", "$KV.>"},
	} {
		for _, subject := range subjects {
			if !s.deaf(user, subject) {
				t.Errorf("%s may listen to %s", user, subject)
			}
		}
	}
}

// TestWhatRightsCannotSeparate within one account is what the page says it is.
func TestWhatRightsCannotSeparate(t *testing.T) {
	t.Parallel()
	s := openShop(t, rightsConfig(t))
	s.furnish()
	returns := rotanats.Store(s.url("returns-member"))
	defer returns.Close()
	if e, err := returns.Get(t.Context(), "orders/plan"); err != nil || string(e.Value) != "kept" {
		t.Errorf("a member cannot read the records of another group any more (%s, %v): say so on the page", e.Value, err)
	}
	if _, err := returns.Put(t.Context(), "returns/x", []byte("v"), 0); err != nil {
		t.Errorf("its own: %v", err)
	}
	nc := s.connect("orders-member")
	if r, err := nc.Request("$JS.API.CONSUMER.DELETE.ORDERS.rota_x", nil, trial.Patience); err != nil || !strings.Contains(string(r.Data), `"success":true`) {
		t.Errorf("a member cannot remove the consumer of another group from a shared stream any more (%v): say so on the page", err)
	}
	s.attempt(attempt{"returns-member", "$JS.API.STREAM.INFO.KV_rota", "$KV.rota.orders.x"})
	admin := rotanats.Store(s.url("shop-admin"))
	defer admin.Close()
	// The server stores its answer after it was asked, so it may take a moment.
	trial.Until(t, "the server's answer to a member to be stored in another group's record; if it is not any more, say so on the page", func() bool {
		_, err := admin.Get(t.Context(), "orders/x")
		return err == nil
	})
}

// TestAProducerInTheSameAccountCanOverwriteRecords, by the acknowledgement that the
// server sends wherever the publisher says. That is why the page has an account for
// producers.
func TestAProducerInTheSameAccountCanOverwriteRecords(t *testing.T) {
	t.Parallel()
	config := strings.Replace(rightsConfig(t), "users: [", `users: [
		{ user: near-producer, password: near-producer-secret, permissions: { publish: ["orders.*"], subscribe: ["_INBOX.producer.>"] } }`, 1)
	s := openShop(t, config)
	s.furnish()
	before := s.inventory()
	s.attempt(attempt{user: "near-producer", subject: "$KV.rota.orders.plan"})
	if after := s.inventory(); after != before {
		t.Fatalf("by itself it may do too much:\n%s\nwas\n%s", after, before)
	}
	s.attempt(attempt{"near-producer", "orders.0", "$KV.rota.orders.plan"})
	// The server's answer is stored a moment later. If it never is, that is good news
	// for the page.
	trial.Until(t, "the record to be overwritten", func() bool { return s.inventory() != before })
}

// seldom are rights of orders-member that this test cannot do without: those for clusters,
// and one for consumers that somebody deletes (TestEachRightOfASource in drivers/rotanats).
var seldom = []string{"$KV.rota._reached", "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.KV_rota", "$JS.API.STREAM.MSG.GET.ORDERS"}

// TestAMissingRightIsTold: without any one of the rights of a member, rota run names
// the right. So none on the page is needless, and none can be forgotten in silence.
func TestAMissingRightIsTold(t *testing.T) {
	t.Parallel()
	config := rightsConfig(t)
	from, to := strings.Index(config, "user: orders-member"), strings.Index(config, "user: returns-member")
	member := config[from:to]
	for i, right := range strings.Split(member, `"`) {
		if i%2 == 0 || slices.Contains(seldom, right) {
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, config[:from]+strings.Replace(member, `"`+right+`"`, `"nothing"`, 1)+config[to:])
			if strings.Contains(right, ".CONSUMER.INFO.") || strings.Contains(right, ".CONSUMER.DELETE.") {
				s.abandon()
			}
			if _, err := s.admin().Publish(t.Context(), "orders.0", []byte("poison")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, told trial.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, []string{"run", "--group", "orders", "--new-group", "--store", s.url("orders-member"), "--source", s.url("orders-member") + ordersSource,
					"--handle", "http://127.0.0.1:1/", "--attempts", "2", "--lease", "2s", "--heartbeat", "500ms"}, &out, &told)
			}()
			trial.Until(t, "the right to be named", func() bool {
				return strings.Contains(told.String(), "does not let this user publish to "+strings.TrimRight(right, "*>")) ||
					strings.Contains(told.String(), "does not let this user subscribe to "+strings.TrimRight(right, "*>"))
			})
			cancel()
			<-ended
		})
	}
}

// abandon leaves consumers as a member that was killed does: nobody has released
// them.
func (s *shop) abandon() {
	s.t.Helper()
	src := rotanats.Source(s.url("shop-admin") + strings.Replace(ordersSource, "&", "?", 1))
	cfg := rota.Config{Group: "orders", Store: rotatest.NewMemStore(), Source: src, NewGroup: true, Handle: func(context.Context, rota.Message) error { return nil }}
	w := s.begin(cfg)
	trial.Until(s.t, "the first owner", func() bool { return w.count(rota.EventStart) == 2 })
	if err := w.end(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.admin().DeleteStream(s.t.Context(), "KV_rota-sources-now"); err != nil {
		s.t.Fatal(err)
	}
}

// TestLookingMakesNoBucket: where no group has begun, commands that look or give
// orders say so, and leave nothing behind.
func TestLookingMakesNoBucket(t *testing.T) {
	t.Parallel()
	s, err := embedded.Serve("embed:"+filepath.Join(t.TempDir(), "data"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	nc, err := rotanats.Connect(s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for _, store := range []string{s.URL(), "embed:" + nowhere} {
		for _, args := range [][]string{{"status"}, {"explain", "p"}, {"partitions", "list"}, {"pause", "p"}, {"freeze"}, {"partitions", "add", "p"}} {
			code, stdout, stderr := rotaRuns(t.Context(), append(args, "--group", "g", "--store", store)...)
			if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, `there is no group called "g"`) {
				t.Errorf("rota %s --store %s: exit %d: %s%s", strings.Join(args, " "), store, code, stdout, stderr)
			}
		}
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("stream %s was made", name)
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Errorf("%s was made", nowhere)
	}
}

// furnish puts something into everything that there is to change.
func (s *shop) furnish() {
	s.t.Helper()
	js := s.admin()
	for _, subject := range []string{"$KV.rota.orders.plan", "$KV.rota.returns.plan", "$KV.rota-sources.post.x", "orders.0", "dead.ORDERS.orders.0"} {
		if _, err := js.Publish(s.t.Context(), subject, []byte("kept")); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := js.CreateConsumer(s.t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "rota_x", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := js.Publish(s.t.Context(), "orders.0", []byte("kept")); err != nil {
		s.t.Fatal(err)
	}
	billing := rotanats.Store(s.url("billing-member"))
	defer billing.Close()
	if _, err := billing.Put(s.t.Context(), "billing/x", []byte("v"), 0); err != nil {
		s.t.Fatal(err)
	}
}

// inventory is all that the account has, apart from how many orders there are: some
// of the tricks publish one, as they may.
func (s *shop) inventory() (out string) {
	s.t.Helper()
	js := s.admin()
	all := js.ListStreams(s.t.Context())
	var lines []string
	for info := range all.Info() {
		st, err := js.Stream(s.t.Context(), info.Config.Name)
		if err != nil {
			s.t.Fatal(err)
		}
		now, err := st.Info(s.t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			s.t.Fatal(err)
		}
		config, err := json.Marshal(now.Config)
		if err != nil {
			s.t.Fatal(err)
		}
		line := string(config)
		if now.Config.Name != "ORDERS" {
			line += fmt.Sprintf(" %d %d %v", now.State.LastSeq, now.State.Msgs, now.State.Subjects)
		} else {
			line += fmt.Sprintf(" from %d", now.State.FirstSeq)
		}
		names := st.ConsumerNames(s.t.Context())
		for name := range names.Name() {
			c, err := st.Consumer(s.t.Context(), name)
			if err != nil {
				s.t.Fatal(err)
			}
			line += fmt.Sprintf(" %s %v %v", name, c.CachedInfo().Delivered, c.CachedInfo().AckFloor)
		}
		lines = append(lines, line)
	}
	if err := all.Err(); err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *shop) admin() jetstream.JetStream {
	s.t.Helper()
	js, err := jetstream.New(s.connect("shop-admin"))
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// attempt makes one. What is published by the user itself must be refused aloud.
func (s *shop) attempt(a attempt) {
	s.t.Helper()
	nc := s.connect(a.user)
	defer nc.Close()
	if a.via == "" {
		if err := nc.PublishRequest(a.subject, nc.NewInbox(), []byte("{}")); err != nil {
			s.t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			s.t.Fatal(err)
		}
		if err := nc.LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
			s.t.Errorf("%s may publish to %s: %v", a.user, a.subject, err)
		}
		return
	}
	if err := nc.PublishRequest(a.via, a.subject, nil); err != nil {
		s.t.Fatal(err)
	}
	if _, err := nc.Request(a.via, nil, trial.Patience); err != nil { // answered after the one before
		s.t.Errorf("%s: %s: %v", a.user, a.via, err)
	}
}

// deaf tells whether a user is refused to subscribe.
func (s *shop) deaf(user, subject string) bool {
	s.t.Helper()
	nc := s.connect(user)
	defer nc.Close()
	if _, err := nc.SubscribeSync(subject); err != nil {
		s.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	return errors.Is(nc.LastError(), nats.ErrPermissionViolation)
}

// A walker is a member of the group orders that notes what happens to it.
type walker struct {
	mu   sync.Mutex
	seen []rota.Event
	end  func() error // asks it to leave and waits for that
}

func (w *walker) note(e rota.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, e)
}

// count is how many events of a kind there were.
func (w *walker) count(kind rota.EventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.seen {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// told is what it told people.
func (w *walker) told() (out string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.seen {
		if e.Because != "" {
			out += fmt.Sprintf("%s %s: %s\n", e.Kind, e.Partition, e.Because)
		}
	}
	return out
}

// member starts one with the rights of orders-member.
func (s *shop) member(name string, handle func(context.Context, rota.Message) error) *walker {
	s.t.Helper()
	return s.begin(rota.Config{Group: "orders", Name: name, NewGroup: true, Attempts: 2, Handle: handle,
		Store:  rotanats.Store(s.url("orders-member")),
		Source: rotanats.Source(s.url("orders-member") + ordersSource)})
}

// begin runs a member until its end is called, or the test's.
func (s *shop) begin(cfg rota.Config) *walker {
	s.t.Helper()
	w := &walker{}
	cfg.Trace, cfg.TraceMessages = w.note, true
	m, err := rota.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := m.Run(ctx)
		cfg.Store.Close()
		cfg.Source.(io.Closer).Close()
		ended <- err
	}()
	w.end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	s.t.Cleanup(func() {
		w.end()
		if s.t.Failed() {
			s.t.Logf("%s told:\n%s", m.Name(), w.told())
		}
	})
	return w
}
