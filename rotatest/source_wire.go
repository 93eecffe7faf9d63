package rotatest

import (
	"fmt"

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
// round has new partitions.
func lostAnswers(t interface{ Helper() }, open func() *sourceTest) {
	t.Helper()
	for n := 1; n <= mostAnswers && lostAnswer(open(), n); n++ {
	}
}

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
