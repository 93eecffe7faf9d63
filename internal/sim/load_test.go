package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/scenario"
)

// loaded is a stage of members that pack by load, with what becomes of it.
type loaded struct {
	*Stage
	moved int // partitions moved for the sake of load
	looks int // how often a leader looked and moved nothing
}

func newLoaded(t *testing.T, parts, members int, settings ...string) *loaded {
	t.Helper()
	l := &loaded{Stage: NewStage(Options{Partitions: parts})}
	l.w.hear = func(seenLine) {}
	l.w.acts = func(a *core.Action) {
		switch {
		case a.Do != core.DoNote:
		case a.Note == core.NotePlan && a.Why&(core.WhyLoad|core.WhyInterval) != 0:
			l.moved += a.Moved
		case a.Note == core.NoteKept:
			l.looks++
		}
	}
	l.do(t, "group", append([]string{fmt.Sprintf("partitions=%d", parts), "strategy=pack", "capacity=100"}, settings...)...)
	for i := range members {
		l.Join(memberName(i))
	}
	return l
}

func (l *loaded) do(t *testing.T, verb string, args ...string) {
	t.Helper()
	if err := l.Do(scenario.Command{Verb: verb, Args: args}); err != nil {
		t.Fatal(err)
	}
	if l.w.bad != nil {
		t.Fatal(l.w.bad)
	}
}

// An hour of steady load with 10 % noise moves nothing once the first plan by load is made.
func TestNoiseMovesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 17))
	l := newLoaded(t, 40, 8)
	base := make([]float64, 40)
	for i := range base {
		base[i] = 2 + 18*r.Float64()
	}
	noise := func() {
		for i, v := range base {
			l.w.setLoad(partName(i), v*(0.9+0.2*r.Float64()))
		}
	}
	noise()
	l.Advance(90 * time.Second)
	if l.moved == 0 {
		t.Fatal("the first measurements moved nothing: the test shows nothing")
	}
	l.moved, l.looks = 0, 0
	for range 3600 {
		noise()
		l.Advance(time.Second)
		if l.w.bad != nil {
			t.Fatal(l.w.bad)
		}
	}
	if l.moved != 0 {
		t.Errorf("%d moves in an hour of noise", l.moved)
	}
	if l.looks < 3600/30-2 {
		t.Errorf("the plan was looked at %d times in an hour, want every 30 s", l.looks)
	}
}

// A member dies, and its record with it; loads are known to the end. The next leader packs
// as the last one did: nothing but what the dead one had moves, also when it has measured.
func TestANewLeaderGoesOn(t *testing.T) {
	l := newLoaded(t, 12, 4)
	for i := range 12 {
		l.w.setLoad(partName(i), 15)
	}
	l.Advance(2 * time.Minute)
	before := owners(l.w.store.plan.Plan)
	leader := l.w.leader()
	l.moved = 0
	l.Kill(leader.name)
	l.Advance(2 * time.Minute)
	after := owners(l.w.store.plan.Plan)
	for id, who := range before {
		if who != leader.cfg.Session && after[id] != who {
			t.Errorf("partition %d moved from %s to %s", id, l.w.nameOf(who), l.w.nameOf(after[id]))
		}
	}
}

func owners(p *record.Plan) (out []record.Session) {
	for i := range p.Rows {
		out = append(out, p.Rows[i].Owner)
	}
	return out
}
