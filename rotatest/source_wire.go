package rotatest

import (
	"fmt"

	"github.com/rota-dev/rota"
)

// A WiredBroker is a Broker that its clients reach by TCP, so that the suite can be
// the wire between them and lose an answer.
type WiredBroker interface {
	Broker
	// Addr is where it listens, host and port.
	Addr() string
	// SourceAt is a new client of it by another address, behind which the suite is
	// the wire.
	SourceAt(addr string) rota.Source
	// Tidy complains about what is left at the broker and of no use to any owner, such
	// as a consumer or a lock. It is called while every partition has an owner.
	Tidy() error
}

const wiredName = "an answer lost while attaching wedges nothing and leaves nothing behind"

// mostAnswers bounds the search: few sources need as many requests to attach.
const mostAnswers = 100

// lostAnswers loses the answer to the first piece that a source sends, then to the
// second, and so on until all messages are handled before one is lost. What was
// asked for did happen then, and its owner does not know: whatever it made must not
// be in its way when it tries again, nor stay. Each time begins in new partitions.
func lostAnswers(t interface{ Helper() }, open func() *sourceTest) {
	t.Helper()
	for n := 1; n <= mostAnswers && lostAnswer(open(), n); n++ {
	}
}

// lostAnswer tells whether the answer was lost before everything was done.
func lostAnswer(t *sourceTest, n int) bool {
	t.Helper()
	b := t.broker.(WiredBroker)
	w := newWire(t, b.Addr())
	w.lose(n)
	t.publish(5)
	a := t.crew.join("a", t.store.Open(), b.SourceAt(w.addr()), quick)
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
	t.judge(false)
	return lost
}
