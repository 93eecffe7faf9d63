package rota

import (
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// A member with ten thousand partitions tells of a part of them with each heartbeat, and
// of all of them in the end.
func TestAHeartbeatReportsAPartOfManyPartitions(t *testing.T) {
	var y tally
	const parts = 10_000
	for id := range record.ID(parts) {
		r := &run{id: id}
		r.moved.Store(int64(id) + 1)
		y.start(r)
	}
	got := map[record.ID]uint64{}
	now := time.Now()
	beats := 0
	for ; len(got) < parts; beats++ {
		load, handled, _ := y.report(now, 1)
		if len(load) == 0 || len(load) > mostTallied {
			t.Fatalf("heartbeat %d tells of %d partitions", beats, len(load))
		}
		if handled != parts*(parts+1)/2 {
			t.Fatalf("%d messages were handled", handled)
		}
		last := -1
		for _, l := range load {
			if int(l.ID) <= last || l.Handled != uint64(l.ID)+1 {
				t.Fatalf("partition %d after %d: %d messages", l.ID, last, l.Handled)
			}
			last = int(l.ID)
			got[l.ID] = l.Handled
		}
	}
	if most := parts/mostTallied + 1; beats > most {
		t.Errorf("it took %d heartbeats to tell of all, want %d", beats, most)
	}
	if load, _, _ := y.report(now, 1); len(load) != 0 {
		t.Errorf("nothing changed, and %d partitions are told of", len(load))
	}
}

// The busy share counts handlers that had something to do, and what a run that is over
// has handled is not forgotten.
func TestTheBusyShareOfAMember(t *testing.T) {
	var y tally
	a, b := &run{id: 1}, &run{id: 2}
	y.start(a)
	y.start(b)
	now := time.Now()
	y.report(now, 1)
	a.moved.Add(10)
	a.worked.Add(int64(900 * time.Millisecond))
	if _, _, busy := y.report(now.Add(time.Second), 1); busy != 900 {
		t.Errorf("one handler was busy for 0.9 of the time, the other had nothing to do: %d", busy)
	}
	b.moved.Add(5)
	b.worked.Add(int64(500 * time.Millisecond))
	y.end(b)
	load, handled, _ := y.report(now.Add(2*time.Second), 1)
	if handled != 15 || len(load) != 1 || load[0] != (record.Load{ID: 2, Handled: 5}) {
		t.Errorf("%d handled, %v", handled, load)
	}
	again := &run{id: 2}
	again.moved.Add(3)
	y.start(again)
	if load, _, _ := y.report(now.Add(3*time.Second), 1); len(load) != 1 || load[0].Handled != 8 {
		t.Errorf("a second run of a partition: %v, want 8 in all", load)
	}
}
