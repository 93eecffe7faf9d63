package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// groupTime is the timeout for everything that a group does in these tests. A refusal is
// retried with back-off, up to 10 s apart.
const groupTime = 60 * time.Second

// A club is one group at a broker, with members that come and go.
type club struct {
	*ledger
	b     *broker // its URL is the group's
	group string
	store *rotatest.MemStore

	errMu sync.Mutex
	errs  []error // of Consume
	more  chan struct{}
}

func newClub(t *testing.T, b *broker, group string) *club {
	return &club{ledger: newLedger(t), b: b, group: group, store: rotatest.NewMemStore(), more: make(chan struct{}, 1)}
}

// heard is a source whose errors the club keeps.
type heard struct {
	rota.Source
	c *club
}

func (h heard) Bind(group string) error { return h.Source.(rota.Binder).Bind(group) }

func (h heard) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	err := h.Source.Consume(ctx, own, deliver)
	if err != nil && ctx.Err() == nil {
		h.c.errMu.Lock()
		h.c.errs = append(h.c.errs, err)
		h.c.errMu.Unlock()
		select {
		case h.c.more <- struct{}{}:
		default:
		}
	}
	return err
}

// run starts a member. leave makes it leave in good order.
func (c *club) run(tune ...func(*rota.Config)) (leave func()) {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	ended := c.memberUntil(ctx, "m", c.store.Open(), heard{c.b.Source(), c}, append(tune, func(cfg *rota.Config) { cfg.Group = c.group })...)
	return func() {
		c.Helper()
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("%s left: %v", c.group, err)
		}
	}
}

// reaches waits until the group has handled messages of the first partition up to n.
func (c *club) reaches(n int) {
	c.Helper()
	c.wait(fmt.Sprintf("group %s has handled %d messages", c.group, n), groupTime, c.reached(c.b, n))
}

// refused waits until Consume has failed a number of times more. Each error must contain
// every text.
func (c *club) refused(times int, texts ...string) {
	c.Helper()
	c.errMu.Lock()
	from := len(c.errs)
	c.errMu.Unlock()
	for timeout := time.After(groupTime); ; {
		c.errMu.Lock()
		errs := slices.Clone(c.errs[from:])
		c.errMu.Unlock()
		for _, err := range errs {
			for _, text := range texts {
				if !strings.Contains(err.Error(), text) {
					c.Fatalf("group %s is refused by %q, want %q in it", c.group, err, text)
				}
			}
		}
		if len(errs) >= times {
			return
		}
		select {
		case <-c.more:
		case <-timeout:
			c.Fatalf("group %s was not refused %d times: %v", c.group, times, errs)
		}
	}
}

// neverAgain checks that no message came to the group twice.
func (c *club) neverAgain() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.again > 0 {
		c.Errorf("group %s got %d messages twice", c.group, c.again)
	}
}

// continued tells the club how many messages are done before its first.
func (c *club) continued(n int) { c.done[c.b.names[0]] = n }

// TestGroupsWithOneDurable lets a second group use the durable of the first. It is
// refused by an error that names both and what to do: while the first runs, after it has
// left, and after the server has lost its memory. The first finds everything as it was.
func TestGroupsWithOneDurable(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, _ string) {
		b.keep()
		b.flow(1, 10)
		ga, gb := newClub(t, b.with("durable=d"), "ga"), newClub(t, b.with("durable=d"), "gb")
		says := []string{"durable d belongs to group ga", "this is group gb", "leave durable and takeover out", "add durable=d&takeover=ga"}
		leave := ga.run()
		ga.reaches(10)
		name := b.consumer(b.names[0])
		leaveB := gb.run()
		gb.refused(2, says...)
		b.flow(11, 20)
		ga.reaches(20)
		leave()
		gb.refused(2, says...)
		if err := b.js.DeleteStream(t.Context(), "KV_rota-sources-now"); err != nil {
			t.Fatal(err)
		}
		gb.refused(1, says...)
		b.flow(21, 30)
		if got := b.consumer(b.names[0]); got != name {
			t.Errorf("consumer %s of group ga became %s", name, got)
		}
		leave = ga.run()
		ga.reaches(30)
		leave()
		leaveB()
		ga.neverAgain()
	})
}

// TestRenamedGroupContinues renames a group: the new one continues after the last settled message, and
// the old one is refused from then on, in the running members and in new ones.
func TestRenamedGroupContinues(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, _ string) {
		b.keep()
		b.flow(1, 10)
		ga, gb := newClub(t, b, "ga"), newClub(t, b.with("takeover=ga"), "gb")
		gb.higherTokens(ga)
		leave := ga.run()
		ga.reaches(10)
		leave()
		gb.continued(10)
		leave = gb.run()
		b.flow(11, 20)
		gb.reaches(20)
		leaveA := ga.run()
		ga.refused(2, "group gb has taken durable ga over from group ga", "durable=NAME")
		b.flow(21, 30)
		gb.reaches(30)
		leave()
		ga.refused(1, "group gb has taken durable ga over from group ga")
		b.flow(31, 40)
		leave = gb.run() // with takeover= left in the URL
		gb.reaches(40)
		leave()
		gb.b = b.with("durable=ga")
		leave = gb.run()
		b.flow(41, 50)
		gb.reaches(50)
		leave()
		leaveA()
		ga.neverAgain()
		gb.neverAgain()
		if err := b.Tidy(); err != nil {
			t.Error(err)
		}
		// gb has run without takeover=, so the old name may come back.
		ga.b = b.with("takeover=gb&durable=ga")
		ga.continued(50)
		leave = ga.run()
		b.flow(51, 60)
		ga.reaches(60)
		leave()
		ga.neverAgain()
	})
}

// higherTokens lets the first plan of this group be older than that of another, so that
// the other's tokens are higher.
func (c *club) higherTokens(other *club) {
	c.Helper()
	start := func(g *club) {
		ctx, cancel := context.WithCancel(c.Context())
		started := make(chan struct{}, len(c.b.names))
		own := rota.Func(c.b.names, func(ctx context.Context, own rota.Ownership) error {
			started <- struct{}{}
			select {
			case <-own.Stop():
			case <-ctx.Done():
			}
			return nil
		})
		ended := g.memberUntil(ctx, "f", g.store.Open(), own, func(cfg *rota.Config) { cfg.Group, cfg.Handle = g.group, nil })
		<-started
		cancel()
		if err := <-ended; err != nil {
			c.Fatal(err)
		}
	}
	start(c)
	for era := time.Now().Unix() / 4; time.Now().Unix()/4 == era; {
		time.Sleep(10 * time.Millisecond) // the wall clock leads a token
	}
	start(other)
}

// TestTakeoverFromARunningGroup takes over while the old group still runs: its members are
// refused, and the new group keeps its consumer.
func TestTakeoverFromARunningGroup(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, _ string) {
		b.keep()
		b.flow(1, 10)
		ga, gb := newClub(t, b, "ga"), newClub(t, b.with("takeover=ga"), "gb")
		leaveA := ga.run()
		ga.reaches(10)
		gb.continued(10)
		leaveB := gb.run()
		const says = "group gb has taken durable ga over from group ga"
		ga.refused(1, says)
		b.flow(11, 20)
		gb.reaches(20)
		name := b.consumer(b.names[0])
		ga.refused(3, says)
		b.flow(21, 30)
		gb.reaches(30)
		if got := b.consumer(b.names[0]); got != name {
			t.Errorf("consumer %s of group gb became %s", name, got)
		}
		leaveA()
		leaveB()
		if n := ga.done[b.names[0]]; n != 10 {
			t.Errorf("group ga has handled %d messages, want 10", n)
		}
	})
}

// TestTakeoverIsContinued lets the member that takes over die after it has created its
// consumer, and before it has noted it as the current one. The old group is out by then,
// and the next member of the new one completes the takeover.
func TestTakeoverIsContinued(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, addr string) {
		b.keep()
		b.flow(1, 10)
		ga, gb := newClub(t, b, "ga"), newClub(t, b.with("takeover=ga"), "gb")
		gb.higherTokens(ga)
		leave := ga.run()
		ga.reaches(10)
		leave()
		gb.continued(10)
		wire := loseCreation(t, addr)
		store := rotatest.Faulty(gb.store.Open(), 1)
		ended := gb.memberUntil(t.Context(), "dies", store, gb.b.SourceAt(wire.l.Addr().String()), func(c *rota.Config) { c.Group, c.Orphan = "gb", rota.AtOnce })
		<-wire.lost
		wire.pull() // a dead process sends nothing more
		store.Fail()
		if err := <-ended; !errors.Is(err, rota.ErrOrphaned) {
			t.Fatal(err)
		}
		leave = ga.run()
		ga.refused(1, "group gb has taken durable ga over from group ga")
		leave()
		b.flow(11, 20)
		leave = gb.run()
		gb.reaches(20)
		leave()
		gb.neverAgain()
		if err := b.Tidy(); err != nil {
			t.Error(err)
		}
	})
}

// TestGroupsThatTakeOverFromEachOther tells two groups to take over from each other. The
// second does so once, and keeps what it has taken.
func TestGroupsThatTakeOverFromEachOther(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, _ string) {
		b.keep()
		b.flow(1, 10)
		ga, gb := newClub(t, b.with("durable=d&takeover=gb"), "ga"), newClub(t, b.with("durable=d&takeover=ga"), "gb")
		leaveA := ga.run()
		ga.reaches(10)
		gb.continued(10)
		leaveB := gb.run()
		says := []string{"group gb has taken durable d over from group ga", "takeover=gb in the URL of ga", "remove one of the two"}
		ga.refused(1, says...)
		b.flow(11, 20)
		gb.reaches(20)
		name := b.consumer(b.names[0])
		ga.refused(4, says...)
		b.flow(21, 30)
		gb.reaches(30)
		if got := b.consumer(b.names[0]); got != name {
			t.Errorf("consumer %s of group gb became %s", name, got)
		}
		leaveA()
		leaveB()
	})
}

// TestNotesWithoutAGroup takes the notes of an earlier version, which name no group, by
// their durable as before. From then on they are the group's.
func TestNotesWithoutAGroup(t *testing.T) {
	inStreams(t, func(t *testing.T, b *broker, _ string) {
		b.keep()
		b.flow(1, 10)
		ga, gb := newClub(t, b.with("durable=rota"), "ga"), newClub(t, b.with("durable=rota"), "gb")
		leave := ga.run()
		ga.reaches(10)
		leave()
		for _, bucket := range []string{"rota-sources", "rota-sources-now"} {
			st, err := b.js.Stream(t.Context(), "KV_"+bucket)
			if err != nil {
				t.Fatal(err)
			}
			msg, err := st.GetLastMsgForSubject(t.Context(), "$KV."+bucket+".post.>")
			if err != nil {
				t.Fatal(err)
			}
			old := strings.Replace(string(msg.Data), `"group":"ga",`, "", 1)
			if old == string(msg.Data) {
				t.Fatalf("no group in the note %s", msg.Data)
			}
			if _, err := b.js.Publish(t.Context(), msg.Subject, []byte(old)); err != nil {
				t.Fatal(err)
			}
		}
		gb.continued(10)
		leave = gb.run()
		b.flow(11, 20)
		gb.reaches(20)
		leave()
		gb.neverAgain()
		leave = ga.run()
		ga.refused(1, "durable rota belongs to group gb", "this is group ga")
		leave()
	})
}

// TestWorkQueueNamesItsReader has a work queue that another group, another application or
// the group itself under another durable reads: the error says which.
func TestWorkQueueNamesItsReader(t *testing.T) {
	t.Parallel()
	queue := func(t *testing.T) *broker {
		t.Parallel()
		b := newBroker(t, serve(t).URL(), func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy })
		b.names = b.names[:1]
		return b
	}
	t.Run("another group", func(t *testing.T) {
		b := queue(t)
		ga, gb := newClub(t, b, "ga"), newClub(t, b, "gb")
		leave := ga.run()
		b.flow(1, 10)
		ga.reaches(10)
		leaveB := gb.run()
		gb.refused(2, "work queue", "group ga reads it under durable ga", "this is group gb", "durable=ga&takeover=ga")
		b.flow(11, 20)
		ga.reaches(20)
		leave()
		leaveB()
		gb.b, gb.done[b.names[0]] = b.with("takeover=ga"), 20
		leave = gb.run()
		b.flow(21, 30)
		gb.reaches(30)
		leave()
	})
	t.Run("the same group", func(t *testing.T) {
		b := queue(t)
		ga := newClub(t, b, "ga")
		leave := ga.run()
		b.flow(1, 10)
		ga.reaches(10)
		leave()
		ga.b = b.with("durable=d")
		leave = ga.run()
		ga.refused(1, "group ga itself reads it under durable ga", "write durable=ga")
		leave()
	})
	for name, filters := range map[string][]string{"all subjects": nil, "some subjects": {"*.in.0", "*.other.>"}} {
		t.Run("an application that reads "+name, func(t *testing.T) {
			b := queue(t)
			_, err := b.js.CreateConsumer(t.Context(), b.stream, jetstream.ConsumerConfig{Durable: "billing", FilterSubjects: filters, AckPolicy: jetstream.AckExplicitPolicy})
			if err != nil {
				t.Fatal(err)
			}
			ga := newClub(t, b, "ga")
			leave := ga.run()
			ga.refused(1, "consumer billing, which no group of rota has made", "group ga")
			// It ends by itself when the cause ends.
			if err := b.js.DeleteConsumer(t.Context(), b.stream, "billing"); err != nil {
				t.Fatal(err)
			}
			b.flow(1, 10)
			ga.reaches(10)
			leave()
		})
	}
}

// TestNothingStartsAnew changes the durable of a group. The group does not begin with the
// first message again, but is told under which durable it reads.
func TestNothingStartsAnew(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	b.names = b.names[:1]
	b.flow(1, 10)
	ga := newClub(t, b.with("durable=d"), "ga")
	leave := ga.run()
	ga.reaches(10)
	leave()
	ga.b = b
	leave = ga.run()
	ga.refused(1, "group ga reads it under durable d", "durable ga of group ga would begin with the first message", "write durable=d")
	leave()
	gb := newClub(t, b.with("takeover=ga"), "gb") // the durable of ga is another
	leave = gb.run()
	gb.refused(1, "group ga reads it under durable d", "durable ga of group gb would begin", "write durable=d")
	// It ends by itself when the cause ends.
	if err := b.js.DeleteConsumer(t.Context(), b.stream, b.consumer(b.names[0])); err != nil {
		t.Fatal(err)
	}
	gb.reaches(10)
	leave()
	ga.neverAgain()
}

// TestOneSourceOneGroup binds a source twice, and uses one that was never bound.
func TestOneSourceOneGroup(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	b.names = b.names[:1]
	src := b.Source()
	cfg := rota.Config{Group: "ga", Store: rotatest.NewMemStore(), Source: src, Handle: func(context.Context, rota.Message) error { return nil }}
	for range 2 {
		if _, err := rota.New(cfg); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Group = "gb"
	if _, err := rota.New(cfg); err == nil || !strings.Contains(err.Error(), "reads for group ga and cannot read for group gb") {
		t.Errorf("a second group: %v", err)
	}
	if err := rotanats.Source("nats://a?stream=S&subject=s.*").(rota.Binder).Bind("a.b"); err == nil {
		t.Error("a group with a dot is bound")
	}
	l, reported := newLedger(t), make(chan error, 100)
	l.member("a", rotatest.NewMemStore(), hiding{b.Source(), reported})
	select {
	case err := <-reported:
		if !strings.Contains(err.Error(), "must forward Bind") {
			t.Errorf("a wrapper that hides Bind: %v", err)
		}
	case <-time.After(groupTime):
		t.Error("a source that was never bound does not fail")
	}
}

// hiding is a wrapper that does not forward Bind.
type hiding struct {
	rota.Source
	reported chan error
}

func (h hiding) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	err := h.Source.Consume(ctx, own, deliver)
	h.reported <- err
	return err
}

// TestGroupsAreMeasuredApart reads the backlog of two groups, one of which does not get on.
func TestGroupsAreMeasuredApart(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	b.names = b.names[:1]
	ga, gb := newClub(t, b, "ga"), newClub(t, b, "gb")
	entered, goOn := make(chan struct{}, 100), make(chan struct{})
	ga.run()
	gb.run(func(c *rota.Config) {
		c.Handle = func(context.Context, rota.Message) error {
			entered <- struct{}{}
			<-goOn
			return nil
		}
	})
	defer close(goOn)
	b.flow(1, 10)
	ga.reaches(10)
	select {
	case <-entered:
	case <-time.After(groupTime):
		t.Fatal("group gb gets nothing")
	}
	for group, want := range map[string]int64{"ga": 0, "gb": 10} {
		src := b.Source()
		if err := src.(rota.Binder).Bind(group); err != nil {
			t.Fatal(err)
		}
		var r []rota.Reading
		for deadline := time.Now().Add(groupTime); ; time.Sleep(5 * time.Millisecond) { // acknowledgements are in flight
			var err error
			if r, err = src.(rota.Meter).Read(t.Context(), b.names); err != nil {
				t.Fatal(err)
			}
			if r[0].Backlog == want && r[0].Arrived == 10 && strings.HasPrefix(r[0].Epoch, group+"_") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("group %s: %+v, want a backlog of %d", group, r, want)
			}
		}
	}
}

// TestGroupsHaveTheirOwnDeadLetters lets two groups dead-letter the same message.
func TestGroupsHaveTheirOwnDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	b.names = b.names[:1]
	if err := b.Publish(b.names[0], []byte("poison")); err != nil {
		t.Fatal(err)
	}
	want := []string{"ga", "gb"}
	for _, group := range want {
		newClub(t, b, group).run(func(c *rota.Config) {
			c.Attempts, c.Handle = 1, func(context.Context, rota.Message) error { return errors.New("poison") }
		})
	}
	var got []string
	for deadline := time.Now().Add(groupTime); len(got) < 2 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		st, err := b.js.Stream(t.Context(), b.stream+"_dead")
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
			m, err := st.GetMsg(t.Context(), seq)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Header.Get("Rota-Group"))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("dead letters are of groups %q, want %q", got, want)
	}
}
