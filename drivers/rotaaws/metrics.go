package rotaaws

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/rota-dev/rota"
)

// counts are what the events of one member said since they were last read.
type counts struct {
	mu      sync.Mutex
	session string // the newest of the member
	begun   map[string]time.Time
	tally
}

// A tally is the part of counts that begins anew with every publication.
type tally struct {
	plans, moved, dead, lapses, letters int
	start, stop                         durations
}

// mostBegun limits how many starts and stops are measured at a time.
const mostBegun = 10_000

// add counts an event.
func (c *counts) add(e rota.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Session != "" && e.Session != c.session {
		c.session, c.begun = e.Session, map[string]time.Time{} // nothing of the old one goes on
	}
	switch e.Kind {
	case rota.EventPlan:
		c.plans++
		c.moved += e.Moved
	case rota.EventDead:
		c.dead++
	case rota.EventLapsed:
		c.lapses++
	case rota.EventDeadLetter:
		c.letters++
	case rota.EventGrant, rota.EventStop:
		if len(c.begun) < mostBegun {
			c.begun[string(e.Kind)+e.Partition] = e.Time
		}
	case rota.EventStart:
		c.end(&c.start, rota.EventGrant, e)
	case rota.EventStopped:
		delete(c.begun, string(rota.EventGrant)+e.Partition) // it never started
		c.end(&c.stop, rota.EventStop, e)
	}
}

// end measures what has begun with an event of another kind.
func (c *counts) end(d *durations, kind rota.EventKind, e rota.Event) {
	key := string(kind) + e.Partition
	if since, ok := c.begun[key]; ok {
		d.add(e.Time.Sub(since))
		delete(c.begun, key)
	}
}

// read returns what was counted, and begins anew.
func (c *counts) read() (session string, t tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	session, t, c.tally = c.session, c.tally, tally{}
	return session, t
}

// durations are many durations in four numbers, in milliseconds.
type durations struct{ n, sum, low, high float64 }

func (d *durations) add(t time.Duration) {
	ms := float64(t) / float64(time.Millisecond)
	if d.n == 0 {
		d.low, d.high = ms, ms
	}
	d.n, d.sum, d.low, d.high = d.n+1, d.sum+ms, min(d.low, ms), max(d.high, ms)
}

// A sheet is the data of one publication. docs/scalers/aws.md lists the metrics.
type sheet struct {
	at   time.Time
	of   []types.Dimension // of the data that are added next
	data []types.MetricDatum
}

// about sets the dimensions, from pairs of a name and a value.
func (s *sheet) about(pairs ...string) {
	s.of = nil
	for i := 0; i < len(pairs); i += 2 {
		s.of = append(s.of, types.Dimension{Name: &pairs[i], Value: aws.String(ascii(pairs[i+1]))})
	}
}

// ascii makes a text one that CloudWatch accepts as the value of a dimension.
func ascii(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if strings.TrimSpace(text) == "" {
		return "?"
	}
	return text[:min(len(text), 1024)]
}

// most is the largest value that CloudWatch accepts.
var most = math.Pow(2, 360)

func (s *sheet) add(name string, unit types.StandardUnit, v float64) {
	if !(math.Abs(v) <= most) { // nor NaN
		return
	}
	s.data = append(s.data, types.MetricDatum{MetricName: &name, Unit: unit, Value: &v, Timestamp: &s.at, Dimensions: s.of})
}

func (s *sheet) count(name string, n int) { s.add(name, types.StandardUnitCount, float64(n)) }

// durations adds what was measured, if anything was.
func (s *sheet) durations(name string, d durations) {
	if d.n == 0 {
		return
	}
	s.data = append(s.data, types.MetricDatum{MetricName: &name, Unit: types.StandardUnitMilliseconds, Timestamp: &s.at, Dimensions: s.of,
		StatisticValues: &types.StatisticSet{SampleCount: &d.n, Sum: &d.sum, Minimum: &d.low, Maximum: &d.high}})
}

// group adds the metrics of a group.
func (s *sheet) group(st *rota.Status) {
	live, unowned := 0, 0
	for i := range st.Members {
		if st.Members[i].State == rota.MemberLive {
			live++
		}
	}
	for i := range st.Partitions {
		p := &st.Partitions[i]
		if p.State == rota.PartitionFree && p.Reason != rota.ReasonPaused && p.Reason != rota.ReasonRemoved {
			unowned++
		}
	}
	s.count("Members", live)
	s.count("Partitions", len(st.Partitions))
	s.count("PartitionsUnowned", unowned)
	s.count("PartitionsWaiting", len(st.Waits))
	switch {
	case st.Size != nil:
		s.count("MembersWanted", st.Size.Wanted)
	case st.Load != nil && st.Load.Known:
		s.count("MembersWanted", st.Load.Wanted)
	}
}

// groupCounts adds what was counted of a group.
func (s *sheet) groupCounts(t *tally) {
	s.count("Plans", t.plans)
	s.count("PartitionsMoved", t.moved)
	s.count("MembersDead", t.dead)
}

// problems adds how many problems a group has, which only Inspect tells.
func (s *sheet) problems(all []rota.Problem) { s.count("Problems", len(all)) }

// load adds what the leader measured of a group.
func (s *sheet) load(l *rota.LoadInfo) {
	unit, rate := types.StandardUnitCount, types.StandardUnitCountSecond
	if l.Unit == rota.Bytes {
		unit, rate = types.StandardUnitBytes, types.StandardUnitBytesSecond
	}
	s.add("Backlog", unit, l.Backlog)
	s.add("ArrivalRate", rate, l.Speed)
}

// member adds the metrics of the member with this session.
func (s *sheet) member(st *rota.Status, session string, t *tally) {
	owned, conditions := 0, 0
	for i := range st.Partitions {
		if st.Partitions[i].Owner == session {
			owned++
		}
	}
	for i := range st.Members {
		if st.Members[i].Session == session {
			conditions = len(st.Members[i].Conditions)
		}
	}
	s.count("PartitionsOwned", owned)
	s.count("Conditions", conditions)
	s.count("Lapses", t.lapses)
	s.count("DeadLetters", t.letters)
	s.durations("StartTime", t.start)
	s.durations("StopTime", t.stop)
}
