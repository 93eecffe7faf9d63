package sim

import "github.com/rota-dev/rota/internal/core"

// A Deed is something that the shell does to a core, or for it, and how the
// simulator does the same. Where the two differ, bugs hide: four of them did. So
// each deed names a scenario in which it happens. Every scenario is played by the
// simulator and by whole members over the real shell, and the transcripts must be
// the same; a test checks that the deed does happen in it, and that no event,
// answer or action of the core is missing here.
type Deed struct {
	What  string // what the shell does
	Play  string // the scenario in which both do it
	Event core.Event
	Do    core.Do
	by    deedKind
	Not   string // why no scenario can show it, and what does instead
}

type deedKind uint8

const (
	byEvent  deedKind = iota // the shell tells the core: Event.Kind, and its Outcome if it is an Answer
	byAction                 // the core tells the shell: Do
	byConfig                 // the shell says so when the session begins
)

func tells(k core.Kind, what, play string) Deed {
	return Deed{What: what, Play: play, Event: core.Event{Kind: k}}
}

func answers(o core.Outcome, what, play string) Deed {
	return Deed{What: what, Play: play, Event: core.Event{Kind: core.Answer, Outcome: o}}
}

func does(d core.Do, what, play string) Deed {
	return Deed{What: what, Play: play, Do: d, by: byAction}
}

func begins(what, play string) Deed { return Deed{What: what, Play: play, by: byConfig} }

// Deeds is all that the shell does.
var Deeds = []Deed{
	tells(core.Tick, "wakes the core at the instant it asked for", "s2-kill"),
	tells(core.Begin, "begins a session", "s0-01-one-member"),
	answers(core.OK, "tells what a call found", "s0-01-one-member"),
	answers(core.Conflict, "tells that somebody else was faster", "s0-04-five-at-once"),
	answers(core.NotFound, "tells that there is no such record", "s0-01-one-member"),
	answers(core.Unknown, "ends a call after CallTime, whatever becomes of it, and answers once", "lost-answer"),
	{What: "refuses to write a record that nobody could read", Event: core.Event{Kind: core.Answer, Outcome: core.Refused},
		Not: "it takes a roster of 768 KB: TestARosterThatCannotBeWrittenStopsNothing with whole members, encodes in the simulator"},
	tells(core.Seen, "shows what a watch shows, the first batch of a new watch apart", "s0-02-second-member"),
	tells(core.Gap, "tells that the watches broke off, once they work again", "s0-05-cut-off-comes-back"),
	tells(core.Listed, "tells what the source lists, to each member over its own link; a failure is told, too", "plans-without-a-listing"),
	tells(core.Started, "tells that the source has confirmed a run", "s0-01-one-member"),
	tells(core.Stopped, "tells that a run is over: handled, settled, closed", "s2-leave"),
	tells(core.Retrying, "tries a source again that failed, after a while", "failed-source-is-started-again"),
	tells(core.GivenUp, "gives up a source that keeps failing", "failed-source-is-started-again"),
	tells(core.Looked, "tells that the function of a partition asks for its lease before it acts", "looking-earns-time"),
	tells(core.Denied, "tells that such a function was refused", "looking-earns-time"),
	tells(core.Closed, "closes the source's connections", "s2-leave"),
	tells(core.Proven, "passes on the kernel's proof of a death", "s2-guard"),
	tells(core.Leave, "passes on that the user wants to leave", "s2-leave"),
	tells(core.Jumped, "tells that this host's clocks came apart", "clock-jump"),
	tells(core.Measured, "tells the load of every partition, or that it is not known", "no-load-plan-without-a-move"),
	tells(core.Scaled, "tells what the Scaler answered", "removed-when-empty"),
	tells(core.Server, "tells who the store's server is: when a session begins and after each gap, to whoever can ask", "server-of-the-first-plan"),
	does(core.DoCall, "calls the store, each call on its own", "s0-01-one-member"),
	does(core.DoWatch, "watches what the core wants to see", "s0-01-one-member"),
	does(core.DoStart, "runs a partition", "s0-01-one-member"),
	does(core.DoStop, "asks a run to finish what it fetched", "s0-02-second-member"),
	does(core.DoCancel, "ends a run's context", "s0-05-cut-off"),
	does(core.DoAsk, "asks the source for its partitions", "s0-01-one-member"),
	does(core.DoMeasure, "reads the meter of the source", "no-load-plan-without-a-move"),
	does(core.DoScale, "calls the Scaler", "removed-when-empty"),
	does(core.DoClose, "closes the source's connections", "s2-leave"),
	does(core.DoAbort, "ends the process, or by Config.Abort just the handlers that overstay, and that as often as it is told to", "abort-again"),
	does(core.DoEnd, "ends the session", "s2-leave"),
	does(core.DoNote, "tells people", "s0-01-one-member"),
	begins("believes that the store is new, for the first session of a process", "rejoined-session-is-not-fresh"),
	begins("tells the store's class", "incarnation-after-loss-of-a-server"),
	begins("tells the wall clock, with each answer too, for the numbers of incarnations", "incarnation-begins-once"),
}
