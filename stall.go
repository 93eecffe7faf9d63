package rota

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// pulse is what a run notes of its progress, each as the time since its session began.
type pulse struct {
	called     atomic.Int64 // when a handler was last called, or returned
	delivered  atomic.Int64 // when Deliver last returned, or the source confirmed its start
	progressed atomic.Int64 // when Ownership.Progress was last called; 0 if it never was
	delivering atomic.Int32 // calls of Deliver that have not returned
	consuming  atomic.Bool  // Consume is running
	stalled    atomic.Bool  // a condition says that there is no progress
}

// elapsed is the time since the session began, on a clock that nobody sets.
func (s *session) elapsed() int64 { return int64(time.Since(s.began)) }

// beginDelivery notes that the source delivers.
func (r *run) beginDelivery() {
	r.pulse.delivering.Add(1)
	r.goesOn()
}

func (r *run) endDelivery() {
	r.pulse.delivered.Store(r.s.elapsed())
	r.pulse.delivering.Add(-1)
}

// goesOn ends the condition that the run makes no progress.
func (r *run) goesOn() {
	if r.pulse.stalled.Load() && r.pulse.stalled.Swap(false) {
		r.endStall()
	}
}

func (r *run) endStall() {
	for _, code := range stallCodes {
		r.s.conditions.over(code, r.name)
	}
}

var stallCodes = []Condition{ConditionHandlerBusy, ConditionSourceSilent, ConditionNoProgress}

// stalls looks for owned partitions that make no progress for Config.StallTime, with one
// timer for all of them. Each look is a goroutine of its own, and nothing waits for it; a
// goroutine that waits for the next look would cost every member its stack.
type stalls struct {
	s        *session
	limit    int64
	looking  atomic.Bool // a look has not ended; the next one is left out
	reading  atomic.Bool // a call of Meter.Read has not returned
	pending  bool        // its answer has not come
	readAt   int64       // when that call, or the last one, began; 0 before the first
	answers  chan map[string]int64
	silent   map[*run]*silence
	reported map[*run]bool
}

// A silence is a run whose source has delivered nothing for a while.
type silence struct {
	since   int64 // the last delivery
	found   int64 // when the Meter first said that messages wait, since then; 0 if it has not
	backlog int64
}

// looksPerStall is how often runs are looked at in a stall time.
const looksPerStall = 8

// newStalls also returns the ticks at which the session's loop calls lookBeside, and what
// ends them. Without Config.StallTime there are none.
func newStalls(s *session) (w *stalls, tick <-chan time.Time, end func()) {
	if s.m.stallTime == 0 {
		return nil, nil, func() {}
	}
	w = &stalls{s: s, limit: int64(s.m.stallTime), answers: make(chan map[string]int64, 1), silent: map[*run]*silence{}, reported: map[*run]bool{}}
	t := time.NewTicker(s.m.stallTime / looksPerStall)
	return w, t.C, t.Stop
}

func (w *stalls) lookBeside() {
	if w.looking.Swap(true) {
		return
	}
	w.s.goDo(func() {
		defer w.looking.Store(false)
		w.look()
	})
}

// look assesses all runs, and asks the Meter about those that are quiet.
func (w *stalls) look() {
	select {
	case backlogs := <-w.answers:
		w.tookBacklogs(backlogs)
	default:
	}
	now, runs := w.s.elapsed(), w.s.tally.all()
	is := map[*run]bool{}
	for _, r := range runs {
		is[r] = true
	}
	for r := range w.reported {
		if !is[r] {
			r.endStall()
			delete(w.reported, r)
		}
	}
	for r := range w.silent {
		if !is[r] {
			delete(w.silent, r)
		}
	}
	said, more := 0, 0
	for _, r := range runs {
		c, since := w.assess(r, now)
		if c.Code == "" {
			if w.reported[r] {
				r.endStall()
				delete(w.reported, r)
			}
			continue
		}
		w.s.conditions.begin(c, since)
		r.pulse.stalled.Store(true)
		if !w.reported[r] {
			w.reported[r] = true
			if said++; said <= mostLeftOut {
				w.s.report(c, 1)
			} else {
				more++
			}
		}
	}
	if more > 0 {
		w.s.m.log.Warn("more partitions make no progress", "member", w.s.m.name, "partitions", more)
	}
	w.ask(now)
}

// assess returns the condition of a run that makes no progress, and since when.
func (w *stalls) assess(r *run, now int64) (c ConditionInfo, since time.Time) {
	quiet, p := w.silent[r], &r.pulse
	delete(w.silent, r)
	if !p.consuming.Load() || !r.begun.Load() || r.asked() {
		return c, since // it waits for something else, which has a condition of its own
	}
	tell := func(code Condition, at int64, text string) (ConditionInfo, time.Time) {
		since := w.s.began.Add(time.Duration(at))
		return ConditionInfo{code, r.name, text + clockTime(since)}, since
	}
	busy, called, progressed := r.busy.Load() > 0, p.called.Load(), p.progressed.Load()
	switch acted := max(called, progressed); {
	case called == 0 && progressed != 0: // it delivers nothing, and reports progress
		if now-progressed >= w.limit {
			return tell(ConditionNoProgress, progressed, "it has reported no progress since ")
		}
		return c, since
	case r.isFunc: // it reports no progress: nobody knows
		return c, since
	case busy:
		if now-acted >= w.limit {
			return tell(ConditionHandlerBusy, acted, "its handler has been busy since ")
		}
		return c, since
	case p.delivering.Load() > 0:
		return c, since // it waits for a retry, which has a condition, or for its turn
	}
	last := max(p.delivered.Load(), progressed)
	if now-last < w.limit/2 {
		return c, since
	}
	if quiet == nil || quiet.since != last {
		quiet = &silence{since: last}
	}
	w.silent[r] = quiet
	// A message may have arrived a moment before it was counted: it must have waited.
	if quiet.found != 0 && now-quiet.found >= w.limit/2 && now-last >= w.limit {
		return tell(ConditionSourceSilent, last, fmt.Sprintf("%s, and the source has delivered none since ", messagesWait(quiet.backlog)))
	}
	return c, since
}

func messagesWait(n int64) string {
	if n == 1 {
		return "a message waits"
	}
	return fmt.Sprintf("%d messages wait", n)
}

// ask asks the Meter whether messages wait in the quiet partitions: in one call for all of
// them, at most once in a stall time. A call that hangs delays nothing.
func (w *stalls) ask(now int64) {
	meter, ok := w.s.m.cfg.Source.(Meter)
	if !ok || len(w.silent) == 0 || w.pending || w.readAt != 0 && now-w.readAt < w.limit {
		return
	}
	w.pending, w.readAt = true, max(now, 1)
	var names []string
	for r := range w.silent {
		names = append(names, r.name)
	}
	slices.Sort(names)
	w.s.goDo(func() {
		backlogs := map[string]int64{}
		readings, err := w.s.readMeter(meter, names, &w.reading)
		if err != nil { // nothing is known, so nothing is claimed
			w.s.m.log.Debug("quiet partitions are not measured", "member", w.s.m.name, "err", err)
		}
		for _, x := range readings {
			backlogs[x.Partition] = x.Backlog
		}
		w.answers <- backlogs
	})
}

// tookBacklogs notes what waits. It counts from before the question.
func (w *stalls) tookBacklogs(backlogs map[string]int64) {
	w.pending = false
	for r, quiet := range w.silent {
		n, known := backlogs[r.name]
		switch {
		case !known:
		case n <= 0:
			quiet.found = 0
		case quiet.since <= w.readAt:
			if quiet.found == 0 {
				quiet.found = w.readAt
			}
			quiet.backlog = n
		}
	}
}
