package rota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/speed"
)

// scales measure the load of partitions while this member leads. The core asks for one
// measurement at a time; each runs beside the loop.
type scales struct {
	gauge   speed.Gauge
	learner speed.Learner
	reading atomic.Bool // a call of Meter.Read has not returned
	handled map[record.ID]map[record.Session]uint64
}

// meterTime is the timeout of one reading. A Meter that takes longer is not waited for,
// and not called again before it has returned.
const meterTime = 5 * time.Second

// measure answers the core with the load of every partition.
func (s *session) measure() {
	roster := s.node.Roster().Full()
	names := make([]string, roster.Len())
	asked := make([]string, 0, len(names))
	for i := range names {
		e := roster.At(record.ID(i))
		names[i] = e.Name
		if !e.Removed {
			asked = append(asked, e.Name)
		}
	}
	handled := s.scales.collect(s.records(), names)
	live := s.liveMembers()
	s.goDo(func() {
		at := time.Duration(s.m.now())
		ev := core.Event{Kind: core.Measured}
		if s.m.cfg.Packing.Weights != nil {
			ev.Loads = s.m.cfg.Packing.weigh(names)
			s.send(ev)
			return
		}
		s.read(at, asked, handled)
		loads, state := s.scales.gauge.Loads(at, names)
		switch state {
		case speed.NotYet:
			ev.Outcome = core.NotFound
		case speed.Unknown:
			ev.Outcome = core.Unknown
		}
		for _, l := range loads {
			ev.Loads = append(ev.Loads, core.Load(l))
		}
		for i := range live {
			w := &live[i]
			var owns []string
			for _, id := range w.owns {
				if int(id) < len(loads) {
					w.Backlog += loads[id].Backlog
					owns = append(owns, names[id])
				}
			}
			w.Size = s.scales.gauge.Size(owns)
			if c := s.scales.learner.See(at, &w.Member); c > 0 {
				ev.Capacities = append(ev.Capacities, core.Capacity{Session: record.Session(w.ID), Units: c})
			}
		}
		s.send(ev)
	})
}

// weigh returns the loads that are given and not measured.
func (p *Packing) weigh(names []string) []core.Load {
	sum := 0.0
	for _, w := range p.Weights {
		sum += w
	}
	average := sum / float64(max(len(p.Weights), 1))
	out := make([]core.Load, len(names))
	for i, name := range names {
		w, ok := p.Weights[name]
		if !ok {
			w = average
		}
		out[i].Speed = uint64(w * 1000)
	}
	return out
}

// read gives one reading of the Meter to the gauge. What is wrong becomes a condition.
func (s *session) read(at time.Duration, asked []string, handled map[string]uint64) {
	meter, ok := s.m.cfg.Source.(Meter)
	if !ok {
		s.noMeter()
		return
	}
	readings, err := s.readMeter(meter, asked, &s.scales.reading)
	if errors.Is(err, errors.ErrUnsupported) {
		s.noMeter()
		return
	}
	if err != nil {
		s.condition(ConditionLoadUnknown, "", fmt.Sprintf("the source cannot measure arrivals: %v. The last speeds count for %v, then partitions are placed by number", err, speed.Fresh))
		return
	}
	if s.conditions.end(ConditionLoadUnknown) {
		s.m.log.Info("the source measures arrivals again", "member", s.m.name)
	}
	out := make([]speed.Reading, len(readings))
	for i, r := range readings {
		out[i] = speed.Reading{Partition: r.Partition, Arrived: r.Arrived, Bytes: r.Bytes, Unknown: r.Unknown, Backlog: r.Backlog, Epoch: r.Epoch, Handled: handled[r.Partition]}
	}
	wrong := s.scales.gauge.Observe(at, asked, out)
	if n := len(wrong); n > mostLeftOut {
		wrong = append(wrong[:mostLeftOut:mostLeftOut], fmt.Sprintf("%d more", n-mostLeftOut))
	}
	if len(wrong) > 0 {
		s.condition(ConditionLoadRefused, "", "readings of the source are refused: "+strings.Join(wrong, "; "))
	}
}

func (s *session) noMeter() {
	s.conditionOnce(ConditionLoadUnknown, "", "the source measures no arrivals, so partitions are spread by number: give their speeds in Config.Packing.Weights, or use the strategy spread")
}

var errMeterHangs = errors.New("its last reading has not returned yet")

// readMeter calls the Meter. A call that does not return in time is left to itself: it
// delays neither the next plan nor the end of the session.
func (s *session) readMeter(meter Meter, asked []string, reading *atomic.Bool) ([]Reading, error) {
	if reading.Swap(true) {
		return nil, errMeterHangs
	}
	type result struct {
		readings []Reading
		err      error
	}
	ctx, cancel := context.WithTimeout(s.ctx, meterTime)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		readings, err := meter.Read(ctx, asked)
		reading.Store(false)
		done <- result{readings, err}
	}()
	select {
	case r := <-done:
		return r.readings, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %v", meterTime)
	}
}

// collect returns how many messages of each partition members have handled, as far as
// their records tell. A record tells of a part of its partitions at a time, so all that
// was reported before is kept.
func (c *scales) collect(members []*record.Member, names []string) map[string]uint64 {
	if c.handled == nil {
		c.handled = map[record.ID]map[record.Session]uint64{}
	}
	for _, m := range members {
		for _, l := range m.Load {
			of := c.handled[l.ID]
			if of == nil {
				of = map[record.Session]uint64{}
				c.handled[l.ID] = of
			}
			of[m.Session] = l.Handled
		}
	}
	out := map[string]uint64{}
	for id, of := range c.handled {
		if int(id) >= len(names) {
			continue
		}
		for _, n := range of {
			out[names[id]] += n
		}
	}
	return out
}

// records returns the records of members with what each has handled. That of this member may
// lack it: the core knows its own record as it was before the shell filled that in, unless its
// watch was quicker than the answer to the write.
func (s *session) records() []*record.Member {
	all := slices.Clone(s.node.Members())
	for i, m := range all {
		if m.Session == s.id {
			own := *m
			own.Load, own.Handled, own.Busy = s.tally.said()
			all[i] = &own
		}
	}
	return all
}

// An owner is a live member, with what it owns.
type owner struct {
	speed.Member
	owns []record.ID
}

// liveMembers lists the live members as the leader sees them.
func (s *session) liveMembers() []owner {
	var out []owner
	at := map[record.Session]int{}
	for _, m := range s.records() {
		if m.State == record.Live {
			at[m.Session] = len(out)
			out = append(out, owner{Member: speed.Member{ID: uint64(m.Session), Handled: m.Handled, Busy: m.Busy}})
		}
	}
	for i := range s.node.Plan().Rows {
		r := &s.node.Plan().Rows[i]
		if j, ok := at[r.Owner]; ok && r.State == record.Owned {
			out[j].owns = append(out[j].owns, record.ID(i))
		}
	}
	return out
}
