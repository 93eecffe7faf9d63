package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// Options say what a world is like.
type Options struct {
	Members    int
	Partitions int
	Only       []Fault // faults to draw from; none means all
	Config     core.Config
	Latency    int64                          // in calm weather
	Tune       func(host int, c *core.Config) // a member's own settings

	noise      noise
	faults     []fault
	kinds      []Fault // that this schedule draws from
	horizon    int64
	joinSpread int64
	listing    []record.Partition

	noEffects bool

	rejoin       bool // a process whose session was ended begins another
	failures     int  // a source that fails so often in a row is given up
	abortReturns bool // Config.Abort ends the handlers whose time is over, and returns
	funcs        bool // the source is a function per partition, which may act at any time
}

func (o *Options) allows(f Fault) bool { return len(o.Only) == 0 || slices.Contains(o.Only, f) }

// Stats count over one schedule (Steps, LiveFaults, Plans) and over all (Faults).
type Stats struct {
	Steps      int
	LiveFaults int
	Plans      int
	Faults     [numFaults + 1]int
}

// Marks are situations that a batch should have met, or its silence means
// little.
type Marks struct {
	Lapses         int `json:"lapses"`          // a lease ran out
	LapseInMove    int `json:"lapse_in_move"`   // while a hand-over was under way
	LeaderKilled   int `json:"leader_killed"`   // at rest
	LeaderSettling int `json:"leader_settling"` // the leader died when it had seen something and not planned for it yet
	LeaderWriting  int `json:"leader_writing"`  // or while its plan was on its way
	LeaderInMove   int `json:"leader_in_move"`  // or while partitions were being taken away
	LeaderGranting int `json:"leader_granting"` // or given, and not started yet
	Replanned      int `json:"replanned"`       // a plan came during another's hand-over
	Evicted        int `json:"evicted"`         //
	Declared       int `json:"declared"`        // dead by silence
	Proven         int `json:"proven"`          // dead by proof
	Refused        int `json:"refused"`         // late effects refused by the sink
	UnknownApplied int `json:"unknown_applied"` // a write of unknown outcome had happened
	Gaps           int `json:"gaps"`            // watches broke off
	Twins          int `json:"twins"`           // two processes, one name
	Held           int `json:"held"`            // a plan was made without the second
	Undrained      int `json:"undrained"`       // a drain was taken back while its member lived
	Orphaned       int `json:"orphaned"`        //
	Fenced         int `json:"fenced"`          //
	Left           int `json:"left"`            //
	StoreLost      int `json:"store_lost"`      // sessions that noticed a rollback
	Incarnations   int `json:"incarnations"`    //
	Resumed        int `json:"resumed"`         // a lapsed session came back
	Aborts         int `json:"aborts"`          //
	Collected      int `json:"collected"`       // records deleted
	Returned       int `json:"returned"`        // a name took its own place again
	Holds          int `json:"holds"`           // holds waited out
	Stuck          int `json:"stuck"`           //
	Retried        int `json:"retried"`         // a source that failed was tried again
	Balanced       int `json:"balanced"`        // a plan was made for the sake of load
	WorkedOn       int `json:"worked_on"`       // work went on without a lease
	Sized          int `json:"sized"`           // a leader wanted another number of members
	Removed        int `json:"removed"`         // a Scaler was asked to end a member
}

// add sums up. The fields are all counts, so listing them here is all there is
// to keep in step; a test does.
func (m *Marks) add(o *Marks) {
	for i, f := range m.fields() {
		*f += *o.fields()[i]
	}
}

func (m *Marks) fields() []*int {
	return []*int{
		&m.Lapses, &m.LapseInMove, &m.LeaderKilled, &m.LeaderSettling, &m.LeaderWriting, &m.LeaderInMove,
		&m.LeaderGranting, &m.Replanned, &m.Evicted, &m.Declared, &m.Proven,
		&m.Refused, &m.UnknownApplied, &m.Gaps, &m.Twins, &m.Held, &m.Undrained, &m.Orphaned, &m.Fenced, &m.Left, &m.StoreLost, &m.Incarnations,
		&m.Resumed, &m.Aborts, &m.Collected, &m.Returned, &m.Holds, &m.Stuck, &m.Retried, &m.Balanced, &m.WorkedOn, &m.Sized, &m.Removed,
	}
}

func (m *Marks) end(c core.Cause) {
	switch c {
	case core.ByLeave:
		m.Left++
	case core.ByFence:
		m.Fenced++
	case core.ByOrphan:
		m.Orphaned++
	case core.ByStore:
		m.StoreLost++
	}
}

// mark notes what a fault met.
func (w *World) mark(h *host, f Fault) {
	p := w.store.plan.Plan
	if p == nil || f != Crash && f != CrashLeader && f != CrashTwo || h.node.Session() != p.Leader {
		return
	}
	switch {
	case slices.ContainsFunc(h.calls, func(c call) bool { return c.key.Cell == core.PlanCell && c.verb == core.Put }):
		w.marks.LeaderWriting++
	case revoking(p):
		w.marks.LeaderInMove++
	case len(h.node.Waits()) > 0:
		w.marks.LeaderGranting++
	case w.differs(p):
		w.marks.LeaderSettling++
	default:
		w.marks.LeaderKilled++
	}
}

// differs: others live than the plan names.
func (w *World) differs(p *record.Plan) bool {
	live := 0
	for _, e := range w.store.members {
		if e.Member.State == record.Live {
			live++
			if !slices.Contains(p.Members, e.Session) {
				return true
			}
		}
	}
	return live != len(p.Members)
}

// markHeld notes whether a plan was made without one of two processes of a name.
func (w *World) markHeld(p *record.Plan) {
	for _, e := range w.store.members {
		if e.Member.State != record.Live || slices.Contains(p.Members, e.Session) {
			continue
		}
		for _, o := range w.store.members {
			if o.Member.State == record.Live && o.Member.Name == e.Member.Name && slices.Contains(p.Members, o.Session) {
				w.marks.Held++
				return
			}
		}
	}
}

// Missing lists the situations that were not met, by their names in JSON.
func (m *Marks) Missing() []string {
	var out []string
	t := reflect.TypeFor[Marks]()
	for i, f := range m.fields() {
		if *f == 0 {
			out = append(out, t.Field(i).Tag.Get("json"))
		}
	}
	return out
}

func partName(i int) string   { return "q" + strconv.Itoa(i) }
func memberName(i int) string { return "c" + strconv.Itoa(i+1) }

// New makes a world of the given size. It can play any number of schedules, one
// after the other.
func New(o Options) *World {
	if o.Config.Lease == 0 {
		o.Config.Timing = core.DefaultTiming()
	}
	if o.Config.Packing.Measure == 0 {
		o.Config.Packing = core.DefaultPacking()
	}
	o.failures = max(o.failures, 1)
	w := &World{opt: o, marks: &Marks{}, hash: map[record.Session]int32{}, granted: map[grant]int32{}, begun: map[uint32]uint64{}}
	w.checks.Who = func(n int32) string {
		if n == check.Nobody {
			return "nobody"
		}
		return w.nameOf(w.who[n])
	}
	w.checks.Part = func(n int32) string { return w.names[n] }
	for i := range o.Partitions {
		w.opt.listing = append(w.opt.listing, record.Partition{Name: partName(i)})
	}
	for i := range o.Members + 1 { // the last is for twins
		w.hosts = append(w.hosts, &host{name: memberName(i), index: i})
	}
	return w
}

// Marks returns what has been met so far.
func (w *World) Marks() Marks { return *w.marks }

// Faults returns how often each fault has struck so far.
func (w *World) Faults() map[string]int {
	out := map[string]int{}
	for i := range numFaults {
		if n := w.stats.Faults[i]; n > 0 {
			out[i.String()] = n
		}
	}
	return out
}

func at(t int64) string { return fmt.Sprintf("%8.3fs", time.Duration(t).Seconds()) }
