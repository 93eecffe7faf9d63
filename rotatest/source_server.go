package rotatest

import (
	"context"
	"slices"
	"time"

	"github.com/rota-dev/rota"
)

// sourceServerCases are the cases for sources whose server the suite may stop, kill and
// freeze. What was published and acknowledged must survive that. A broker's Publish waits
// for a server that is just coming back.
var sourceServerCases = []sourceCase{
	{"members go on after the broker was restarted", func(t *sourceTest) { goOnAfter(t, stopping) }, nil},
	{"members go on after the broker was killed", func(t *sourceTest) { goOnAfter(t, killing) }, nil},
	{"members go on after the broker was frozen", func(t *sourceTest) { goOnAfter(t, freezing) }, nil},
	{"a stop does not wait for a broker that is frozen", stopWhileFrozen, nil},
	{"a lost lease does not wait for a broker that is frozen", lostWhileFrozen, nil},
	{"a member that joins without a broker begins when it is back", joinWithout, nil},
}

// outageTime is the timeout of a wait that includes the start of a server.
const outageTime = time.Minute

// outage begins an outage of the broker.
func (t *sourceTest) outage(o outage) (back func()) {
	t.Helper()
	t.bound, t.repeat = outageTime, true
	return away(t, t.server, o)
}

// reported waits until a member has reported a condition of the source.
func (t *sourceTest) reported(what string, members ...*testMember) {
	t.Helper()
	t.wait(what+" is reported", func() bool {
		return slices.ContainsFunc(members, func(m *testMember) bool {
			return slices.ContainsFunc(m.events, func(e rota.Event) bool {
				return e.Kind == rota.EventCondition && (e.Condition == rota.ConditionSourceFailed || e.Condition == rota.ConditionPartitionsUnknown)
			})
		})
	})
}

func busy(context.Context, *testMember, rota.Message) error {
	time.Sleep(5 * time.Millisecond) // work
	return nil
}

// goOnAfter takes the broker away from two members at work, until one of them has reported
// it, and brings it back.
func goOnAfter(t *sourceTest, o outage) {
	defer t.inOrder(false)
	t.publish(300)
	a, b := t.join("a", busy), t.join("b", busy)
	t.wait("a and b are at work", func() bool { return t.reached(20) && a.given > 0 && b.given > 0 })
	back := t.outage(o)
	t.reported("the "+o.name, a, b)
	back()
	t.publish(10)
	t.wait("all messages are handled", t.all)
	a.leave()
	b.leave()
}

// mostStop is how long a member may take to leave while its broker does not answer. After
// that rota would evict it.
const mostStop = 20 * time.Second

func stopWhileFrozen(t *sourceTest) {
	defer t.inOrder(false)
	t.publish(300)
	a := t.join("a", busy)
	t.wait("a is at work", func() bool { return t.reached(5) })
	back := t.outage(freezing)
	asked := time.Now()
	a.leave()
	if took := time.Since(asked); took > mostStop {
		t.Errorf("leaving took %v while the broker was frozen, want %v at most", took, mostStop)
	}
	back()
	b := t.join("b", quick)
	t.wait("all messages are handled", t.all)
	b.leave()
}

// lostWhileFrozen cuts an owner off from its store while its broker is frozen. Its source
// must return at once: otherwise rota would abort the process.
func lostWhileFrozen(t *sourceTest) {
	defer t.inOrder(false)
	t.publish(300)
	a := t.join("a", untilSix)
	t.wait("a has come to message 6 everywhere", func() bool { return len(a.in) == len(t.sent) })
	back := t.outage(freezing)
	a.store.Fail()
	a.orphaned()
	back()
	b := t.join("b", quick)
	t.wait("all messages are handled", t.all)
	b.leave()
}

func joinWithout(t *sourceTest) {
	defer t.inOrder(false)
	t.publish(5)
	back := t.outage(killing)
	a := t.join("a", quick)
	t.reported("that there is no broker", a)
	back()
	t.publish(5)
	t.wait("all messages are handled", t.all)
	a.leave()
}
