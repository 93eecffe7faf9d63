package rotatest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// An EndpointBroker is a broker with several endpoints, all of which its sources know.
type EndpointBroker interface {
	Broker
	// Send tries once to publish a message. After an error nobody knows whether the broker
	// has stored it. It is called for several partitions at the same time.
	Send(ctx context.Context, partition string, value []byte) error
	// Serving returns an endpoint that serves members, to be killed in this round, which is
	// counted from 0.
	Serving(ctx context.Context, round int) (Endpoint, error)
	// Unsettled is how many messages of a partition a failover can repeat: those that a
	// member has fetched, and whose settlement the broker has not stored.
	Unsettled() int
}

// An Endpoint can be killed. Back brings it back, and returns when the next may be killed.
type Endpoint struct {
	Name string // for people
	Kill func() error
	Back func(context.Context) error
}

// WithFailovers makes the suite kill endpoints of an EndpointBroker under load, twice, or as
// often as ROTA_FAILOVERS says. There are no other cases then.
func WithFailovers() SourceOption { return failoverOption{} }

type failoverOption struct{}

func (failoverOption) source(s *sourceSuite) { s.cases, s.serial = failoverCases, true }

var failoverCases = []sourceCase{
	{"members go to another endpoint by themselves", goElsewhere, nil},
}

// failovers are those of one case.
type failovers struct {
	*sourceTest
	broker  EndpointBroker
	rounds  []failover
	begun   map[string]int          // partition → the message that is being published
	doubled map[string]map[int]bool // partition → messages that may be stored twice, since a try has failed
}

// A failover begins with a kill, and ends when messages of all partitions were handled that
// were published after it.
type failover struct {
	what       string
	begin, end time.Time
}

// goElsewhere kills endpoints while two members are at work.
func goElsewhere(t *sourceTest) {
	b, ok := t.broker.(EndpointBroker)
	if !ok {
		t.Fatalf("%T has one endpoint", t.broker)
	}
	f := &failovers{sourceTest: t, broker: b, begun: map[string]int{}, doubled: map[string]map[int]bool{}}
	t.bound = outageTime
	defer f.check()
	ebb := f.flow()
	first, second := t.join("a", atWork), t.join("b", atWork)
	for round := range failoverCount(t) {
		f.progress("messages are handled", 50)
		f.failOver(round)
	}
	f.progress("messages are handled", 50)
	ebb()
	t.wait("all messages are handled", func() bool {
		return !slices.ContainsFunc(b.Partitions(), func(p string) bool { return !f.handled(p, t.sent[p]) })
	})
	first.leave()
	second.leave()
}

// atWork takes long enough that members have always fetched as many messages as they may.
func atWork(context.Context, *testMember, rota.Message) error {
	time.Sleep(10 * time.Millisecond) // work
	return nil
}

// failoverCount is how many endpoints are killed.
func failoverCount(t testing.TB) int {
	text := os.Getenv("ROTA_FAILOVERS")
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROTA_FAILOVERS is %q, which is not a number of failovers", text)
	}
	return n
}

// failOver kills an endpoint, waits until messages are handled again, and brings it back.
func (f *failovers) failOver(round int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	e, err := f.broker.Serving(ctx, round)
	if err == nil {
		f.note(func() { f.rounds = append(f.rounds, failover{what: e.Name, begin: time.Now()}) })
		err = e.Kill()
	}
	if err != nil {
		f.Fatalf("failover %d: %v", round+1, err)
	}
	f.progress("what was published after the kill of "+e.Name+" is handled", 1)
	f.note(func() { f.rounds[round].end = time.Now() })
	if err := e.Back(ctx); err != nil {
		f.Fatalf("after failover %d: %v", round+1, err)
	}
}

// progress waits until n messages of each partition were handled whose publishing had not
// begun yet.
func (f *failovers) progress(what string, n int) {
	f.Helper()
	want := map[string]int{}
	f.mu.Lock()
	for _, p := range f.broker.Partitions() {
		want[p] = f.begun[p] + n
	}
	f.mu.Unlock()
	f.wait(what, func() bool {
		for p, n := range want {
			if !f.handled(p, n) {
				return false
			}
		}
		return true
	})
}

// handled tells whether a message was handled. The caller holds the lock.
func (f *failovers) handled(p string, n int) bool { return n == 0 || f.good[p][string(numbered(p, n))] }

func numbered(p string, n int) []byte { return fmt.Appendf(nil, "%s %d", p, n) }

// flow publishes to all partitions until ebb is called, each message until it is confirmed, and
// keeps ahead of the members.
func (f *failovers) flow() (ebb func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, p := range f.broker.Partitions() {
		f.doubled[p] = map[int]bool{}
		wg.Go(func() {
			for n := 1; f.send(ctx, p, n); n++ {
				f.note(func() { f.sent[p] = n })
			}
		})
	}
	ebb = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	f.Cleanup(ebb)
	return ebb
}

const (
	sendTime  = 10 * time.Second // for one try
	sendPause = 5 * time.Millisecond
)

// send publishes a message once members need it, and tries again until it is confirmed. It
// returns false if ctx ends.
func (f *failovers) send(ctx context.Context, p string, n int) bool {
	for f.ahead(p, n) {
		if !rest(ctx) {
			return false
		}
	}
	f.note(func() { f.begun[p] = n })
	for {
		try, cancel := context.WithTimeout(ctx, sendTime)
		err := f.broker.Send(try, p, numbered(p, n))
		cancel()
		if err == nil {
			return true
		}
		f.note(func() { f.doubled[p][n] = true })
		if !rest(ctx) {
			return false
		}
	}
}

// ahead tells whether members have more to do than they may fetch.
func (f *failovers) ahead(p string, n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n-len(f.good[p]) > 2*f.broker.Unsettled()
}

// rest waits for a moment. It returns false if ctx ends.
func rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(sendPause):
		return true
	}
}

// A course is what was delivered of one partition so far.
type course struct {
	token rota.Token
	last  int       // the last delivery
	well  int       // all up to here were handled
	at    time.Time // of the last delivery
	round int       // the last failover after which messages were repeated; from 1
}

// check is for the end of the case, also of one that failed: messages are in order, none is
// lost, and none is repeated but those that were not settled when an endpoint was killed. It
// reports how long nothing was delivered.
func (f *failovers) check() {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	parts := map[string]*course{}
	pauses := make([]time.Duration, len(f.rounds)) // of each failover, the longest
	calm, repeated := time.Duration(0), 0
	for i := range f.log {
		d := &f.log[i]
		c := parts[d.msg.Partition]
		if c == nil {
			c = &course{at: d.began}
			parts[d.msg.Partition] = c
		}
		pause, round := d.began.Sub(c.at), f.roundAt(d.began)
		if round > 0 && !c.at.After(f.rounds[round-1].end) {
			pauses[round-1] = max(pauses[round-1], pause)
		} else {
			calm = max(calm, pause)
		}
		if f.follow(c, d, round) {
			repeated++
		}
	}
	if f.Failed() || len(pauses) == 0 {
		return
	}
	messages, doubled := 0, 0
	for _, p := range f.broker.Partitions() {
		messages += f.sent[p]
		doubled += len(f.doubled[p])
	}
	for i, r := range f.rounds {
		f.Logf("%s was killed: nothing was delivered for %v", r.what, pauses[i].Round(time.Millisecond))
	}
	slices.Sort(pauses)
	f.Logf("%d failovers: a partition was without messages for %v in the median and %v at most, and for %v at most at other times; of %d messages, %d were repeated, and %d were perhaps published twice",
		len(pauses), pauses[len(pauses)/2].Round(time.Millisecond), pauses[len(pauses)-1].Round(time.Millisecond), calm.Round(time.Millisecond), messages, repeated, doubled)
}

// roundAt is the failover that was the last one at a time, from 1; 0 before the first.
func (f *failovers) roundAt(at time.Time) (round int) {
	for round < len(f.rounds) && !f.rounds[round].begin.After(at) {
		round++
	}
	return round
}

// follow checks one more delivery of a partition, and tells whether it is a repetition.
func (f *failovers) follow(c *course, d *delivery, round int) (repeated bool) {
	f.Helper()
	p, n := d.msg.Partition, number(&d.msg)
	if d.msg.Token < c.token {
		f.Errorf("%s: %s got message %d under token %d after another had token %d", p, d.by, n, d.msg.Token, c.token)
	}
	switch {
	case n > c.well+1:
		f.Errorf("%s: %s got message %d when %d were done", p, d.by, n, c.well)
		c.well = n - 1 // said once
	case n == c.well+1 || f.doubled[p][n]:
	case c.well-n >= f.broker.Unsettled():
		f.Errorf("%s: %s got message %d again when %d were done: at most %d were not settled", p, d.by, n, c.well, f.broker.Unsettled())
	case n != c.last+1 && c.round == round:
		f.Errorf("%s: %s got message %d again after %d, and no endpoint was killed since the last repetition", p, d.by, n, c.last)
	case n != c.last+1:
		c.round = round
	}
	repeated = n <= c.well && !f.doubled[p][n]
	if d.good && n == c.well+1 {
		c.well = n
	}
	c.token, c.last, c.at = d.msg.Token, n, d.began
	return repeated
}
