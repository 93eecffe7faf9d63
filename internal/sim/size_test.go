package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// sized is a stage with a platform that starts and ends processes.
type sized struct {
	*loaded
	t       *testing.T
	changes []core.Fleet // how often a leader wanted another number of members
	removed []string     // members that the platform ended, in order
	next    int          // number of the next process
	after   []func()     // what the platform does when the present step is over
}

func newSized(t *testing.T, parts, members int, settings ...string) *sized {
	s := &sized{loaded: newLoaded(t, parts, 0, settings...), t: t}
	acts := s.w.acts
	s.w.acts = func(a *core.Action) {
		acts(a)
		switch {
		case a.Do == core.DoNote && a.Note == core.NoteSize:
			s.changes = append(s.changes, a.Fleet)
		case a.Do == core.DoScale:
			f := a.Fleet
			s.after = append(s.after, func() { s.carryOut(f) })
		}
	}
	for range members {
		s.start()
	}
	return s
}

func (s *sized) start() {
	s.next++
	s.Join(fmt.Sprintf("c%d", s.next))
}

// carryOut makes it so: it asks those that are named to leave, and starts as many as are
// missing.
func (s *sized) carryOut(f core.Fleet) {
	up := 0
	for _, h := range s.w.hosts {
		switch {
		case !h.up:
		case slices.Contains(f.Remove, h.node.Session()):
			if !h.leaves {
				s.notOwner(h)
				s.removed = append(s.removed, h.name)
				s.Leave(h.name)
			}
		case !h.leaves:
			up++
		}
	}
	for ; up < f.Want; up++ {
		s.start()
	}
}

func (s *sized) notOwner(h *host) {
	if n := len(h.runs); n > 0 {
		s.t.Errorf("%s is ended while it runs %d partitions", h.name, n)
	}
}

// pass lets time pass second by second; the platform takes that long to do what it is
// asked for.
func (s *sized) pass(d time.Duration, each func()) {
	s.t.Helper()
	for range d / time.Second {
		due := s.after
		s.after = nil
		for _, f := range due {
			f()
		}
		if each != nil {
			each()
		}
		s.Advance(time.Second)
		if s.w.bad != nil {
			s.t.Fatal(s.w.bad)
		}
	}
}

func (s *sized) live() (out []*host) {
	for _, h := range s.w.hosts {
		if h.up && !h.leaves {
			out = append(out, h)
		}
	}
	return out
}

// An hour of steady load with 10 % noise changes the size of the group not once.
func TestNoiseChangesNoSize(t *testing.T) {
	for _, share := range []float64{0.5, 0.8, 1} { // of what four members take
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 21))
			s := newSized(t, 40, 3, "scale=1..8", "down-after=10s")
			noise := func() {
				for i := range 40 {
					s.w.setLoad(partName(i), share*4*80/40*(0.9+0.2*r.Float64()))
				}
			}
			noise()
			s.pass(5*time.Minute, noise)
			s.changes, s.looks = nil, 0
			s.pass(time.Hour, noise)
			if len(s.changes) != 0 || s.looks < 100 {
				t.Errorf("in an hour of noise the size changed %d times, %v, in %d looks", len(s.changes), s.changes, s.looks)
			}
		})
	}
}

// A partition that is more than any member can take starts no member: it could not help.
func TestAHotPartitionStartsNobody(t *testing.T) {
	s := newSized(t, 12, 3, "scale=1..8", "down-after=10s")
	s.do(t, "load", "all", "5")
	s.pass(2*time.Minute, nil)
	was := len(s.live())
	s.changes = nil
	s.w.setLoad(partName(0), 500)
	s.pass(5*time.Minute, nil)
	for _, f := range s.changes {
		if f.Want > was {
			t.Errorf("%d members were wanted, where %d had sufficed", f.Want, was)
		}
	}
	why := s.w.leader().node.Packed().Result.Why
	if !strings.Contains(why, "however many members there are") {
		t.Errorf("the leader says %q", why)
	}
}

// TestS1_Orch_Ramp lets the load grow from one to six members' worth in two minutes, and
// sink again. The group grows before the backlog is more than ten seconds of arrivals,
// comes back to the least and the spare, and uses little more than it needs.
func TestS1_Orch_Ramp(t *testing.T) {
	const parts, capacity = 60, 100.0
	s := newSized(t, parts, 1, "scale=1..8", "interval=5s", "down-after=5s", "up-after=2s", "cool-down=5s")
	backlog, arrived, worst, used, needed := map[string]float64{}, 0.0, 0.0, 0.0, 0.0
	each := func(rate float64) {
		for i := range parts {
			s.w.setLoad(partName(i), rate/parts)
		}
		arrived = rate
		loads := map[string]float64{}
		for i, owner := range s.OwnerNames() {
			backlog[partName(i)] += rate / parts
			loads[owner]++
		}
		for i, owner := range s.OwnerNames() {
			if owner != "" {
				backlog[partName(i)] = max(0, backlog[partName(i)]-capacity/loads[owner])
			}
		}
		sum := 0.0
		for _, b := range backlog {
			sum += b
		}
		worst = max(worst, sum/max(arrived, 1))
		used += float64(len(s.live()))
		needed += float64(int((rate+79)/80)) + 1
	}
	at := func(rate float64) func() { return func() { each(rate) } }
	s.pass(2*time.Minute, at(80))
	used, needed, worst = 0, 0, 0
	second := 0
	s.pass(2*time.Minute, func() { second++; each(80 + 400*float64(second)/120) })
	most := len(s.live())
	s.pass(2*time.Minute, func() { second--; each(80 + 400*float64(second)/120) })
	s.pass(time.Minute, at(40))
	t.Logf("worst backlog %.1f s of arrivals; %.0f member seconds for %.0f: %.2f; at most %d members, %d at the end", worst, used, needed, used/needed, most, len(s.live()))
	if worst > 10 {
		t.Errorf("the backlog was %.1f s of arrivals", worst)
	}
	if used > 1.25*needed {
		t.Errorf("%.0f member seconds were used, and %.0f needed", used, needed)
	}
	if most < 6 || len(s.live()) != 2 {
		t.Errorf("there were %d members at the top and %d at the end", most, len(s.live()))
	}
}

// TestOneVictim kills the leader at every phase of a shrinking. The platform starts another
// process for it. One member is removed, not two.
func TestOneVictim(t *testing.T) {
	trials := 0
	for wait := time.Duration(0); wait < 3*time.Second; wait += 30 * time.Millisecond {
		s := newSized(t, 12, 3, "scale=1..4", "spare=0", "interval=3s", "down-after=5s")
		s.do(t, "load", "all", "15")
		s.pass(40*time.Second, nil)
		if len(s.live()) != 3 || len(s.removed) > 0 {
			t.Fatalf("%d members, %v removed", len(s.live()), s.removed)
		}
		s.changes = nil
		s.do(t, "load", "all", "11") // what two members take
		for range 60 {
			if len(s.changes) > 0 {
				break
			}
			s.pass(time.Second, nil)
		}
		if len(s.changes) != 1 {
			t.Fatalf("it should shrink once, not %v", s.changes)
		}
		s.Advance(wait)
		l := s.w.leader()
		if l == nil {
			t.Fatal("nobody leads")
		}
		trials++
		s.Kill(l.name)
		s.start()
		s.pass(3*time.Minute, nil)
		if n := len(s.live()); n != 2 || len(s.removed) != 1 {
			t.Errorf("leader killed after %v: %d members, %v removed", wait, n, s.removed)
		}
	}
	if trials != 100 {
		t.Errorf("%d trials", trials)
	}
}

// Nobody is given anything that is to go, and nobody is chosen that an operator wants.
func TestOrdersWinOverSizes(t *testing.T) {
	s := newSized(t, 12, 3, "scale=1..4", "spare=0", "interval=3s", "down-after=5s")
	s.do(t, "load", "all", "15")
	s.do(t, "order", "pin", "q0", "c3")
	s.pass(30*time.Second, nil)
	s.do(t, "order", "freeze")
	s.do(t, "load", "all", "2")
	s.pass(time.Minute, nil)
	if len(s.removed) > 0 {
		t.Errorf("under a freeze %v were removed", s.removed)
	}
	s.do(t, "order", "thaw")
	s.pass(2*time.Minute, nil)
	if len(s.live()) != 1 || s.live()[0].name != "c3" {
		var names []string
		for _, h := range s.live() {
			names = append(names, h.name)
		}
		t.Errorf("c3 has a pin, and %v live", names)
	}
}

// The platform decides who goes: those are emptied, whatever they cost.
func TestThePlatformDecidesWhoGoes(t *testing.T) {
	s := newSized(t, 12, 4, "scale=1..4", "spare=0", "step=1", "interval=3s", "down-after=5s")
	s.w.opt.Tune = func(_ int, c *core.Config) {
		c.Scaling.Before = func(a, b *record.Member) bool { return a.Name > b.Name }
	}
	for _, h := range s.w.hosts {
		if h.up {
			s.w.opt.Tune(0, &h.cfg)
		}
	}
	s.do(t, "load", "all", "20")
	s.pass(40*time.Second, nil)
	s.do(t, "load", "all", "2")
	s.pass(2*time.Minute, nil)
	if !slices.Equal(s.removed, []string{"c4", "c3", "c2"}) {
		t.Errorf("removed are %v", s.removed)
	}
}

// A paused partition remembers its home. That keeps nobody from going.
func TestAPausedPartitionKeepsNobody(t *testing.T) {
	s := newSized(t, 12, 3, "scale=1..4", "spare=0", "interval=3s", "down-after=5s")
	s.do(t, "load", "all", "15")
	s.pass(30*time.Second, nil)
	for i := range 12 {
		if i%4 == 0 {
			s.do(t, "order", "pause", partName(i))
		}
	}
	s.do(t, "load", "all", "2")
	s.pass(2*time.Minute, nil)
	if len(s.live()) != 1 {
		t.Errorf("%d members are left, %v removed", len(s.live()), s.removed)
	}
}

// More members than there may be go, also if the load does not fit on fewer.
func TestTheMostCounts(t *testing.T) {
	s := newSized(t, 12, 4, "scale=1..2", "spare=0", "interval=3s", "down-after=5s")
	s.do(t, "load", "all", "25")
	s.pass(2*time.Minute, nil)
	if len(s.live()) != 2 {
		t.Errorf("%d members are left, and there may be 2", len(s.live()))
	}
}
