package bench

import (
	"slices"
	"testing"

	"github.com/rota-dev/rota/internal/pack"
)

// The default price itself is ahead of the papers: on their walk at every delta, at
// ten times their size, and on the day load it needs no more members than MWF and
// moves less, and at their own size it is a match for MBF in members with less than
// 0.7 of its E[R]. Plans do not depend on the machine, so these short runs always
// come to the same figures. They are long enough for the walk to forget its first
// plan, which moves more than the later ones; rota bench plan has the long runs.
func TestS1_Pack_DefaultPriceIsAheadOfThePaper(t *testing.T) {
	type run struct {
		load                     string
		partitions, steps, seeds int
		deltas                   []int
	}
	runs := []run{
		{"walk", 200, 150, 2, []int{5, 10, 15, 20, 25}},
		{"walk", 2000, 100, 1, []int{25}},
		{"day", 1000, 250, 1, []int{5}},
	}
	if raceEnabled {
		runs = []run{{"walk", 200, 60, 1, []int{5, 25}}} // the detector makes it thirty times slower, and nothing here is shared
	}
	for _, run := range runs {
		load, _ := FindLoad(run.load)
		e := &Experiment{Load: load, Partitions: run.partitions, Capacity: 100, Steps: run.steps, Deltas: run.deltas, Seed: 2001, Seeds: run.seeds}
		goals := Goals(run.load, run.partitions)
		for _, g := range goals {
			e.Algorithms = append(e.Algorithms, paper(g.Against)...)
		}
		e.Algorithms = append(e.Algorithms, Pack(pack.DefaultPrice))
		rows, err := e.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		verdicts := Judge(rows)
		if len(verdicts) != len(goals) {
			t.Errorf("%s, %d partitions: %d verdicts on %d goals", run.load, run.partitions, len(verdicts), len(goals))
		}
		for _, v := range verdicts {
			t.Logf("%s, %d partitions: %+v", run.load, run.partitions, v)
			if !v.Kept {
				t.Errorf("%s, %d partitions: price %g beside %s has shares of its members, E[R] and moves up to %.4f, %.3f and %.3f; asked are at most %g, below %g, below 1:%s",
					run.load, run.partitions, v.Price, v.Against, v.OfMembers.Of, v.OfER.Of, v.OfMoves.Of, v.Members, v.ER, packsAt(rows, v.OfER.Delta))
			}
		}
	}
}

// By hand: the largest shares count, whichever delta they are of, and less is less.
func TestJudgeByHand(t *testing.T) {
	rows := []Row{
		{Algorithm: "MWF", Delta: 5, Members: 100, ER: 10, Moves: 50, Load: "walk", Partitions: 300},
		{Algorithm: "MWF", Delta: 25, Members: 100, ER: 20, Moves: 80, Load: "walk", Partitions: 300},
		{Algorithm: "pack 1", Price: 1, Delta: 5, Members: 100, ER: 9, Moves: 10, Load: "walk", Partitions: 300},
		{Algorithm: "pack 1", Price: 1, Delta: 25, Members: 90, ER: 12, Moves: 40, Load: "walk", Partitions: 300},
		{Algorithm: "pack 3", Price: 3, Delta: 5, Members: 90, ER: 10, Moves: 10, Load: "walk", Partitions: 300},
		{Algorithm: "pack 4", Price: 4, Delta: 0, Members: 90, ER: 0, Load: "walk", Partitions: 300},
	}
	beside := Goal{Against: "MWF", Members: 1, ER: 1}
	want := []Verdict{
		{beside, 1, Share{1, 5}, Share{0.9, 5}, Share{0.5, 25}, true},
		{beside, 3, Share{0.9, 5}, Share{1, 5}, Share{0.2, 5}, false},
	}
	if got := Judge(rows); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Goals("walk", 200); len(got) != 2 || got[1] != (Goal{"MBF", 1.01, 0.7}) || got[0] != beside {
		t.Errorf("at the papers' size %+v is asked", got)
	}
}

func paper(names ...string) (some []Algorithm) {
	for _, a := range Paper {
		if slices.Contains(names, a.Name) {
			some = append(some, a)
		}
	}
	return some
}
