package failover

import (
	"math"
	"slices"
)

// Events are what is done to a group, in the order of a run.
var Events = []string{"2nd joins", "5 join", "leave", "kill", "leader and follower killed", "leader killed"}

// A Row is what all runs of one event came to. Plans, moved and overlaps are the
// most of any run. Idle times are of partitions that changed hands, each with
// backlog; of a kill they include the lease.
type Row struct {
	Event        string   `json:"event"`
	Runs         int      `json:"runs"`
	Median       float64  `json:"median_s"`
	Best         float64  `json:"best_s"`
	Worst        float64  `json:"worst_s"`
	ExcessMedian *float64 `json:"excess_median_s"`
	ExcessWorst  *float64 `json:"excess_worst_s"`
	Plans        int      `json:"plans"`
	Moved        int      `json:"moved"`
	IdleMedian   float64  `json:"idle_ms_median"`
	IdleP99      float64  `json:"idle_ms_p99"`
	GapBefore    float64  `json:"gap_before_ms_p999"`
	GapDuring    float64  `json:"gap_during_ms_p999"`
	Overlaps     int      `json:"overlaps"`
}

// Rows pools the samples, by event.
func Rows(samples []Sample) (rows []Row) {
	for _, event := range Events {
		var times, excess, idle []float64
		before, during := Gaps{}, Gaps{}
		r := Row{Event: event}
		for _, s := range samples {
			if s.Event != event {
				continue
			}
			r.Runs++
			times, idle = append(times, s.Seconds), append(idle, s.Idle...)
			if s.Floor != 0 {
				excess = append(excess, s.Seconds-s.Floor)
			}
			r.Plans, r.Moved, r.Overlaps = max(r.Plans, s.Plans), max(r.Moved, s.Moved), max(r.Overlaps, s.Overlaps)
			before.Pool(s.Before)
			during.Pool(s.During)
		}
		if r.Runs == 0 {
			continue
		}
		r.Median, r.Best, r.Worst = Quantile(times, 0.5), slices.Min(times), slices.Max(times)
		if excess != nil {
			m, w := Quantile(excess, 0.5), slices.Max(excess)
			r.ExcessMedian, r.ExcessWorst = &m, &w
		}
		r.IdleMedian, r.IdleP99 = Quantile(idle, 0.5), Quantile(idle, 0.99)
		r.GapBefore, r.GapDuring = before.At(0.999), during.At(0.999)
		rows = append(rows, r)
	}
	return rows
}

// Quantile is the value that a part q of all does not exceed; of an even number
// the median is the middle of the two.
func Quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	if n := len(all); q == 0.5 && n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
}

// A Bound is what MISSION.md promises of an event; zero where it promises
// nothing.
type Bound struct {
	Worst, ExcessMedian, ExcessWorst float64 // seconds
	Plans                            int
	IdleMedian                       float64 // milliseconds
	Gap                              float64 // during, as a multiple of before
}

// Bounds by event. A row keeps them if each figure is at most that.
var Bounds = map[string]Bound{
	"2nd joins":                  {Worst: 0.3, Plans: 1, IdleMedian: 20, Gap: 2},
	"5 join":                     {Worst: 0.3, Plans: 1, IdleMedian: 20, Gap: 2},
	"leave":                      {Worst: 0.2, Plans: 1, IdleMedian: 20, Gap: 2},
	"kill":                       {ExcessMedian: 0.1, ExcessWorst: 0.4, Plans: 1, Gap: 2},
	"leader and follower killed": {ExcessMedian: 0.1, ExcessWorst: 0.4, Plans: 1, Gap: 2},
	"leader killed":              {ExcessMedian: 0.1, ExcessWorst: 0.4, Plans: 1, Gap: 2},
}
