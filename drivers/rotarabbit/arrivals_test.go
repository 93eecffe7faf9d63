package rotarabbit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestArrivalsAreSorted delivers what a former owner has returned before what nobody has had,
// also if it arrives a moment later.
func TestArrivalsAreSorted(t *testing.T) {
	begun := time.Now()
	type step struct {
		at   time.Duration
		add  string // "r1" was returned, "n1" was not
		want string // of the batch at that time
	}
	for _, c := range []struct {
		name, kind string
		steps      []step
		broken     bool
	}{
		{"a quorum queue at the border", quorum, []step{
			{0, "r1 r2", "1 2"},
			{time.Millisecond, "n4", ""},
			{2 * time.Millisecond, "r3", "3"},
			{10 * time.Millisecond, "n5", ""},
			{60 * time.Millisecond, "", "4 5"},
			{61 * time.Millisecond, "n6", "6"},
		}, false},
		{"nothing was returned", quorum, []step{{0, "n1", ""}, {5 * time.Millisecond, "n2", ""}, {25 * time.Millisecond, "", "1 2"}, {26 * time.Millisecond, "n3", "3"}}, false},
		{"what was returned comes second", quorum, []step{{0, "n2", ""}, {time.Millisecond, "r1", "1"}, {60 * time.Millisecond, "", "2"}}, false},
		{"too late", quorum, []step{{0, "n2", ""}, {30 * time.Millisecond, "", "2"}, {40 * time.Millisecond, "n3 r1", "1 3"}}, true},
		{"a classic queue", classic, []step{{0, "n1", "1"}, {time.Millisecond, "r2 n3", "2 3"}}, false},
	} {
		a := newArrivals(c.kind)
		tag := uint64(0)
		for i, s := range c.steps {
			now := begun.Add(s.at)
			for _, m := range strings.Fields(s.add) {
				tag++
				a.add(amqp.Delivery{DeliveryTag: tag, Redelivered: m[0] == 'r', Body: []byte(m[1:])}, now)
			}
			got := ""
			a.next(10, now, func(d *amqp.Delivery) { got += " " + string(d.Body) })
			if fmt.Sprint(strings.Fields(got)) != fmt.Sprint(strings.Fields(s.want)) {
				t.Errorf("%s, step %d: %q, want %q", c.name, i+1, got, s.want)
			}
		}
		if a.reordered() != c.broken {
			t.Errorf("%s: broken is %v", c.name, !c.broken)
		}
	}
}

// TestAcksCoverNothingElse settles messages in another order than the broker's.
func TestAcksCoverNothingElse(t *testing.T) {
	var a acks
	for i, c := range []struct {
		tags []uint64
		last uint64
		all  bool
	}{
		{[]uint64{1, 2, 3}, 3, true},
		{[]uint64{5}, 5, false},
		{[]uint64{7, 8}, 8, false},
		{[]uint64{4}, 4, true},
		{[]uint64{6}, 6, true},
		{[]uint64{9, 10}, 10, true},
		{[]uint64{12, 11}, 12, true},
	} {
		if last, all := a.settle(c.tags); last != c.last || all != c.all {
			t.Errorf("step %d: %v are all up to %d: %v, want %v up to %d", i+1, c.tags, last, all, c.all, c.last)
		}
	}
	if len(a.above) != 0 {
		t.Errorf("%v are left", a.above)
	}
}
