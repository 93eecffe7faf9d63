package rotatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// A Broker is a broker as the suite uses it: it publishes, and gives members their
// sources.
type Broker interface {
	// Source is a new client of the broker, for one member.
	Source() rota.Source
	// Partitions are the partitions that Source lists: two or more, empty and without
	// an owner.
	Partitions() []string
	// Publish appends messages to a partition, in order. It returns when the
	// broker has acknowledged them.
	Publish(partition string, values ...[]byte) error
	// Dead are the values of all dead-lettered messages so far, in any order.
	Dead() ([][]byte, error)
}

// Source is the suite for the contract of rota.Source, with real members, a store in
// memory and in real time. open makes a broker, or new partitions in one, for each
// case, and cleans up after it; cases run in parallel. Brokers that are more than a Broker
// have more cases: see WiredBroker, RefusingBroker, ChangingBroker, ForeignBroker,
// DeletingBroker, GuardedBroker and LargeBroker.
//
// WithServer gives the suite the server behind the brokers of open. It then has only those
// cases that stop, kill and freeze the server, and runs them one after another: call it a
// second time, with a server that nothing else uses. WithFailovers is such an option too.
func Source(t *testing.T, open func(t *testing.T) Broker, opts ...SourceOption) {
	suite := sourceSuite{cases: partitionCases()}
	for _, o := range opts {
		o.source(&suite)
	}
	if suite.server != nil {
		suite.cases, suite.serial = sourceServerCases, true
	}
	t.Run("source", func(t *testing.T) { // returns when all cases have
		if !suite.serial {
			t.Run(wiredName, func(t *testing.T) {
				t.Parallel()
				if _, wired := open(t).(WiredBroker); !wired {
					t.Skip("this broker has no wire")
				}
				lostAnswers(t, open)
			})
		}
		for _, c := range suite.cases {
			t.Run(c.name, func(t *testing.T) {
				if !suite.serial {
					t.Parallel()
				}
				b := open(t)
				if why := c.lacks(b); why != "" {
					t.Skip(why)
				}
				st := newSourceTest(t, b)
				st.server = suite.server
				c.run(st)
			})
		}
	})
}

// A SourceOption gives the suite more access to the brokers of a source.
type SourceOption interface{ source(*sourceSuite) }

type sourceSuite struct {
	cases  []sourceCase
	serial bool // cases run one after another, and no others
	server Server
}

// partitionCases are all cases that need no server of their own, and no new broker for each
// round.
func partitionCases() []sourceCase {
	return slices.Concat(wireSourceCases, refusalCases, listingCases, meterCases, foreignCases, sourceCases, deadCases)
}

type sourceCase struct {
	name string
	run  func(*sourceTest)
	need need
}

// A need says what a broker lacks for a case, or nothing.
type need func(Broker) string

func (c *sourceCase) lacks(b Broker) string {
	if c.need == nil {
		return ""
	}
	return c.need(b)
}

// needs is the need of a broker that is a B.
func needs[B Broker](why string) need {
	return func(b Broker) string {
		if _, ok := b.(B); ok {
			return ""
		}
		return why
	}
}

// sourceCases are the cases for every source. Their names are claims.
var sourceCases = []sourceCase{
	{"partitions are listed", partitionsListed, nil},
	{"messages arrive in order", arriveInOrder, nil},
	{"any message is kept", anyMessage, nil},
	{"a stop loses nothing and repeats nothing", stopIsClean, nil},
	{"what a stop gives back goes to the next owner", stopGivesBack, nil},
	{"a stop waits for the message in hand and no more", stopIsPrompt, nil},
	{"an idle partition stops at once", idleStops, nil},
	{"what a lost lease left goes to the next owner, in order", lostLease, nil},
	{"a former owner settles nothing", formerOwner, nil},
	{"a former owner that hangs is in nobody's way", hungOwner, nil},
	{"what fails too often is dead-lettered", deadLetters, nil},
	{"a second group reads independently or is refused by name", groupsApart, nil},
	{"a source that can be opened is open then", openedSource, nil},
}

// openedSource is about an optional method, which a member calls while it joins.
func openedSource(t *sourceTest) {
	src := t.broker.Source()
	opener, ok := src.(rota.Opener)
	if !ok {
		return
	}
	if b, ok := src.(rota.Binder); ok {
		if err := b.Bind(t.group); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.bound)
	defer cancel()
	for range 2 {
		if err := opener.Open(ctx); err != nil {
			t.Errorf("Open: %v", err)
		}
	}
	cancel()
	within(t, t.bound, "Open, when its ctx has ended", func() { opener.Open(ctx) })
}

// sourceTest is the state of one case.
type sourceTest struct {
	*testMembers
	broker Broker
	server Server // nil without WithServer
	store  *MemStore
	sent   map[string]int // partition → messages published
	repeat bool           // an outage may make the broker repeat what was not settled, also within a call of Consume
}

func newSourceTest(t testing.TB, b Broker) *sourceTest {
	return &sourceTest{testMembers: newTestMembers(t), broker: b, store: NewMemStore(), sent: map[string]int{}}
}

// firstMessage is how long the first message may take after a grant.
const firstMessage = 5 * time.Second

func (t *sourceTest) join(name string, handle handler, tune ...func(*rota.Config)) *testMember {
	t.Helper()
	return t.testMembers.join(name, t.store.Open(), t.broker.Source(), handle, tune...)
}

// publish sends n more messages to each partition. They are numbered from 1.
func (t *sourceTest) publish(n int) {
	t.Helper()
	for _, p := range t.broker.Partitions() {
		var values [][]byte
		t.mu.Lock()
		for range n {
			t.sent[p]++
			values = append(values, fmt.Appendf(nil, "%s %d", p, t.sent[p]))
		}
		t.mu.Unlock()
		if err := t.broker.Publish(p, values...); err != nil {
			t.Errorf("publish to %s: %v", p, err)
		}
	}
}

// number is the number that publish has written into a message.
func number(msg *rota.Message) (n int) {
	fmt.Sscan(string(msg.Value[bytes.LastIndexByte(msg.Value, ' ')+1:]), &n)
	return n
}

// flow publishes n messages to each partition at every tick, until ebb is called.
func (t *sourceTest) flow(n int, every time.Duration) (ebb func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.publish(n)
			case <-stop:
				return
			}
		}
	})
	ebb = sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
	t.Cleanup(ebb)
	return ebb
}

// all tells whether every published message has been handled.
func (t *sourceTest) all() bool {
	for p, n := range t.sent {
		if len(t.good[p]) < n {
			return false
		}
	}
	return true
}

// reached tells whether message n of each partition has been handled.
func (t *sourceTest) reached(n int) bool {
	for p := range t.sent {
		if !t.good[p][fmt.Sprintf("%s %d", p, n)] {
			return false
		}
	}
	return true
}

// checkDeliveries is for the end of a case, also of one that failed.
func (t *sourceTest) checkDeliveries(once bool) {
	t.Helper()
	t.inOrder(once)
	t.promptly()
}

// inOrder checks the order of all deliveries. With once, no message may have been
// redelivered; retries by the member do not count.
func (t *sourceTest) inOrder(once bool) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	type state struct {
		token      rota.Token
		call       int // of Consume
		last       int // delivered by this call
		well       int // all up to here were handled, by any member
		id         map[int]string
		position   map[int]uint64
		atPosition map[uint64]int
	}
	parts := map[string]*state{}
	for i := range t.log {
		d := &t.log[i]
		p, n := d.msg.Partition, number(&d.msg)
		s := parts[p]
		if s == nil {
			s = &state{id: map[int]string{}, position: map[int]uint64{}, atPosition: map[uint64]int{}}
			parts[p] = s
		}
		if want := fmt.Sprintf("%s %d", p, n); string(d.msg.Value) != want {
			t.Errorf("%s: %s got %q, which nobody sent there", p, d.by, d.msg.Value)
			continue
		}
		if d.msg.Token < s.token {
			t.Errorf("%s: %s got message %d under token %d after another had token %d", p, d.by, n, d.msg.Token, s.token)
		}
		switch {
		case d.msg.Token > s.token, d.msg.Token == s.token && d.call > s.call:
			if n > s.well+1 || once && n <= s.well {
				t.Errorf("%s: %s begins with message %d, but %d are done", p, d.by, n, s.well)
			}
			s.token, s.call = d.msg.Token, d.call
		case n == s.last && d.msg.Attempt > 1:
		case t.repeat && n <= s.well+1:
		case n != s.last+1:
			t.Errorf("%s: %s got message %d after %d", p, d.by, n, s.last)
		}
		s.last = n
		if d.good && n == s.well+1 {
			s.well = n
		}
		t.described(s.id, s.position, s.atPosition, n, &d.msg)
	}
}

// described checks the fields that a source may fill in: ID, Position, Attempt, Time.
func (t *sourceTest) described(id map[int]string, position map[int]uint64, atPosition map[uint64]int, n int, msg *rota.Message) {
	if old, ok := id[n]; ok && old != msg.ID {
		t.Errorf("%s: message %d has ID %q, and had %q", msg.Partition, n, msg.ID, old)
	}
	id[n] = msg.ID
	if old, ok := position[n]; ok && old != msg.Position {
		t.Errorf("%s: message %d is at position %d, and was at %d", msg.Partition, n, msg.Position, old)
	}
	if before, ok := position[n-1]; ok && msg.Position != 0 && msg.Position <= before {
		t.Errorf("%s: message %d is at position %d, the one before it at %d", msg.Partition, n, msg.Position, before)
	}
	position[n] = msg.Position
	if other, ok := atPosition[msg.Position]; ok && msg.Position != 0 && other != n {
		t.Errorf("%s: messages %d and %d are both at position %d", msg.Partition, other, n, msg.Position)
	}
	atPosition[msg.Position] = n
	if msg.Attempt < 1 {
		t.Errorf("%s: message %d is attempt %d", msg.Partition, n, msg.Attempt)
	}
	if age := time.Since(msg.Time); !msg.Time.IsZero() && (age > time.Hour || age < -time.Hour) {
		t.Errorf("%s: message %d is of %v", msg.Partition, n, msg.Time)
	}
}

// promptly checks that the first message of each grant came in time, and that the
// source had called Started.
func (t *sourceTest) promptly() {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	type grant struct {
		partition string
		token     rota.Token
	}
	first := map[grant]*delivery{}
	for i := range t.log {
		d := &t.log[i]
		if g := (grant{d.msg.Partition, d.msg.Token}); first[g] == nil {
			first[g] = d
		}
	}
	started := map[grant]bool{}
	for _, m := range t.members {
		for _, e := range m.events {
			g := grant{e.Partition, e.Token}
			if e.Kind == rota.EventStart {
				started[g] = true
			}
			if d := first[g]; d != nil && e.Kind == rota.EventGrant && d.began.Sub(e.Time) > firstMessage {
				t.Errorf("%s: %s got the first message %v after its grant", e.Partition, m.name, d.began.Sub(e.Time))
			}
		}
	}
	for g, d := range first {
		if !started[g] {
			t.Errorf("%s: %s got messages, but its source never called Started", g.partition, d.by)
		}
	}
}

func partitionsListed(t *sourceTest) {
	want := slices.Sorted(slices.Values(t.broker.Partitions()))
	if len(want) < 2 {
		t.Fatalf("the broker has %d partitions, want two or more", len(want))
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), t.bound)
		list, err := t.broker.Source().Partitions(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range list {
			got = append(got, p.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the source lists %q, want %q", got, want)
		}
	}
}

func arriveInOrder(t *sourceTest) {
	defer t.checkDeliveries(true)
	t.publish(100) // before a member has joined
	a := t.join("a", quick)
	t.wait("what was there is handled", t.all)
	t.publish(1) // to a member that waits
	t.wait("one more is handled", t.all)
	t.publish(50)
	t.wait("what came later is handled", t.all)
	a.leave()
}

// anyMessage delivers an empty message, a short one, one with all bytes and a large
// one.
func anyMessage(t *sourceTest) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(i * i >> 8)
	}
	t.kept([][]byte{{}, {0}, every, large, []byte("end")})
}

// kept checks that messages arrive as they were published.
func (t *sourceTest) kept(values [][]byte) {
	t.Helper()
	p := t.broker.Partitions()[0]
	if err := t.broker.Publish(p, values...); err != nil {
		t.Fatal(err)
	}
	t.join("a", quick)
	t.wait("all messages are handled", func() bool { return len(t.log) >= len(values) })
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, d := range t.log {
		if i < len(values) && string(d.msg.Value) != string(values[i]) {
			t.Errorf("message %d is %s, want %s", i+1, brief(string(d.msg.Value)), brief(string(values[i])))
		}
	}
}

// stopIsClean moves partitions between busy members that have prefetched: half of
// them when the second joins, the rest when the first leaves.
func stopIsClean(t *sourceTest) {
	defer t.checkDeliveries(true)
	busy := func(context.Context, *testMember, rota.Message) error {
		time.Sleep(time.Millisecond) // work
		return nil
	}
	n := len(t.broker.Partitions())
	t.publish(300)
	ebb := t.flow(50, 50*time.Millisecond) // as fast as one member can handle them
	a := t.join("a", busy)
	t.wait("a is at work everywhere", func() bool { return a.owned == n })
	b := t.join("b", busy)
	t.wait("b is at work", func() bool { return b.given > 0 })
	a.leave()
	t.wait("b has everything", func() bool { return b.owned == n })
	ebb()
	t.wait("all messages are handled", t.all)
	b.leave()
}

// stopGivesBack stops an owner whose handler keeps failing.
func stopGivesBack(t *sourceTest) {
	defer t.checkDeliveries(true)
	t.publish(20)
	a := t.join("a", func(_ context.Context, _ *testMember, msg rota.Message) error {
		if number(&msg) >= 4 {
			return errors.New("not by me")
		}
		return nil
	}, func(c *rota.Config) { c.Attempts = 1000 })
	t.wait("a fails everywhere", func() bool {
		failing := map[string]bool{}
		for _, d := range t.log {
			if d.msg.Attempt > 1 {
				failing[d.msg.Partition] = true
			}
		}
		return len(failing) == len(t.sent)
	})
	a.leave()
	b := t.join("b", quick)
	t.wait("all messages are handled", t.all)
	b.leave()
	if dead, err := t.broker.Dead(); err != nil || len(dead) > 0 {
		t.Errorf("%d messages were dead-lettered, error %v; want none", len(dead), err)
	}
}

// stopIsPrompt stops an owner that has fetched many messages of which each takes long.
// The message in hand is finished and settled; the others go to the next owner, and
// nothing that was handled comes again.
func stopIsPrompt(t *sourceTest) {
	defer t.checkDeliveries(true)
	const work = 200 * time.Millisecond
	t.publish(20)
	a := t.join("a", func(context.Context, *testMember, rota.Message) error {
		time.Sleep(work)
		return nil
	})
	t.wait("a has handled two messages everywhere", func() bool { return t.reached(2) })
	a.leave()
	t.mu.Lock()
	stopped := map[string]time.Time{}
	for _, e := range a.events {
		if e.Kind == rota.EventStop {
			stopped[e.Partition] = e.Time
		}
	}
	for _, d := range t.log {
		if late := d.began.Sub(stopped[d.msg.Partition]); late > work/2 {
			t.Errorf("%s: message %d was begun %v after the stop", d.msg.Partition, number(&d.msg), late)
		}
	}
	t.mu.Unlock()
	b := t.join("b", quick)
	t.wait("all messages are handled", t.all)
	b.leave()
}

// idleStops checks that an idle source returns at once, on a stop and on a cancelled
// ctx. Otherwise rota would abort the process.
func idleStops(t *sourceTest) {
	n := len(t.broker.Partitions())
	a := t.join("a", quick)
	t.wait("a has everything", func() bool { return a.owned == n })
	asked := time.Now()
	a.leave()
	if took := time.Since(asked); took > firstMessage {
		t.Errorf("leaving took %v with nothing to do", took)
	}
	b := t.join("b", quick)
	t.wait("b has everything", func() bool { return b.owned == n })
	b.store.Fail()
	b.orphaned() // without an abort
}

// untilSix handles five messages of each partition, and the next one for as long as its ctx
// lasts.
func untilSix(ctx context.Context, _ *testMember, msg rota.Message) error {
	if number(&msg) < 6 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// lostLease cuts an owner off from its store while it has fetched messages.
func lostLease(t *sourceTest) {
	defer t.checkDeliveries(false)
	t.publish(300)
	a := t.join("a", untilSix)
	t.wait("a has come to message 6 everywhere", func() bool { return len(a.in) == len(t.sent) })
	a.store.Fail()
	b := t.join("b", quick)
	a.orphaned()
	t.wait("all messages are handled", t.all)
	b.leave()
}

// hang joins a member whose handler hangs at message 3 until letGo is called, whatever
// its ctx says, and then reports success, like a process that wakes after SIGSTOP. lost
// tells whether its lease is over. The source must not settle that message.
func (t *sourceTest) hang(name string) (m *testMember, letGo func(), lost func() bool) {
	gate := make(chan struct{})
	letGo = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(letGo)
	aborted := 0
	m = t.join(name, func(ctx context.Context, _ *testMember, msg rota.Message) error {
		if number(&msg) == 3 {
			<-gate
		}
		return nil
	}, func(c *rota.Config) {
		c.Abort = func(error) { t.note(func() { aborted++ }) }
	})
	return m, letGo, func() bool { return aborted > 0 } // which is when the lease is over
}

func formerOwner(t *sourceTest) {
	defer t.checkDeliveries(false)
	t.publish(300)
	a, letGo, lost := t.hang("a")
	t.wait("a hangs everywhere", func() bool { return len(a.in) == len(t.sent) })
	a.store.Fail()
	t.wait("a's lease is over", lost)
	letGo()
	a.orphaned()
	b := t.join("b", quick)
	t.wait("all messages are handled, those too that a was late for", t.all)
	b.leave()
}

// hungOwner checks that the next owner does not wait for a hanging one, and that
// nothing is settled or redelivered when the hanging one wakes.
func hungOwner(t *sourceTest) {
	defer t.checkDeliveries(false)
	t.publish(300)
	a, letGo, lost := t.hang("a")
	t.wait("a hangs everywhere", func() bool { return len(a.in) == len(t.sent) })
	a.store.Fail()
	b := t.join("b", quick)
	t.wait("a's lease is over", lost)
	t.wait("all messages are handled though a hangs", t.all)
	letGo()
	a.orphaned()
	t.publish(10)
	t.wait("all messages are handled", t.all)
	b.leave()
}
