package bench

import "slices"

// A Goal is what is asked of pack's default price beside one of the papers'
// algorithms: at every delta no more than a share of its members, less than a share
// of its E[R], and fewer moves.
type Goal struct {
	Against string
	Members float64
	ER      float64
}

// Goals are those for a load of this size. Pack is to beat MWF, the papers' choice
// for few moves, in both figures at any size. MBF, their choice for few members, is
// to be beaten at the papers' own size; at larger sizes the limits of the search cost
// members, and docs/packing.md says how many.
func Goals(load string, partitions int) []Goal {
	goals := []Goal{{Against: "MWF", Members: 1, ER: 1}}
	if load == "walk" && partitions == 200 {
		goals = append(goals, Goal{Against: "MBF", Members: 1.01, ER: 0.7})
	}
	return goals
}

// A Verdict is what pack came to at one price beside a goal: the largest shares of
// the other's figures, over all deltas.
type Verdict struct {
	Goal
	Price                    float64
	OfMembers, OfER, OfMoves Share
	Kept                     bool
}

// A Share is one figure as a share of another, and the delta that both are of.
type Share struct {
	Of    float64
	Delta int
}

func (s *Share) raise(now, other float64, delta int) {
	if of := now / other; of > s.Of {
		*s = Share{of, delta}
	}
}

// Judge sets every price beside every goal that rows have figures for. Where the
// other moves nothing there is nothing to beat.
func Judge(rows []Row) (verdicts []Verdict) {
	for _, r := range rows {
		if r.Price == 0 {
			continue
		}
		for _, g := range Goals(r.Load, r.Partitions) {
			o := slices.IndexFunc(rows, func(o Row) bool { return o.Algorithm == g.Against && o.Delta == r.Delta })
			if o < 0 || rows[o].ER == 0 {
				continue
			}
			i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Goal == g && v.Price == r.Price })
			if i < 0 {
				i = len(verdicts)
				verdicts = append(verdicts, Verdict{Goal: g, Price: r.Price})
			}
			v := &verdicts[i]
			v.OfMembers.raise(r.Members, rows[o].Members, r.Delta)
			v.OfER.raise(r.ER, rows[o].ER, r.Delta)
			v.OfMoves.raise(r.Moves, rows[o].Moves, r.Delta)
			v.Kept = v.OfMembers.Of <= g.Members && v.OfER.Of < g.ER && v.OfMoves.Of < 1
		}
	}
	return verdicts
}
