package rota

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// defaultLog is the logger of a Config without one: warnings go to slog's default
// logger, and the rest nowhere. A member that says nothing at all hides every mistake,
// and one that tells each event would fill the log of a program that did not ask.
func defaultLog() *slog.Logger {
	return slog.New(warningsOnly{slog.Default().Handler()})
}

// warningsOnly is a handler that drops everything below a warning.
type warningsOnly struct{ slog.Handler }

func (h warningsOnly) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h warningsOnly) WithAttrs(as []slog.Attr) slog.Handler {
	return warningsOnly{h.Handler.WithAttrs(as)}
}

func (h warningsOnly) WithGroup(name string) slog.Handler {
	return warningsOnly{h.Handler.WithGroup(name)}
}

// eventLevels are the events that an operator should see. All others are for the
// curious. The end of a problem is a warning like its beginning: a log that shows one
// has to show the other.
var eventLevels = map[EventKind]slog.Level{
	EventStoreLost: slog.LevelWarn, EventStoreBack: slog.LevelWarn,
	EventLapsed: slog.LevelWarn, EventWorksOn: slog.LevelWarn, EventResumed: slog.LevelWarn,
	EventDead: slog.LevelWarn, EventEvicted: slog.LevelWarn,
	EventFenced: slog.LevelWarn, EventOrphaned: slog.LevelWarn, EventWritesLost: slog.LevelWarn,
	EventError: slog.LevelWarn, EventCondition: slog.LevelWarn,
}

// logEvent writes the log line of an event. times is how often it was found, if it
// repeats.
func (m *Member) logEvent(e *Event, times int) {
	text := string(e.Kind)
	if e.Kind == EventCondition {
		text = string(e.Condition)
	}
	m.log.LogAttrs(context.Background(), eventLevels[e.Kind], text, m.attrs(e, times)...) // LevelInfo is zero
}

// attrs are the fields of an event's log line, without those that are empty.
func (m *Member) attrs(e *Event, times int) []slog.Attr {
	out := []slog.Attr{slog.String("member", m.name)}
	text := func(key, v string) {
		if v != "" {
			out = append(out, slog.String(key, v))
		}
	}
	number := func(key string, v uint64) {
		if v != 0 {
			out = append(out, slog.Uint64(key, v))
		}
	}
	text("partition", e.Partition)
	text("topic", e.Topic)
	number("token", uint64(e.Token))
	number("plan", e.Plan)
	text("about", e.About)
	text("about_name", e.AboutName)
	text("message", e.Message)
	number("attempt", uint64(e.Attempt))
	if len(e.Meta) > 0 {
		out = append(out, slog.Any("meta", map[string]string(e.Meta)))
	}
	text("because", e.Because)
	if times > 1 {
		number("times", uint64(times))
	}
	return out
}

// Pauses between two reports of one problem. They double from the first to the last.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
)

// repeats paces problems that are found again and again: each is reported at once,
// then after pauses that grow. A problem that was not found for longer than a minute,
// and half as long again as its last pause, is over; if it comes back it is a new one.
type repeats struct {
	mu  sync.Mutex
	all map[ConditionInfo]*repeated
}

type repeated struct {
	times int           // found so far
	pause time.Duration // until it is reported again
	shown time.Time     // when it was last reported
	last  time.Time     // when it was last found
}

// found tells how often the problem has been found, and whether to report it now.
func (r *repeats) found(c ConditionInfo) (times int, due bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.all[c]
	if x == nil || now.Sub(x.last) > max(conditionTime, x.pause*3/2) {
		if r.all == nil || len(r.all) >= mostOnce {
			r.all = map[ConditionInfo]*repeated{}
		}
		r.all[c] = &repeated{times: 1, pause: firstPause, shown: now, last: now}
		return 1, true
	}
	x.times, x.last = x.times+1, now
	if now.Sub(x.shown) < x.pause {
		return x.times, false
	}
	x.shown, x.pause = now, min(2*x.pause, lastPause)
	return x.times, true
}

// end forgets a problem, and tells whether it was there.
func (r *repeats) end(c ConditionInfo) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.all[c]
	delete(r.all, c)
	return was
}
