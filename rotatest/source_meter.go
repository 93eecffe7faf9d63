package rotatest

import (
	"fmt"
	"slices"
	"time"

	"github.com/rota-dev/rota"
)

// meterCases are for sources that measure: rota.Meter.
var meterCases = []sourceCase{
	{"what arrives is counted, owned or not", meterCounts, measures},
	{"the owner reads what others read", meterOwner, measures},
	{"a hand-over changes no count", meterMoves, measures},
}

func measures(b Broker) string {
	if _, ok := b.Source().(rota.Meter); !ok {
		return "this source measures nothing"
	}
	return ""
}

// meter is the meter of a new source that reads for the group.
func (t *sourceTest) meter() rota.Meter {
	t.Helper()
	src := t.broker.Source()
	if b, ok := src.(rota.Binder); ok {
		if err := b.Bind(t.group); err != nil {
			t.Fatal(err)
		}
	}
	return src.(rota.Meter)
}

// read reads all partitions, and checks what must hold of any reading.
func (t *sourceTest) read(m rota.Meter, names ...string) map[string]rota.Reading {
	t.Helper()
	list, err := m.Read(t.Context(), names)
	if err != nil {
		t.Fatalf("the meter: %v", err)
	}
	out := map[string]rota.Reading{}
	for _, r := range list {
		switch {
		case !slices.Contains(names, r.Partition):
			t.Errorf("the meter was asked for %q and tells of %q", names, r.Partition)
		case out[r.Partition].Partition != "":
			t.Errorf("the meter tells twice of %s", r.Partition)
		case r.Backlog < 0:
			t.Errorf("%s has a backlog of %d", r.Partition, r.Backlog)
		}
		out[r.Partition] = r
	}
	for _, n := range names {
		if out[n].Partition == "" {
			t.Errorf("the meter was asked for %s and does not tell of it", n)
		}
	}
	return out
}

// meterTime is how long a count may be late.
const meterTime = 30 * time.Second

// untilRead waits until a partition is read like this.
func (t *sourceTest) untilRead(m rota.Meter, what string, like func(all map[string]rota.Reading) error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(meterTime); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = like(t.read(m, t.broker.Partitions()...)); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// meterCounts reads while nobody consumes anything, and all that arrives must be counted.
// Then a member consumes, and nothing waits any more.
func meterCounts(t *sourceTest) {
	m := t.meter()
	t.publish(3)
	t.untilRead(m, "nobody consumes", func(all map[string]rota.Reading) error {
		for p, r := range all {
			if r.Backlog != 3 {
				return fmt.Errorf("3 messages wait in %s, and it is read as %+v", p, r)
			}
		}
		return nil
	})
	before := t.read(m, t.broker.Partitions()...)
	t.publish(5)
	t.untilRead(m, "5 more arrived", func(all map[string]rota.Reading) error {
		for p, r := range all {
			if b := before[p]; r.Epoch != b.Epoch || r.Unknown != b.Unknown || !r.Unknown && r.Arrived-b.Arrived != 5 || r.Backlog != 8 {
				return fmt.Errorf("%s was read as %+v, and then as %+v", p, b, r)
			}
		}
		return nil
	})
	one := t.broker.Partitions()[0]
	t.read(m, one) // tells of no other
	t.join("a", quick)
	t.wait("all are handled", t.all)
	t.untilRead(m, "all were handled", func(all map[string]rota.Reading) error {
		for p, r := range all {
			if r.Backlog != 0 {
				return fmt.Errorf("nothing waits in %s, and it is read as %+v", p, r)
			}
		}
		return nil
	})
}

// meterOwner reads by the source that consumes, as each member does of its quiet
// partitions, and by another one, as a leader does.
func meterOwner(t *sourceTest) {
	src, others := t.broker.Source(), t.meter()
	t.testMembers.join("a", t.store.Open(), src, quick)
	t.publish(3)
	t.wait("all are handled", t.all)
	own := src.(rota.Meter)
	t.untilRead(own, "all were handled", func(all map[string]rota.Reading) error {
		for p, want := range t.read(others, t.broker.Partitions()...) {
			one := t.read(own, p)[p]
			if one != all[p] || one != want || one.Backlog != 0 {
				return fmt.Errorf("%s is read as %+v, alone as %+v, and by another source as %+v", p, all[p], one, want)
			}
		}
		return nil
	})
}

// A RoughBroker is a Broker that may count a message twice while it is delivered.
type RoughBroker interface {
	Broker
	// Ahead is by how many messages a count may be ahead of what was published.
	Ahead() uint64
}

// meterMoves reads while messages flow and partitions change hands. Within an epoch no
// count goes back, and none runs ahead of what was published.
func meterMoves(t *sourceTest) {
	m := t.meter()
	a := t.join("a", quick)
	t.publish(1)
	t.wait("all are handled", t.all)
	ebb := t.flow(1, 20*time.Millisecond)
	last, ahead := map[string]rota.Reading{}, uint64(0)
	if rough, ok := t.broker.(RoughBroker); ok {
		ahead = rough.Ahead()
	}
	look := func() {
		for p, r := range t.read(m, t.broker.Partitions()...) {
			if l, ok := last[p]; ok && l.Epoch == r.Epoch && r.Arrived < l.Arrived {
				t.Errorf("the arrivals of %s went back from %d to %d within an epoch", p, l.Arrived, r.Arrived)
			}
			t.mu.Lock()
			sent := uint64(t.sent[p])
			t.mu.Unlock()
			if r.Arrived > sent+ahead {
				t.Errorf("%d arrivals are read of %s, and %d were published", r.Arrived, p, sent)
			}
			last[p] = r
		}
	}
	for range 5 {
		look()
	}
	t.join("b", quick)
	for range 10 {
		look()
	}
	a.leave()
	for range 10 {
		look()
	}
	ebb()
	t.wait("all are handled", t.all)
	look()
}
