package sim

import (
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/record"
)

// thousand is a group at rest: 1000 members, 10 000 partitions.
func thousand(b *testing.B, settings ...string) *Stage {
	s := NewStage(Options{Partitions: 10_000})
	s.w.hear = nil
	if err := s.group(append([]string{"partitions=10000"}, settings...)); err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		s.w.setLoad(partName(i), float64(1+i%16)) // 8.5 on average: 85 for each member
	}
	for i := range 1000 {
		s.Join(memberName(i))
	}
	s.Advance(2 * time.Minute)
	if v := s.w.atRest(); v != nil || s.w.bad != nil {
		b.Fatal(v, s.w.bad)
	}
	return s
}

// BenchmarkLeaderOfAThousand measures steps of the leader of the largest group that we
// promise: without loads, with loads and without a plan, and with a plan for the sake of
// load. A bare plan of the same group is beside them.
func BenchmarkLeaderOfAThousand(b *testing.B) {
	spread := thousand(b)
	packed := thousand(b, "strategy=pack", "capacity=110")
	asked := false
	packed.w.acts = func(a *core.Action) { asked = asked || a.Do == core.DoMeasure }
	for !asked {
		packed.Advance(100 * time.Microsecond) // to the instant at which its leader waits for loads
	}
	hot := packed.w.weigh(packed.w.leader())
	hot.Loads = append([]core.Load(nil), hot.Loads...)
	for i := range 100 {
		hot.Loads[i*97].Speed += 30_000 // overloads their members
	}
	same := packed.w.weigh(packed.w.leader())
	step := func(s *Stage, ev core.Event) func(*testing.B) {
		return func(b *testing.B) {
			leader, plans := s.w.leader(), 0
			at := leader.local(s.w.now)
			for b.Loop() {
				b.StopTimer()
				n := leader.node.Clone()
				b.StartTimer()
				for _, a := range n.Step(at, ev) {
					if a.Do == core.DoNote && a.Note == core.NotePlan {
						plans++
						b.ReportMetric(float64(a.Moved), "moved")
					}
					if a.Plan != nil {
						b.StopTimer()
						bytes, err := record.Encode(a.Plan)
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(float64(len(bytes))/1000, "KB")
						b.StartTimer()
					}
				}
			}
			b.ReportMetric(float64(plans)/float64(b.N), "plans")
		}
	}
	gap := core.Event{Kind: core.Gap} // makes the leader pass over everything
	b.Run("without loads", step(spread, gap))
	b.Run("with loads", step(packed, gap))
	b.Run("measured", step(packed, same))
	b.Run("overloaded", step(packed, hot))
	b.Run("bare pack", func(b *testing.B) {
		p := packed.w.store.plan.Plan
		members := make([]plan.Member, len(p.Members))
		parts := make([]plan.Partition, len(p.Rows))
		how := pack.Options{Capacity: 88_000, Trigger: 90. / 80, CatchUp: 300}
		for i := range p.Rows {
			parts[i] = plan.Partition{Owner: plan.None, Pin: plan.None}
			for j, s := range p.Members {
				if s == p.Rows[i].Owner {
					parts[i].Owner = int32(j)
				}
			}
			how.Loads = append(how.Loads, pack.Load{Speed: float64(hot.Loads[i].Speed)})
		}
		for b.Loop() {
			pack.Pack(members, parts, how, nil) // without memory of the last one, as the leader above
		}
	})
}
