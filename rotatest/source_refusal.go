package rotatest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rota-dev/rota"
)

// A RefusingBroker is a Broker that can be made to refuse what its clients ask for, as one
// whose user lacks a right, or whose disk is full.
type RefusingBroker interface {
	Broker
	// RefuseSettling makes it refuse settlements until allow is called.
	RefuseSettling() (allow func())
	// RefuseDead makes it refuse dead letters until allow is called.
	RefuseDead() (allow func())
}

// refusalCases are the cases for brokers that can refuse.
var refusalCases = []sourceCase{
	{"a refused settlement is told, paced and ends by itself", refusedSettlement, refusing},
	{"a refused dead letter is told, paced and ends by itself", refusedLetter, refusing},
}

var refusing = needs[RefusingBroker]("this broker cannot be made to refuse")

// A refusal is watched for refusalTime. A message may be tried mostTries times in it: an
// attempt every quarter of a second on average.
const (
	refusalTime = 5 * time.Second
	mostTries   = 20
)

// refused waits until a member has reported that its source failed, and checks that message n
// is not tried too often from then on.
func (t *sourceTest) refused(a *testMember, n int) {
	t.Helper()
	t.wait("the refusal is told", func() bool {
		return slices.ContainsFunc(a.events, func(e rota.Event) bool {
			return e.Kind == rota.EventCondition && e.Condition == rota.ConditionSourceFailed
		})
	})
	count := func() map[string]int {
		t.mu.Lock()
		defer t.mu.Unlock()
		calls := map[string]int{}
		for p := range t.sent {
			calls[p] = t.tried(p, n)
		}
		return calls
	}
	before := count()
	time.Sleep(refusalTime) // this much time is what the number of tries is about
	for p, after := range count() {
		if tries := after - before[p]; tries > mostTries {
			t.Errorf("%s: message %d was tried %d times in %v while it was refused, want %d at most", p, n, tries, refusalTime, mostTries)
		}
	}
}

func refusedSettlement(t *sourceTest) {
	defer t.checkDeliveries(false)
	allow := t.broker.(RefusingBroker).RefuseSettling()
	t.publish(3)
	a := t.join("a", func(context.Context, *testMember, rota.Message) error {
		time.Sleep(time.Millisecond) // work
		return nil
	})
	t.refused(a, 1)
	allow()
	t.publish(1)
	t.wait("a goes on", func() bool { return t.reached(4) })
	a.leave()
	t.publish(1)
	b := t.join("b", quick)
	t.wait("b goes on", func() bool { return t.reached(5) })
	b.leave()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.log {
		if n := number(&d.msg); d.by == "b" && n < 4 {
			t.Errorf("%s: b got message %d, which a has settled", d.msg.Partition, n)
		}
	}
}

func refusedLetter(t *sourceTest) {
	allow := t.broker.(RefusingBroker).RefuseDead()
	t.publish(3)
	a := t.join("a", func(_ context.Context, _ *testMember, msg rota.Message) error {
		time.Sleep(time.Millisecond) // work
		if number(&msg) == 2 {
			return fmt.Errorf("%w: poison", rota.ErrBad)
		}
		return nil
	})
	t.refused(a, 2)
	t.mu.Lock()
	for p := range t.sent {
		if t.tried(p, 3) > 0 {
			t.Errorf("%s: message 3 came though message 2 is neither handled nor a dead letter", p)
		}
	}
	t.mu.Unlock()
	allow()
	t.wait("the message behind it is handled", func() bool { return t.reached(3) })
	a.leave()
	dead, err := t.broker.Dead()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, d := range dead {
		got = append(got, string(d))
	}
	for p := range t.sent {
		want = append(want, p+" 2")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("dead-lettered were %q, want %q", got, want)
	}
}
