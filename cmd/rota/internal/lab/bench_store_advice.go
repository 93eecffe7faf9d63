package lab

import (
	"fmt"
	"slices"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/core"
)

// timings are how long the calls of one kind took, in milliseconds.
type timings struct {
	Calls  int     `json:"calls"`
	Failed int     `json:"failed"` // of them; their times count
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	Worst  float64 `json:"worst_ms"`
}

// sumUp makes timings of the calls of all connections.
func sumUp(calls []time.Duration, failed int) timings {
	if len(calls) == 0 {
		return timings{Failed: failed}
	}
	slices.Sort(calls)
	at := func(part float64) float64 { return ms(calls[int(part*float64(len(calls)-1))]) }
	return timings{Calls: len(calls), Failed: failed, P50: at(0.5), P99: at(0.99), Worst: at(1)}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (t timings) failures() string {
	if t.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %d failed", t.Failed)
}

// advice is the lease and the heartbeat for a store, in seconds.
type advice struct {
	Lease     float64  `json:"lease_s"`
	Heartbeat float64  `json:"heartbeat_s"`
	Shortest  float64  `json:"shortest_lease_s"` // that the figures allow, without a failover
	Why       []string `json:"why"`
}

// The factors of the advice: rota bench store --help explains them.
const (
	timesWorst = 3   // a call is given up after so many times the longest one,
	timesP99   = 10  // and so many times the 99th percentile of single ones
	load       = 0.5 // of what the store can write at most
	partOfL    = 0.4 // of the lease is the heartbeat, as in the defaults
)

// leases are the ones that are recommended.
var leases = []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute}

// advise finds the lease for the figures of a store.
func advise(r *storeReport) advice {
	calls := max(timesWorst*max(r.CAS.Worst, r.Heartbeats.Worst), timesP99*r.CAS.P99)
	least := max(leaseOfCalls(inSeconds(calls/1000)), leaseOfLoad(r.Members, r.PerSecond), 500*time.Millisecond)
	const grain = 100 * time.Millisecond
	least = (least + grain - 1) / grain * grain
	lease := leases[len(leases)-1]
	if i := slices.IndexFunc(leases, func(l time.Duration) bool { return l >= least }); i >= 0 {
		lease = leases[i]
	}
	a := advice{Lease: lease.Seconds(), Heartbeat: heartbeatOf(lease).Seconds(), Shortest: least.Seconds()}
	a.Why = a.reasons(r, lease, least)
	return a
}

func heartbeatOf(lease time.Duration) time.Duration { return time.Duration(partOfL * float64(lease)) }

func callTime(lease time.Duration) time.Duration {
	return core.MakeTiming(lease, heartbeatOf(lease)).CallTime()
}

// leaseOfCalls is the lease under which a call may take so long.
func leaseOfCalls(call time.Duration) time.Duration {
	const unit = time.Minute // CallTime is a part of the lease, whatever the lease
	return time.Duration(float64(call) * float64(unit) / float64(callTime(unit)))
}

// leaseOfLoad is the lease under which the heartbeats of all members are no more than
// that part of what the store can write.
func leaseOfLoad(members int, perSecond float64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	return inSeconds(float64(members) / (load * perSecond) / partOfL)
}

func (a *advice) reasons(r *storeReport, lease, least time.Duration) []string {
	worst := max(r.CAS.Worst, r.Heartbeats.Worst)
	out := []string{
		fmt.Sprintf("a heartbeat is given up after %v then: %s the longest call that was seen (%s), %s the p99 of single calls (%s)",
			callTime(lease), ratio(ms(callTime(lease)), worst), inMS(worst), ratio(ms(callTime(lease)), r.CAS.P99), inMS(r.CAS.P99)),
		fmt.Sprintf("%.3g heartbeats a second come from %s then; the store wrote %s",
			float64(r.Members)/a.Heartbeat, cli.Count(r.Members, "member"), cli.Grouped(r.PerSecond)),
	}
	if least > lease {
		return append(out, fmt.Sprintf("these figures want a lease of %v, so this store is too slow or too busy: members will pause now and then", least))
	}
	if least < leases[0] {
		out = append(out, fmt.Sprintf("the figures would allow a lease of %v; a failover of the servers takes longer than that on most stores, and is not measured here", least))
	}
	return out
}

// ratio says how many times one figure is another.
func ratio(a, b float64) string {
	if a > 1000*b {
		return "more than 1,000 times"
	}
	return fmt.Sprintf("%.3g times", a/b)
}
