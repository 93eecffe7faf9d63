package check

import (
	"slices"
	"testing"

	"github.com/rota-dev/rota/internal/record"
)

var allStories = slices.Concat(i1, i2, i3, i4, i5, i6, i7, l1)

// afterRollback tells a story that begins with a rollback.
func afterRollback(until int64, s story) string {
	return told(func(h *history) {
		h.rollback(until)
		s.tell(h)
	}).verdict()
}

func TestInTheShadowOfARollbackOnlyTheSinkIsSure(t *testing.T) {
	for _, s := range slices.Concat(i1, i3, i4, i5, i6, i7) {
		if got := afterRollback(100, s); got != "" {
			t.Errorf("%s: breaks %s", s.claim, got)
		}
	}
	for _, s := range i2 {
		if got := afterRollback(100, s); got != s.breaks {
			t.Errorf("%s: breaks %q, want %q", s.claim, got, s.breaks)
		}
	}
}

func TestOutOfTheShadowExclusivityIsAskedAgain(t *testing.T) {
	for _, s := range slices.Concat(i1, i2, i6, i7) {
		if got := afterRollback(0, s); got != s.breaks {
			t.Errorf("%s: breaks %q, want %q", s.claim, got, s.breaks)
		}
	}
}

func TestTheLongestShadowCounts(t *testing.T) {
	two := func(h *history, at int64) {
		h.rollback(8)
		h.rollback(5)
		h.at(at)
		h.runs(c1, q0, 1, 20)
		h.lease(c2, 20)
		h.start(c2, q0, 1)
	}
	hear(t, []story{
		{"nothing at its last moment", "", func(h *history) { two(h, 7) }},
		{"all from its end on", "I1", func(h *history) { two(h, 8) }},
	})
}

// Any two stories, one after the other: the second is judged as if there had
// been no first, whatever size the checker was in between.
func TestResetForgets(t *testing.T) {
	roll := []story{{"rollback", "", func(h *history) { h.rollback(100) }}}
	var c Checker
	for _, first := range slices.Concat(allStories, roll) {
		for i, s := range allStories {
			first.tell(begin(&c))
			if i%2 == 0 {
				c.Reset(1, 1)
			}
			h := begin(&c)
			if c.Plans() != 0 {
				t.Fatalf("%d plans after a reset", c.Plans())
			}
			if s.tell(h); h.verdict() != s.breaks {
				t.Fatalf("%q after %q: breaks %q, want %q", s.claim, first.claim, h.verdict(), s.breaks)
			}
		}
	}
}

func TestGrowKeepsWhatIsKnown(t *testing.T) {
	for _, s := range allStories {
		h := &history{c: new(Checker)}
		h.c.Reset(4, 1)
		h.c.Grow(3)
		h.c.Grow(2) // never shrinks
		if s.tell(h); h.verdict() != s.breaks {
			t.Errorf("%s: breaks %q, want %q", s.claim, h.verdict(), s.breaks)
		}
	}
	h := told(func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.accept(c1, q0, 1)
		h.c.Grow(50)
		h.runs(c1, 49, 1, 10)
		h.accept(c2, q0, 1)
	})
	if h.verdict() != "I2" {
		t.Errorf("grown: breaks %q, want I2", h.verdict())
	}
}

func TestGrownPartitionsAreFree(t *testing.T) {
	var c Checker
	h := begin(&c)
	h.runs(c1, q2, 1, 10)
	c.Reset(4, 1)
	c.Grow(3)
	h = &history{c: &c}
	h.lease(c1, 10)
	h.start(c1, q2, 1)
	if h.verdict() != "I4" {
		t.Errorf("breaks %q, want I4", h.verdict())
	}
}

func TestMembersMayComeUpOnTheWay(t *testing.T) {
	for _, s := range allStories {
		h := &history{c: new(Checker)}
		h.c.Reset(0, 3)
		if s.tell(h); h.verdict() != s.breaks {
			t.Errorf("%s: breaks %q, want %q", s.claim, h.verdict(), s.breaks)
		}
	}
	for k := Start; k <= Rollback; k++ {
		var c Checker
		c.Reset(0, 1)
		c.See(Event{Kind: k, Who: 40})
	}
}

func TestTheFirstViolationStays(t *testing.T) {
	h := told(func(h *history) {
		h.accept(c1, q0, 2)
		h.accept(c1, q0, 1)
	})
	first := h.found
	if first == nil {
		t.Fatal("no violation")
	}
	was := *first
	for _, s := range allStories {
		h.now = 0
		s.tell(h)
	}
	for k := Start; k <= Rollback; k++ {
		if got := h.c.See(Event{Kind: k, Who: 40, At: 7}); got != first || *got != was {
			t.Errorf("kind %d: %v, want %v", k, got, was)
		}
	}
	if h.c.Plans() != 0 {
		t.Errorf("%d plans counted after the violation", h.c.Plans())
	}
}

func TestPlansAreCounted(t *testing.T) {
	h := told(func(h *history) {
		h.change()
		h.change()
		h.plan()
		h.plan()
	})
	if h.c.Plans() != 2 {
		t.Errorf("%d plans, want 2", h.c.Plans())
	}
}

func TestARestAskedForTooEarlyDoesNoHarm(t *testing.T) {
	h := told(func(h *history) {
		h.grant(q0, c1, 1)
		h.lease(c1, 10)
	})
	final := Final{0, []int32{c1}, []int32{c1}, []int32{q0}}
	if h.c.Settled(final) == nil {
		t.Error("at rest before the start")
	}
	h.start(c1, q0, 1)
	if h.found != nil {
		t.Error(h.found)
	}
	if v := h.c.Settled(final); v != nil {
		t.Error(v)
	}
}

func TestAViolationSaysWhoAndWhat(t *testing.T) {
	tests := []struct {
		want string
		tell func(h *history)
	}{
		{"I1: member 0 and member 1 both run partition 2 with a valid lease", func(h *history) {
			h.runs(c1, q2, 1, 10)
			h.lease(c2, 10)
			h.start(c2, q2, 1)
		}},
		{"I1: member 3 begins an effect on partition 2@0.1 after the end of its lease", func(h *history) {
			h.act(c4, q2, 1)
		}},
		{"I2: the sink accepted partition 1@0.1 of member 0 after @0.2 of member 3", func(h *history) {
			h.accept(c4, q1, 2)
			h.accept(c1, q1, 1)
		}},
		{"I2: the sink accepted partition 1@0.2 from member 3 and from member 0", func(h *history) {
			h.accept(c4, q1, 2)
			h.accept(c1, q1, 2)
		}},
		{"I3: partition 1 is granted as @6.9 after @7.2", func(h *history) {
			h.grant(q1, c1, record.MakeToken(7, 2))
			h.free(q1, record.MakeToken(7, 2))
			h.grant(q1, c2, record.MakeToken(6, 9))
		}},
		{"I4: member 2 starts partition 1@0.5, which is free", func(h *history) {
			h.lease(c3, 10)
			h.start(c3, q1, 5)
		}},
		{"I4: member 2 starts partition 1@0.5, which the plan gives to member 3 as @0.6", func(h *history) {
			h.grant(q1, c4, 6)
			h.lease(c3, 10)
			h.start(c3, q1, 5)
		}},
		{"I4: partition 1 is free while member 2 runs it with a valid lease", func(h *history) {
			h.runs(c3, q1, 1, 10)
			h.free(q1, 1)
		}},
		{"I4: partition 1 is granted while member 2 runs it with a valid lease", func(h *history) {
			h.runs(c3, q1, 1, 10)
			h.grant(q1, c4, 2)
		}},
		{"I5: plan number 2, and only 1 reasons for one", func(h *history) {
			h.change()
			h.plan()
			h.plan()
		}},
		{"I6: partition 1 is granted eagerly while member 2 still runs partition 0", func(h *history) {
			h.runs(c3, q0, 1, 10)
			h.grantEagerly(q1, c4, 1)
		}},
		{"I7: member 2 starts partition 1@0.5 twice for one grant", func(h *history) {
			h.runs(c3, q1, 5, 10)
			h.start(c3, q1, 5)
		}},
		{"L1: member 3 lives and is not in the plan", func(h *history) {
			h.rest([]int32{c4}, nil, nil)
		}},
		{"L1: the plan names member 2, which does not live", func(h *history) {
			h.rest([]int32{c4}, []int32{c4, c3}, nil)
		}},
		{"L1: partition 1 has no owner", func(h *history) {
			h.rest([]int32{c4}, []int32{c4}, []int32{q1})
		}},
		{"L1: partition 1 is owned by member 3, which does not run it", func(h *history) {
			h.grant(q1, c4, 1)
			h.rest([]int32{c4}, []int32{c4}, []int32{q1})
		}},
	}
	for _, test := range tests {
		if h := told(test.tell); h.found == nil || h.found.Error() != test.want {
			t.Errorf("%v, want %s", h.found, test.want)
		}
	}
}
