package rotatest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// A WiredBroker is a Broker that its clients reach by TCP, so that the suite can put a
// proxy between them and lose an answer.
type WiredBroker interface {
	Broker
	// Addr is the address it listens on, host and port.
	Addr() string
	// SourceAt is a new client of it that connects to addr, where the suite's proxy
	// listens.
	SourceAt(addr string) rota.Source
	// Tidy returns an error if something is left at the broker that no owner uses, such
	// as a consumer or a lock. It is called while every partition has an owner.
	Tidy() error
}

const wiredName = "an answer lost while attaching wedges nothing and leaves nothing behind"

// mostAnswers bounds the search: few sources need as many requests to attach.
const mostAnswers = 100

// lostAnswers loses the answer to the first packet that a source sends, in the next
// round to the second, and so on, until a round handles all messages before an answer
// is lost. The broker has then done what the source asked for, and the source does not
// know: a retry must not fail because of it, and nothing of it may stay behind. Each
// round has new partitions, and mostly waits for timeouts: so some run side by side.
func lostAnswers(t *testing.T, open func(*testing.T) Broker) {
	for from := 1; from <= mostAnswers; from += roundsAtOnce {
		var lost atomic.Int32
		t.Run(fmt.Sprintf("from answer %d", from), func(t *testing.T) { // returns when all rounds have
			for n := from; n < from+roundsAtOnce; n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					if lostAnswer(newSourceTest(t, open(t)), n) {
						lost.Add(1)
					}
				})
			}
		})
		if t.Failed() || lost.Load() < roundsAtOnce {
			return
		}
	}
}

// roundsAtOnce is how many rounds of lostAnswers run side by side.
const roundsAtOnce = 4

// lostAnswer is one round: it loses answer n. It tells whether that answer was lost
// before all messages were handled.
func lostAnswer(t *sourceTest, n int) bool {
	t.Helper()
	b := t.broker.(WiredBroker)
	w := newWire(t, b.Addr())
	w.lose(n)
	t.publish(5)
	a := t.testMembers.join("a", t.store.Open(), b.SourceAt(w.addr()), quick)
	t.wait(fmt.Sprintf("all messages are handled, answer %d being lost", n), t.all)
	lost := w.hasLost()
	var err error
	tidy := func() bool { err = b.Tidy(); return err == nil }
	defer func() {
		if err != nil {
			t.Errorf("answer %d was lost: %v", n, err)
		}
	}()
	eventually(t, t.bound, "nothing is left behind", tidy)
	a.leave()
	t.checkDeliveries(false)
	return lost
}

// wireSourceCases are the cases for brokers that are reached by TCP.
var wireSourceCases = []sourceCase{
	{"a stop over a slow wire repeats nothing", slowStop, wired},
	{"a cut connection loses nothing and breaks no order", cutWire, wired},
	{"what a killed owner had fetched goes to the next owner, in order", func(t *sourceTest) { fetchedBy(t, (*wire).cutOff) }, wired},
	{"what a frozen owner had fetched goes to the next owner, in order", func(t *sourceTest) { fetchedBy(t, (*wire).halt) }, wired},
}

var wired = needs[WiredBroker]("this broker has no wire")

// joinBy starts a member whose source is behind a wire.
func (t *sourceTest) joinBy(w *wire, name string, handle handler) *testMember {
	t.Helper()
	return t.testMembers.join(name, t.store.Open(), t.broker.(WiredBroker).SourceAt(w.addr()), handle)
}

// cutWire cuts the connections of an owner again and again while messages flow.
func cutWire(t *sourceTest) {
	t.repeat = true
	defer t.inOrder(false)
	w := newWire(t, t.broker.(WiredBroker).Addr())
	ebb := t.flow(2, 20*time.Millisecond)
	a := t.joinBy(w, "a", quick)
	for n := 1; n <= 3; n++ {
		t.wait("a is at work", func() bool { return len(t.sent) > 0 && t.reached(20*n) })
		w.plug(false)
		w.plug(true)
	}
	ebb()
	t.wait("all messages are handled", t.all)
	a.leave()
}

// fetchedBy takes the wire and the store away from an owner that has fetched as much as it
// may, as if its process was killed, or frozen. The broker learns of it by itself alone. The
// source of an owner that lives on must return at once, whatever became of its wire.
func fetchedBy(t *sourceTest, gone func(*wire)) {
	defer t.checkDeliveries(false)
	w := newWire(t, t.broker.(WiredBroker).Addr())
	t.publish(300)
	a := t.joinBy(w, "a", untilSix)
	t.wait("a has come to message 6 everywhere", func() bool { return len(a.in) == len(t.sent) })
	gone(w)
	a.store.Fail()
	b := t.join("b", quick)
	a.orphaned()
	t.wait("all messages are handled", t.all)
	b.leave()
}

// slowTime is how late what a client sends arrives on a slow wire: longer than it takes the
// next owner to begin.
const slowTime = time.Second

// slowStop stops an owner that has more messages to give back, on a wire that is slow from
// that moment on. The settlement of the message in hand is in flight when the owner stops:
// it must have reached the broker before the next owner begins.
func slowStop(t *sourceTest) {
	defer t.checkDeliveries(true)
	w := newWire(t, t.broker.(WiredBroker).Addr())
	gate := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(letGo)
	t.publish(2)
	a := t.joinBy(w, "a", func(_ context.Context, _ *testMember, msg rota.Message) error {
		if number(&msg) == 3 {
			<-gate
			time.Sleep(200 * time.Millisecond) // work: so slow that those behind it are given back
		}
		return nil
	})
	c := t.join("c", quick)
	t.wait("both have begun", func() bool { return t.all() && a.owned > 0 && c.owned > 0 && a.owned+c.owned == len(t.sent) })
	t.publish(18) // a source may confirm its first settlement, and not those from here on
	t.wait("a is at message 3", func() bool { return len(a.in) == a.owned })
	w.slow(slowTime)
	var stops int
	t.note(func() { stops = countKind(a.events, rota.EventStop) + a.owned })
	a.cancel()
	t.wait("a stops", func() bool { return countKind(a.events, rota.EventStop) == stops })
	letGo()
	a.leave()
	t.wait("all messages are handled", t.all)
	c.leave()
}

// countKind returns how many events are of a kind.
func countKind(events []rota.Event, kind rota.EventKind) (n int) {
	for _, e := range events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
