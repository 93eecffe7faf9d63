package speed

import (
	"testing"
	"time"
)

// A job is a member at work.
type job struct {
	Member
	l  Learner
	at time.Duration
}

// work lets it handle so many messages a second for a while, and returns what is known
// about its capacity then, in units per second.
func (j *job) work(d time.Duration, rate float64, busy uint32, backlog float64) (capacity float64) {
	for end := j.at + d; j.at < end; {
		j.at += 2 * time.Second
		j.Handled += uint64(2 * rate)
		j.Busy = busy
		j.Backlog = uint64(max(float64(j.Backlog)+2000*backlog, 0))
		capacity = float64(j.l.See(j.at, &j.Member)) / 1000
	}
	return capacity
}

// A capacity is learnt from a member that is saturated, and from no other: one that has
// time left could do more, and one whose backlog shrinks is catching up.
func TestCapacityIsLearntFromSaturation(t *testing.T) {
	j := &job{Member: Member{ID: 1, Size: 1}}
	for _, c := range []struct {
		what    string
		rate    float64
		busy    uint32
		backlog float64 // by how much it grows per second
		want    float64
	}{
		{"idle", 10, 100, 0, 0},
		{"busy, and its backlog shrinks", 100, 980, -5, 0},
		{"time left, and its backlog grows", 100, 500, 20, 0},
		{"saturated", 100, 950, 20, 100},
		{"idle again", 10, 100, -20, 100},
		{"faster than ever, and not saturated", 140, 800, -20, 140},
		{"saturated at a lower rate, for long", 50, 1000, 20, 50},
	} {
		if got := j.work(2*time.Minute, c.rate, c.busy, c.backlog); got < c.want-2 || got > c.want+2 {
			t.Errorf("%s: the capacity is %v, want %v", c.what, got, c.want)
		}
	}
}

// A session that begins anew, and so counts from nothing, is another member.
func TestCapacityOfANewCount(t *testing.T) {
	j := &job{Member: Member{ID: 1, Size: 1}}
	j.work(time.Minute, 100, 950, 20)
	j.Handled = 0
	if got := j.work(2*time.Second, 100, 950, 20); got != 0 {
		t.Errorf("the capacity is %v", got)
	}
}

// Where speeds are of bytes, so are capacities: members count messages.
func TestCapacityInBytes(t *testing.T) {
	g := Gauge{Bytes: true}
	two := []string{"small", "large"}
	if got := g.Size(two); got != 0 {
		t.Errorf("before anything was read a message has %v bytes", got)
	}
	for i := range uint64(20) {
		at := time.Duration(2*i) * time.Second
		readings := []Reading{{Partition: "small", Arrived: 60 * i, Bytes: 6000 * i}, {Partition: "large", Arrived: 20 * i, Bytes: 20000 * i}}
		if wrong := g.Observe(at, two, readings); wrong != nil {
			t.Fatal(wrong)
		}
	}
	size := g.Size(two) // three messages of 100 bytes for one of 1000
	if !near(size, 325, 1) {
		t.Errorf("a message has %v bytes, want 325", size)
	}
	j := &job{Member: Member{ID: 1, Size: size}}
	if got := j.work(time.Minute, 100, 950, 20); !near(got, 32500, 200) {
		t.Errorf("the capacity is %v, want 32500", got)
	}
}
