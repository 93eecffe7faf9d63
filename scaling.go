package rota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// Scaling says how large the group may be, where Config.Scaler changes that. All members
// of a group should have the same settings: those of the leader count. The zero value of a
// field means the default given here; Max has none.
type Scaling struct {
	Min, Max int     // 1; how many members there are at least, and at most
	Spare    int     // 1: members beyond those that the load needs; -1 means none
	Step     int     // 4: by how many members the size changes at once, at most
	Band     float64 // 0.1: how much more load must fit, as a share, before the group shrinks

	UpAfter   time.Duration // 10 s: how long after the group was made to grow it may be again; AtOnce means no pause
	DownAfter time.Duration // 1 min: how long after any change of size it may be made to shrink; AtOnce means no pause
	Vanish    time.Duration // 2 min: how long a member may take to vanish once the Scaler was asked to remove it; then it is used again

	// DryRun decides and tells, and asks nobody: Config.Scaler may be nil.
	DryRun bool
}

// core is s for the core, with defaults.
func (s *Scaling) core(scaler Scaler) core.Scaling {
	c := core.DefaultScaling()
	c.Max = uint32(s.Max)
	c.Min = uint32(cmp.Or(s.Min, int(c.Min)))
	c.Spare = uint32(max(cmp.Or(s.Spare, int(c.Spare)), 0))
	c.Step = uint32(cmp.Or(s.Step, int(c.Step)))
	if s.Band != 0 {
		c.Band = uint32(math.Round(s.Band * 100))
	}
	for _, d := range []struct {
		to *time.Duration
		v  time.Duration
	}{{&c.UpAfter, s.UpAfter}, {&c.DownAfter, s.DownAfter}, {&c.Vanish, s.Vanish}} {
		switch d.v {
		case 0:
		case AtOnce:
			*d.to = 0
		default:
			*d.to = d.v
		}
	}
	c.Dry = s.DryRun
	if o, ok := scaler.(RemovalOrder); ok {
		c.Before = func(a, b *record.Member) bool { return o.RemovedBefore(memberInfo(a), memberInfo(b)) }
	}
	return c
}

// mostMembers is the largest Scaling.Max.
const mostMembers = 100_000

// checkScaling refuses limits that contradict each other, or have nothing to count by.
func (c *Config) checkScaling() error {
	s := &c.Scaling
	switch {
	case c.Scaler == nil && *s == Scaling{}:
		return nil
	case c.Scaler == nil && !s.DryRun:
		return fmt.Errorf("rota: Config.Scaling is set and Config.Scaler is nil: nobody would be asked for members; set a Scaler, or Config.Scaling.DryRun")
	case c.Strategy != Pack:
		return fmt.Errorf("rota: Config.Scaler is set and Config.Strategy is %q: only %q knows how many members the load needs", cmp.Or(c.Strategy, Spread), Pack)
	case c.Packing.Capacity == 0 && c.Labels["capacity"] == "":
		return fmt.Errorf("rota: Config.Scaler is set, and neither Config.Packing.Capacity nor the label capacity is: say how many units per second a member sustains, or nobody can tell how many are needed")
	case s.Max < 1 || s.Max > mostMembers:
		return fmt.Errorf("rota: Config.Scaling.Max is %d: want 1 to %d members", s.Max, mostMembers)
	case s.Min < 0 || s.Min > s.Max:
		return fmt.Errorf("rota: Config.Scaling.Min is %d and Config.Scaling.Max is %d: want 1 to %d, or zero for 1", s.Min, s.Max, s.Max)
	case s.Spare < -1 || s.Spare > s.Max:
		return fmt.Errorf("rota: Config.Scaling.Spare is %d and Config.Scaling.Max is %d: want at most that, zero for 1, or -1 for none", s.Spare, s.Max)
	case s.Step < 0 || s.Step > mostMembers:
		return fmt.Errorf("rota: Config.Scaling.Step is %d: want 1 to %d members, or zero for 4", s.Step, mostMembers)
	case !(s.Band >= 0 && s.Band <= 10):
		return fmt.Errorf("rota: Config.Scaling.Band is %v: want a share of 0.01 to 10, or zero for 0.1", s.Band)
	}
	for _, d := range []struct {
		name string
		v    time.Duration
		none bool
	}{{"UpAfter", s.UpAfter, true}, {"DownAfter", s.DownAfter, true}, {"Vanish", s.Vanish, false}} {
		if d.v != 0 && !(d.none && d.v == AtOnce) && (d.v < time.Second || d.v > maxDuration) {
			return fmt.Errorf("rota: Config.Scaling.%s is %v: want %v to %v, or zero for the default", d.name, d.v, time.Second, maxDuration)
		}
	}
	return checkOwn("Scaler", c.Scaler)
}

// scalerTime is the timeout of one call of the Scaler. One that takes longer is not waited
// for, and not called again before it has returned.
const scalerTime = 30 * time.Second

// A fleet calls the Scaler while this member leads.
type fleet struct {
	calling atomic.Bool        // a call has not returned
	end     context.CancelFunc // ends the call under way; only the loop uses it
	short   time.Time          // since when the number of members is not the one that is wanted; zero if it is

	mu     sync.Mutex
	asked  time.Time // when the last call was made
	answer string    // what it said: empty if all was well
}

func (f *fleet) said() (asked time.Time, answer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked, f.answer
}

var errScalerHangs = errors.New("its last call has not returned yet")

// scale calls the Scaler beside the loop and answers the core.
func (s *session) scale(want core.Fleet) {
	remove := make([]MemberInfo, 0, len(want.Remove))
	for _, m := range s.node.Members() {
		if slices.Contains(want.Remove, m.Session) {
			remove = append(remove, memberInfo(m))
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, scalerTime)
	s.fleet.end = cancel
	s.goDo(func() {
		defer cancel()
		err := s.callScaler(ctx, want.Want, remove)
		s.fleet.mu.Lock()
		s.fleet.asked, s.fleet.answer = time.Now(), ""
		if err != nil {
			s.fleet.answer = err.Error()
		}
		s.fleet.mu.Unlock()
		ev := core.Event{Kind: core.Scaled}
		if err != nil {
			ev.Outcome, ev.Pause = core.Unknown, retryAfter(err)
			if s.ctx.Err() == nil && !errors.Is(ctx.Err(), context.Canceled) {
				s.condition(ConditionScalerFails, "", fmt.Sprintf("the scaler was asked for %d members%s and failed: %v. It is asked again; nothing else waits for it", want.Want, without(remove), err))
			}
		} else if s.conditions.end(ConditionScalerFails) {
			s.m.log.Info("the scaler works again", "member", s.m.name)
		}
		s.send(ev)
	})
}

// callScaler makes one call. A call that does not return in time is left to itself: it
// delays neither the next plan nor the end of the session.
func (s *session) callScaler(ctx context.Context, want int, remove []MemberInfo) error {
	if s.fleet.calling.Swap(true) {
		return errScalerHangs
	}
	done := make(chan error, 1)
	go func() {
		err := s.m.cfg.Scaler.Scale(ctx, want, remove)
		s.fleet.calling.Store(false)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("it has not answered within %v", scalerTime)
		}
		return ctx.Err() // this member leads no more
	}
}

// longestPause is the longest time that a Scaler may ask to be left alone.
const longestPause = 10 * time.Minute

// retryAfter returns how long an error of a Scaler asks to wait; zero if it does not.
func retryAfter(err error) time.Duration {
	var x interface{ RetryAfter() time.Duration }
	if errors.As(err, &x) {
		return min(max(x.RetryAfter(), 0), longestPause)
	}
	return 0
}

func without(gone []MemberInfo) string {
	if len(gone) == 0 {
		return ""
	}
	var names []string
	for i := range gone {
		names = append(names, gone[i].Name)
	}
	return " without " + strings.Join(names, ", ")
}

// keepFleet ends a call to the Scaler with the leadership, and tells when the number of
// members has long not been the one that is wanted.
func (s *session) keepFleet() {
	if !s.node.Leads() {
		if s.fleet.end != nil {
			s.fleet.end()
			s.fleet.end = nil
		}
		s.fleet.short = time.Time{}
		return
	}
	if s.cfg.Scaling.Max == 0 || s.cfg.Scaling.Dry {
		return
	}
	size, live := s.node.Plan().Size, 0
	for _, m := range s.node.Members() {
		if m.State == record.Live {
			live++
		}
	}
	if want := int(size.Wanted); live >= want && live-len(size.Chosen) <= want {
		s.fleet.short = time.Time{}
		return
	}
	if s.fleet.short.IsZero() {
		s.fleet.short = time.Now()
	}
	if late := time.Since(s.fleet.short); late > s.cfg.Scaling.Vanish+s.cfg.Scaling.DownAfter {
		_, answer := s.fleet.said()
		s.conditionOnce(ConditionSizeMissed, "", fmt.Sprintf("%d members are wanted and %d are there, for longer than the scaler may take; its last answer: %s", size.Wanted, live, cmp.Or(answer, "all is well")))
	}
}

// noteSize tells that this leader wants another number of members.
func (s *session) noteSize(a *core.Action) Event {
	why := s.node.Packed().Result.Why
	if s.cfg.Scaling.Dry {
		why = strings.TrimPrefix(why+"; dry run: nobody is asked", "; ")
	}
	e := Event{Kind: EventSize, Want: a.Fleet.Want, Have: a.Have, Because: why}
	for _, who := range a.Fleet.Remove {
		e.Going = append(e.Going, s.memberName(who))
	}
	return e
}

// SizeInfo is how many members the leader of a group with a Scaler wants.
type SizeInfo struct {
	Wanted int       `json:"wanted"`
	Have   int       `json:"have"`            // live members
	Going  []string  `json:"going,omitempty"` // names of live members that are given nothing, since they shall go
	Asked  time.Time `json:"asked,omitzero"`  // Inspect only: when the Scaler was last asked
	Answer string    `json:"answer,omitempty"`
}

// resize fills in Size. It rests on Members.
func (s *Status) resize(size record.Size) {
	if size.Wanted == 0 {
		return
	}
	info := &SizeInfo{Wanted: int(size.Wanted)}
	for i := range s.Members {
		m := &s.Members[i]
		if m.State != MemberState(record.Live.String()) {
			continue
		}
		info.Have++
		if slices.ContainsFunc(size.Chosen, func(c record.Session) bool { return c.String() == m.Session }) {
			info.Going = append(info.Going, m.Name)
		}
	}
	s.Size = info
}

// memberName is the name of a member in sight, or its session.
func (s *session) memberName(who record.Session) string {
	for _, m := range s.node.Members() {
		if m.Session == who {
			return m.Name
		}
	}
	return who.String()
}
