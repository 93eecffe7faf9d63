package bench

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/plan"
)

// A Replay lets strategies place the partitions of a trace, step by step.
//
// Pack and the papers' algorithms take as many members as they need. Spread and
// range know nothing of speed: they have a fleet that never changes, of Fleet
// members, or, if that is 0, the smallest one that is never overloaded: with one
// fewer, in some step some member would be given more than the limit. (Only a
// partition faster than the limit, which no fleet of any size could help, does
// not count against it.)
type Replay struct {
	Open     func() (*Trace, error) // from its beginning, each time
	Capacity float64
	Trigger  float64 // what a member may have before it counts as overloaded; 0 is Capacity
	Price    float64
	Fleet    int
	Progress func(pass, step int) // called after each step
}

// An Outcome is what one strategy came to.
type Outcome struct {
	Strategy        string  `json:"strategy"`
	Steps           int     `json:"steps"`
	MembersMean     float64 `json:"members_mean"`
	MembersMax      int     `json:"members_max"`
	ER              float64 `json:"er"` // per step, the first left out, which can move nothing
	MovesMean       float64 `json:"moves_mean"`
	OverloadSteps   int     `json:"overload_steps"`
	InfeasibleSteps int     `json:"infeasible_steps"`
	Partitions      int     `json:"partitions"` // most that there were
	History         History `json:"-"`          // members, step by step
}

// Strategies are what can be replayed.
func Strategies() []string {
	names := []string{"pack", "spread", "range"}
	for _, a := range Paper {
		names = append(names, a.Name)
	}
	return names
}

// NeedsFleet says whether a strategy has a fleet that does not follow the load.
func NeedsFleet(strategy string) bool { return strategy == "spread" || strategy == "range" }

func (r *Replay) limit() float64 { return max(r.Capacity, r.Trigger) }

// Run replays the trace once for all strategies that follow the load, and a few
// times more if fleets have to be found. Outcomes come in the order asked for.
// Bound is the fewest members that any placement could have had.
func (r *Replay) Run(ctx context.Context, strategies []string) (out []Outcome, bound History, err error) {
	var players []*player
	for _, name := range strategies {
		switch {
		case !NeedsFleet(name):
			players = append(players, &player{Outcome: Outcome{Strategy: name}, place: r.follow(name)})
		case r.Fleet > 0:
			players = append(players, fixed(name, r.Fleet))
		}
	}
	pass := 1
	partitions, err := r.play(ctx, pass, players, &bound)
	if err != nil {
		return nil, bound, err
	}
	for _, name := range strategies {
		if i := slices.IndexFunc(players, func(p *player) bool { return p.Strategy == name }); i >= 0 {
			out = append(out, players[i].Outcome)
			continue
		}
		o, err := r.smallest(ctx, name, partitions, &pass)
		if err != nil {
			return nil, bound, err
		}
		out = append(out, o)
	}
	return out, bound, nil
}

// follow is a strategy that takes as many members as it needs.
func (r *Replay) follow(name string) Place {
	if i := slices.IndexFunc(Paper, func(a Algorithm) bool { return a.Name == name }); i >= 0 {
		return Paper[i].New(r.Capacity, rand.New(rand.NewPCG(1, uint64(i))))
	}
	var p Packer
	how := pack.Options{Capacity: r.Capacity, Price: r.Price, Trigger: r.limit() / r.Capacity}
	return func(speeds []float64, owners, dst []int32) { p.Place(how, speeds, owners, dst) }
}

// smallest finds the smallest fleet that is never overloaded. Each pass over the
// trace tries several.
func (r *Replay) smallest(ctx context.Context, name string, partitions int, pass *int) (Outcome, error) {
	const tries = 16
	no, yes := 0, partitions+1 // as many members as partitions are enough; that is tried too
	var best Outcome
	for yes-no > 1 {
		var players []*player
		for i := 1; i <= tries; i++ {
			if n := no + (yes-no)*i/(tries+1); n > no && (len(players) == 0 || n > players[len(players)-1].members) {
				players = append(players, fixed(name, n))
			}
		}
		if len(players) == 0 || yes == partitions+1 && players[len(players)-1].members < partitions {
			players = append(players, fixed(name, yes-1))
		}
		*pass++
		if _, err := r.play(ctx, *pass, players, nil); err != nil {
			return best, err
		}
		for _, p := range players {
			if p.crowded == 0 {
				best, yes = p.Outcome, p.members
				break
			}
			no = p.members
		}
	}
	return best, nil
}

// play replays the trace once and returns how many partitions there were.
func (r *Replay) play(ctx context.Context, pass int, players []*player, bound *History) (int, error) {
	t, err := r.Open()
	if err != nil {
		return 0, err
	}
	var g Gauge
	partitions := 0
	for step := 1; ; step++ {
		speeds, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		partitions = len(speeds)
		infeasible := slices.Max(speeds) > r.Capacity
		for _, p := range players {
			p.step(r, speeds, infeasible)
		}
		if bound != nil {
			bound.Add(float64(g.L2(speeds, r.limit())))
		}
		if r.Progress != nil {
			r.Progress(pass, step)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	for _, p := range players {
		p.finish(partitions)
	}
	return partitions, nil
}

// player is one strategy at work on a trace.
type player struct {
	Outcome
	place         Place
	owners, after []int32
	members       int // of a fleet; 0 if it follows the load
	crowded       int // steps with a member overloaded by several partitions
	gauge         Gauge
}

// fixed is spread or range with a fleet that does not follow the load.
func fixed(name string, members int) *player {
	p := &player{Outcome: Outcome{Strategy: name}, members: members}
	var planner plan.Planner
	fleet := make([]plan.Member, members)
	var parts []plan.Partition
	do := planner.Spread
	if name == "range" {
		do = planner.Range
	}
	p.place = func(speeds []float64, owners, dst []int32) {
		if len(parts) == len(speeds) { // nothing has changed that it would know of
			copy(dst, owners)
			return
		}
		parts = parts[:0]
		for i := range speeds {
			parts = append(parts, plan.Partition{Owner: owners[i], Pin: plan.None})
		}
		do(fleet, parts, dst)
	}
	return p
}

func (p *player) step(r *Replay, speeds []float64, infeasible bool) {
	for len(p.owners) < len(speeds) {
		p.owners = append(p.owners, plan.None)
		p.after = append(p.after, plan.None)
	}
	p.place(speeds, p.owners, p.after)
	s := p.gauge.Measure(speeds, p.owners, p.after, r.Capacity, r.limit())
	p.owners, p.after = p.after, p.owners
	if p.members > 0 {
		s.Members = p.members // an idle one is there all the same
	}
	p.Steps++
	p.MembersMean += float64(s.Members)
	p.MembersMax = max(p.MembersMax, s.Members)
	p.ER += s.R
	p.MovesMean += float64(s.Moves)
	if s.Over > 0 {
		p.OverloadSteps++
	}
	if s.Crowded > 0 {
		p.crowded++
	}
	if infeasible {
		p.InfeasibleSteps++
	}
	p.History.Add(float64(s.Members))
}

// finish turns sums into means.
func (p *player) finish(partitions int) {
	p.Partitions = partitions
	p.MembersMean /= float64(p.Steps)
	p.ER /= float64(max(1, p.Steps-1))
	p.MovesMean /= float64(max(1, p.Steps-1))
}

// A History is what a figure was over time, in a few hundred means, however many
// steps there are.
type History struct {
	Means []float64
	Per   int // steps for each of them
	sum   float64
	n     int
}

const historyMost = 512

// Add notes the figure of one more step.
func (h *History) Add(v float64) {
	h.Per = max(1, h.Per)
	h.sum += v
	h.n++
	if h.n < h.Per {
		return
	}
	h.Means = append(h.Means, h.sum/float64(h.n))
	h.sum, h.n = 0, 0
	if len(h.Means) == historyMost {
		for i := range historyMost / 2 {
			h.Means[i] = (h.Means[2*i] + h.Means[2*i+1]) / 2
		}
		h.Means = h.Means[:historyMost/2]
		h.Per *= 2
	}
}
