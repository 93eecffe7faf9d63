package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// lone is one session whose store, source and clock the test plays by hand. It is
// for cases that no scenario can show, because no well-behaved store, shell or
// source causes them, or because nobody outside the session sees them.
type lone struct {
	*victim
	acts []core.Action // of the last step
}

// newLone makes a session that has joined. The rows that it owns are in plan 1, led
// by c2.
func newLone(t *testing.T, tune func(*core.Config)) *lone {
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Fresh: true, Era: 7}
	if tune != nil {
		tune(cfg)
	}
	l := &lone{victim: &victim{t: t, n: core.New(cfg), now: core.Time(time.Hour), shown: map[string]bool{}}}
	l.takes(core.Event{Kind: core.Begin})
	l.reply(core.Put, core.Event{Rev: 1})
	return l
}

// takes steps the session, and keeps its actions.
func (l *lone) takes(evs ...core.Event) {
	for _, ev := range evs {
		l.see(ev)
	}
	l.acts = slices.Clone(l.n.Steps(l.now, evs))
	for _, a := range l.acts {
		l.do(a)
	}
}

// waits lets time pass.
func (l *lone) waits(d time.Duration) {
	l.now = l.now.Add(d)
	l.takes(core.Event{Kind: core.Tick})
}

// call takes such a call on the record of s off the list of calls in flight.
func (l *lone) call(verb core.Verb, s record.Session) core.Action {
	l.t.Helper()
	i := slices.IndexFunc(l.calls, func(a core.Action) bool {
		return a.Verb == verb && a.Key == (core.Key{Cell: core.MemberCell, Session: s})
	})
	if i < 0 {
		l.t.Fatalf("no call %v is under way: %v", verb, l.calls)
	}
	c := l.calls[i]
	l.calls = slices.Delete(l.calls, i, i+1)
	return c
}

// reply answers such a call on the own record, and returns it.
func (l *lone) reply(verb core.Verb, ev core.Event) core.Action {
	l.t.Helper()
	c := l.call(verb, me)
	ev.Kind, ev.Verb, ev.Key = core.Answer, c.Verb, c.Key
	l.takes(ev)
	return c
}

// did tells whether the last step returned such an action.
func (l *lone) did(d core.Do) bool {
	return slices.ContainsFunc(l.acts, func(a core.Action) bool { return a.Do == d })
}

// noted tells whether the last step returned such a note.
func (l *lone) noted(x core.Note) bool {
	return slices.ContainsFunc(l.acts, func(a core.Action) bool { return a.Do == core.DoNote && a.Note == x })
}

// record is the record that the last step wrote; nil if it wrote none.
func (l *lone) record() *record.Member {
	for _, a := range l.acts {
		if a.Member != nil && a.Key.Session == me {
			return a.Member
		}
	}
	return nil
}

func (l *lone) ask(ok bool, what string) {
	l.t.Helper()
	if !ok {
		l.t.Errorf("%s; it did %v", what, l.acts)
	}
}

// plan makes a plan in which this session owns the first partitions, in the state
// given, with tokens of this count.
func aPlan(gen uint64, leader record.Session, state record.RowState, count uint32, owned int) *record.Plan {
	p := &record.Plan{Incarnation: 7, Gen: gen, Write: gen, Decided: gen, Term: 1, Leader: leader, ID: gen, Roster: 1, Members: []record.Session{2, me}}
	for range owned {
		p.Rows = append(p.Rows, record.Row{State: state, Owner: me, Token: record.MakeToken(7, count), Rev: gen})
	}
	return p
}

func shows(p *record.Plan) core.Event {
	return core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.PlanCell}, Rev: core.Rev(100 + p.Gen), Plan: p}}}
}

// names shows a roster with these partitions.
func names(parts ...string) core.Event {
	r := &record.Roster{Ver: 1}
	for _, p := range parts {
		r.Entries = append(r.Entries, record.Partition{Name: p})
	}
	return core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.RosterCell}, Rev: 50, Roster: r}}}
}

func isMember(s record.Session, seq uint64, state record.MemberState) core.Entry {
	return core.Entry{Key: core.Key{Cell: core.MemberCell, Session: s}, Rev: core.Rev(1000*uint64(s) + seq),
		Member: &record.Member{Session: s, Name: "m", Seq: seq, State: state, Lease: 5 * time.Second, Beat: 2 * time.Second}}
}

// runs brings a session to where it runs q0, which the source has confirmed.
func runs(t *testing.T) *lone {
	l := newLone(t, nil)
	l.takes(names("q0", "q1"))
	l.takes(shows(aPlan(1, 2, record.Owned, 1, 1)))
	l.ask(l.did(core.DoStart), "it does not start what it owns")
	l.reply(core.Put, core.Event{Rev: 2})
	l.takes(core.Event{Kind: core.Started, Token: record.MakeToken(7, 1)})
	l.ask(l.record() != nil && len(l.record().Starting) == 0, "it does not tell that q0 has started")
	l.reply(core.Put, core.Event{Rev: 3})
	return l
}

// The default timing is the one that the documentation quotes.
func TestDurations(t *testing.T) {
	want := core.Timing{Lease: 5 * time.Second, Heartbeat: 2 * time.Second, Margin: 500 * time.Millisecond,
		StopTime: 30 * time.Second, Orphan: 30 * time.Second, Grace: time.Second,
		Quiet: 100 * time.Millisecond, QuietMax: 2 * time.Second, Guard: 30 * time.Millisecond,
		Retry: 100 * time.Millisecond, Again: 2 * time.Second, Step: 100 * time.Millisecond, Leave: time.Second, Stuck: 30 * time.Second,
		Ask: 30 * time.Second, PollPlan: 20 * time.Second, PollList: 10 * time.Second, Keep: 10 * time.Minute}
	if got := core.DefaultTiming(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := want.B(); got != 2600*time.Millisecond {
		t.Errorf("B is %v", got)
	}
	if got := want.CallTime(); got != 1250*time.Millisecond {
		t.Errorf("a call may take %v", got)
	}
	for lease, w := range map[time.Duration]time.Duration{
		5 * time.Second:                       5200 * time.Millisecond,
		9900 * time.Millisecond:               10100 * time.Millisecond, // nothing to round
		9900*time.Millisecond + 1:             10200 * time.Millisecond, // the least there is
		99 * time.Second:                      101 * time.Second,
		98*time.Second + 950*time.Millisecond: 101 * time.Second,
	} {
		if got := core.MakeTiming(lease, time.Second).W(); got != w {
			t.Errorf("W of a lease of %v is %v, not %v", lease, got, w)
		}
	}
}

// Never is later than any instant, even if a duration is added to that.
func TestNeverStaysNever(t *testing.T) {
	for _, d := range []time.Duration{1, time.Hour, core.Forever} {
		if got := core.Never.Add(d); got != core.Never {
			t.Errorf("never and %v is %d", d, got)
		}
	}
	if got := core.Time(5).Add(-2); got != 3 {
		t.Errorf("5 and -2 is %d", got)
	}
	if got := core.Time(5).Add(core.Forever); got != core.Never {
		t.Errorf("5 and for ever is %d", got)
	}
}

// A partition that is started again after a failure counts as starting, as at
// first: the leader waits for it. One that is being stopped counts as stopping
// until it has stopped, whatever the source says.
func TestRetryingIsStarting(t *testing.T) {
	l := runs(t)
	token := record.MakeToken(7, 1)
	l.takes(core.Event{Kind: core.Retrying, Token: token})
	l.ask(l.record() != nil && len(l.record().Starting) == 1, "it does not tell that q0 is starting")
	l.reply(core.Put, core.Event{Rev: 4})
	l.takes(core.Event{Kind: core.Retrying, Token: token})
	l.ask(l.record() == nil, "it tells the same again")
	l.takes(core.Event{Kind: core.Started, Token: token})
	l.ask(l.record() != nil && len(l.record().Starting) == 0, "it does not tell that q0 has started again")
	l.reply(core.Put, core.Event{Rev: 5})

	l.takes(shows(aPlan(2, 2, record.Revoking, 1, 1)))
	l.ask(l.did(core.DoStop) && l.record() != nil && len(l.record().Stopping) == 1, "it does not stop q0")
	l.reply(core.Put, core.Event{Rev: 6})
	for _, k := range []core.Kind{core.Retrying, core.Started} {
		l.takes(core.Event{Kind: k, Token: token})
		l.ask(!l.did(core.DoStop) && l.record() == nil, "a run that stops is taken for one that starts")
	}
	l.takes(core.Event{Kind: core.GivenUp, Token: token, Text: "too late"})
	m := l.record()
	l.ask(m != nil && len(m.Stopping) == 0 && len(m.GaveUp) == 0, "what was to be stopped is given up")
}

// An event about an earlier run of a partition, or about a partition that does not
// run, is stale and ignored: the present run has another token.
func TestLateWordOfARun(t *testing.T) {
	l := runs(t)
	for _, ev := range []core.Event{
		{ID: 0, Token: record.MakeToken(7, 9)},
		{ID: 1, Token: record.MakeToken(7, 1)},
	} {
		for _, k := range []core.Kind{core.Started, core.Retrying, core.Stopped, core.GivenUp} {
			ev.Kind = k
			l.takes(ev)
			l.ask(len(l.acts) == 0, "it acts upon a late word")
		}
	}
}

// A cause comes from a source and may hold any bytes. In a record it is one line of
// text that fits.
func TestCauseIsTidied(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nc\x7fd~\u0085 e":  "a b c d~  e",
		"\xff\xfe":               "?",
		strings.Repeat("x", 201): strings.Repeat("x", 201),
		strings.Repeat("x", 202): strings.Repeat("x", 201) + "…",
		strings.Repeat("é", 150): strings.Repeat("é", 101) + "…",
	} {
		l := newLone(t, nil)
		l.takes(names("q0", "q1"))
		l.takes(shows(aPlan(1, 2, record.Owned, 1, 1)))
		l.reply(core.Put, core.Event{Rev: 2})
		l.takes(core.Event{Kind: core.GivenUp, Token: record.MakeToken(7, 1), Text: text})
		if m := l.record(); m == nil || len(m.GaveUp) != 1 || m.GaveUp[0].Cause != want {
			t.Errorf("of %q it tells %+v", text, m)
		}
	}
}

// The meaning of an ID is never guessed: a partition that the roster does not name
// is not started, even if the roster is as new as the plan's.
func TestUnknownIDIsNotStarted(t *testing.T) {
	l := newLone(t, nil)
	if got := l.n.NameOf(0); got != "" {
		t.Errorf("without a roster it knows %q", got)
	}
	l.takes(names("q0"))
	l.takes(shows(aPlan(1, 2, record.Owned, 1, 2)))
	starts := 0
	for _, a := range l.acts {
		if a.Do == core.DoStart {
			starts++
		}
	}
	l.ask(starts == 1, "it should start q0 only")
	if a, b := l.n.NameOf(0), l.n.NameOf(1); a != "q0" || b != "" {
		t.Errorf("the names are %q and %q", a, b)
	}
}

// A clock that counts suspend shows how much time has passed: there is time to stop
// in order. Any other may be late by more than the lease.
func TestJumpEndsTheLease(t *testing.T) {
	for counts, left := range map[bool]time.Duration{true: 500 * time.Millisecond, false: 0} {
		l := runs(t)
		l.takes(core.Event{Kind: core.Jumped, CountsSuspend: counts})
		if got := l.n.Lease().Sub(l.now); got != left {
			t.Errorf("a clock that counts suspend: %v; the lease lasts %v", counts, got)
		}
		l.ask(l.did(core.DoCancel), "it goes on")
	}
}

// A store that may lose writes has lost some if its server is not the one that took
// the plan, where both servers are known.
func TestAnotherServer(t *testing.T) {
	for _, volatile := range []bool{true, false} {
		for _, here := range []string{"", "s1", "s2"} {
			for _, planned := range []string{"", "s1"} {
				l := newLone(t, func(c *core.Config) { c.Volatile = volatile })
				p := aPlan(1, 2, record.Owned, 1, 1)
				p.Server = planned
				l.takes(names("q0"))
				l.takes(core.Event{Kind: core.Server, Text: here})
				l.takes(shows(p))
				if got, want := l.noted(core.NoteLost), volatile && here == "s2" && planned == "s1"; got != want {
					t.Errorf("volatile %v, connected to %q, plan of %q: lost is %v", volatile, here, planned, got)
				}
			}
		}
	}
}

// LEFT is written by the session itself. A LEFT record with a number that the
// session never sent was written by somebody else: everything is stopped before the
// session ends.
func TestForeignLeftIsAFence(t *testing.T) {
	l := runs(t)
	e := isMember(me, 77, record.Left)
	l.takes(core.Event{Kind: core.Seen, Entries: []core.Entry{e}})
	l.reply(core.Get, core.Event{Entries: []core.Entry{e}})
	l.ask(l.did(core.DoCancel) && !l.did(core.DoEnd), "it ends while q0 runs")
	l.takes(core.Event{Kind: core.Stopped, Token: record.MakeToken(7, 1)})
	cause, ended := l.n.Ended()
	l.ask(ended && cause == core.ByFence, "it was fenced")
}

// A session that is ending keeps its first cause, whatever it learns on the way.
func TestFirstCauseStays(t *testing.T) {
	l := runs(t)
	l.waits(2 * time.Second)
	l.reply(core.Put, core.Event{Outcome: core.Conflict}) // so it reads its record
	next := aPlan(5, 2, record.Owned, 1, 1)
	next.Incarnation = 8
	l.takes(shows(next))
	l.ask(l.did(core.DoCancel), "somebody noticed a loss, and it goes on")
	l.reply(core.Get, core.Event{Entries: []core.Entry{isMember(me, 3, record.Evicted)}})
	if cause, ended := l.n.Ended(); cause != core.ByStore || ended {
		t.Errorf("it ends %v, over: %v", cause, ended)
	}
}

// A session that has lapsed, and is ending, does not resume when its lease comes
// back.
func TestEndingSessionDoesNotResume(t *testing.T) {
	l := newLone(t, func(c *core.Config) { c.Volatile = true })
	p := aPlan(1, 2, record.Owned, 1, 0)
	p.Server = "s1"
	l.takes(names("q0"))
	l.takes(shows(p))
	l.waits(4600 * time.Millisecond) // its lease is nearly over; a heartbeat is in flight
	l.takes(core.Event{Kind: core.Server, Text: "s2"})
	l.ask(l.noted(core.NoteLost), "it does not notice the loss")
	l.reply(core.Put, core.Event{Rev: 9})
	l.ask(!l.noted(core.NoteResumed), "it resumes")
}

// A record that was missing once, and is there again, has to be missing twice again
// before it counts as deleted.
func TestMissingTwiceInARow(t *testing.T) {
	l := runs(t)
	for range 2 {
		l.waits(2 * time.Second)
		put := l.reply(core.Put, core.Event{Outcome: core.Conflict})
		l.reply(core.Get, core.Event{Outcome: core.NotFound})
		l.waits(100 * time.Millisecond)
		found := isMember(me, put.Member.Seq, record.Live)
		l.reply(core.Get, core.Event{Entries: []core.Entry{found}})
		if cause, _ := l.n.Ended(); cause != core.NotEnded {
			t.Fatalf("it ends: %v", cause)
		}
		if l.record() != nil {
			l.reply(core.Put, core.Event{Rev: core.Rev(l.now)})
		}
	}
}

// A leaver that never joined ends when its source is closed, and not before; it
// ends once, and does nothing after that.
func TestLeaverThatNeverJoined(t *testing.T) {
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Era: 7}
	l := &lone{victim: &victim{t: t, n: core.New(cfg), now: 1, shown: map[string]bool{}}}
	l.takes(core.Event{Kind: core.Begin})
	l.takes(core.Event{Kind: core.Leave})
	l.ask(l.did(core.DoClose), "it does not close its source")
	l.takes(core.Event{Kind: core.Gap})
	l.ask(!l.did(core.DoEnd), "it ends before its source is closed")
	if _, ended := l.n.Ended(); ended {
		t.Error("it is over")
	}
	l.takes(core.Event{Kind: core.Closed})
	ends := 0
	for _, a := range l.acts {
		if a.Do == core.DoEnd {
			ends++
		}
	}
	l.ask(ends == 1 && l.acts[len(l.acts)-1].Do == core.DoEnd, "it should end once, and do nothing else then")
	if cause, ended := l.n.Ended(); cause != core.ByLeave || !ended {
		t.Errorf("it ended %v, over: %v", cause, ended)
	}
	l.waits(time.Minute)
	l.ask(len(l.acts) == 0 && l.n.Next() == core.Never, "it is not over")
}

// Events that came in together with the one that ended the session are ignored.
func TestNothingAfterTheEnd(t *testing.T) {
	l := newLone(t, nil)
	l.takes(names("q0"))
	l.takes(shows(aPlan(1, 2, record.Owned, 1, 0)))
	l.takes(core.Event{Kind: core.Proven, Session: 3})
	get := l.call(core.Get, 3)
	l.takes(core.Event{Kind: core.Answer, Verb: core.Get, Key: get.Key, Entries: []core.Entry{isMember(3, 1, record.Live)}})
	dead := l.call(core.Put, 3)
	l.takes(core.Event{Kind: core.Leave})
	l.takes(core.Event{Kind: core.Closed})
	l.reply(core.Put, core.Event{Rev: 2})
	left := l.call(core.Put, me)
	l.ask(left.Member.State == record.Left, "it does not say LEFT")
	l.takes(core.Event{Kind: core.Answer, Verb: core.Put, Key: left.Key, Rev: 3},
		core.Event{Kind: core.Answer, Verb: core.Put, Key: dead.Key, Rev: 4})
	l.ask(l.did(core.DoEnd) && !l.noted(core.NoteDead), "it should end and say nothing more")
}

// A proof of the death of an unknown session makes this one read its record. A
// proof for a session whose record is in doubt waits until that is read: DEAD is
// written over the version in the store.
func TestProofReadsFirst(t *testing.T) {
	l := runs(t)
	l.calls = nil
	l.takes(core.Event{Kind: core.Proven, Session: 3})
	c := l.call(core.Get, 3)
	if slices.Contains(l.n.Members(), nil) || len(l.n.Members()) == 0 {
		t.Errorf("its members are %v", l.n.Members())
	}
	l.takes(core.Event{Kind: core.Answer, Verb: core.Get, Key: c.Key, Entries: []core.Entry{isMember(3, 1, record.Live)}})
	c = l.call(core.Put, 3)
	l.ask(c.Member.State == record.Dead && c.Member.Proof, "it does not declare it dead")
	l.takes(core.Event{Kind: core.Answer, Verb: core.Put, Key: c.Key, Outcome: core.Unknown})
	l.takes(core.Event{Kind: core.Proven, Session: 3})
	l.waits(100 * time.Millisecond)
	l.ask(slices.ContainsFunc(l.acts, func(a core.Action) bool { return a.Verb == core.Get && a.Key.Session == 3 }), "it does not read what is there")
}

// An obituary says LEFT, with a sequence number of its own, over the last record
// written; nothing runs any more. A leader's names the plan that it broke on.
func TestObituary(t *testing.T) {
	for _, leader := range []record.Session{2, me} {
		l := newLone(t, nil)
		l.takes(names("q0", "q1"))
		p := aPlan(3, leader, record.Owned, 1, 2)
		p.Rows[0].State = record.Revoking
		l.takes(shows(aPlan(2, leader, record.Owned, 1, 2)))
		put := l.reply(core.Put, core.Event{Rev: 2})
		l.takes(shows(p))
		m, prev := l.n.Obituary()
		if m.Session != me || m.Name != "c1" || m.State != record.Left || m.Seq <= put.Member.Seq || len(m.Stopping)+len(m.Starting) > 0 || prev != 2 {
			t.Errorf("it says %+v over %d", m, prev)
		}
		if want := map[record.Session]uint64{me: 3}[leader]; m.Bug != want {
			t.Errorf("of leader %d: the bug is of plan %d, not %d", leader, m.Bug, want)
		}
	}
}

// A member acknowledges a plan at once only if somebody waits for that: one of its
// rows is revoked, and no record has acknowledged that yet. Any other plan is
// acknowledged by the next heartbeat.
func TestAckRidesOnTheNextHeartbeat(t *testing.T) {
	l := runs(t)
	p := aPlan(2, 2, record.Owned, 1, 1)
	p.Rows[0].Rev = 1
	l.takes(shows(p))
	l.ask(l.record() == nil, "it writes though nobody waits")
	l.takes(shows(aPlan(3, 2, record.Revoking, 1, 1)))
	l.ask(l.record() != nil && l.record().AckGen == 3, "it does not acknowledge the revoke")
	l.reply(core.Put, core.Event{Rev: 4})
	p = aPlan(4, 2, record.Revoking, 1, 1)
	p.Rows[0].Rev = 3
	l.takes(shows(p))
	l.ask(l.record() == nil, "it acknowledges the same revoke again")
	l.takes(core.Event{Kind: core.Stopped, Token: record.MakeToken(7, 1)})
	l.ask(l.record() != nil && l.record().AckGen == 4, "it does not tell that q0 has stopped")
	l.reply(core.Put, core.Event{Rev: 5})
	l.takes(shows(aPlan(5, 2, record.Revoking, 1, 1))) // a revoke of a partition that does not run
	l.ask(l.record() != nil && l.record().AckGen == 5, "it does not acknowledge a revoke of what it does not run")
}

// A partition that was given up stays in the member's record until the plan has
// taken it away.
func TestGivenUpUntilTaken(t *testing.T) {
	l := runs(t)
	l.takes(core.Event{Kind: core.GivenUp, Token: record.MakeToken(7, 1), Text: "no broker"})
	l.ask(l.record() != nil && len(l.record().GaveUp) == 1, "it does not tell that it gave q0 up")
	l.reply(core.Put, core.Event{Rev: 4})
	p := aPlan(2, 2, record.Owned, 1, 1)
	p.Rows[0].Rev = 1
	l.takes(shows(p))
	l.ask(l.record() == nil && !l.did(core.DoStart), "it starts or tells again what it gave up")
	l.takes(shows(aPlan(3, 2, record.Owned, 2, 1)))
	l.ask(l.did(core.DoStart) && l.record() != nil && len(l.record().GaveUp) == 0, "it does not take it back")
}

// An abort that returned is repeated after a back-off, not with every event. The
// next overstay after everything has stopped is a new one, and aborted without a
// back-off.
func TestAbortsAreSpaced(t *testing.T) {
	l := runs(t)
	jump := func() {
		l.takes(core.Event{Kind: core.Jumped})
		l.ask(l.did(core.DoCancel) && l.did(core.DoAbort), "no lease, and it does not end what runs")
	}
	jump()
	l.takes(core.Event{Kind: core.Gap})
	l.ask(!l.did(core.DoAbort) && !l.did(core.DoCancel), "it aborts again at once")
	l.waits(500 * time.Millisecond)
	l.ask(l.did(core.DoAbort) && !l.did(core.DoCancel), "it does not abort again")

	l.takes(core.Event{Kind: core.Stopped, Token: record.MakeToken(7, 1)})
	l.ask(l.noted(core.NoteLapsed), "it does not tell that it pauses")
	l.reply(core.Put, core.Event{Rev: 4}) // it was sent after the jump, so it gives a lease
	l.ask(l.noted(core.NoteResumed), "it does not resume")
	for range 2 { // the read that was in flight, and the one asked for since
		if i := slices.IndexFunc(l.calls, func(a core.Action) bool { return a.Key.Cell == core.PlanCell }); i >= 0 {
			l.calls = slices.Delete(l.calls, i, i+1)
			ev := shows(aPlan(1, 2, record.Owned, 1, 1))
			ev.Kind, ev.Verb, ev.Key = core.Answer, core.Get, core.Key{Cell: core.PlanCell}
			l.takes(ev)
		}
	}
	l.ask(l.did(core.DoStart), "it does not start again")
	jump()
}

// LEFT is said when nothing runs and the source is closed, not before; a member
// that means to return says so.
func TestLeaverClosesBeforeItSaysLeft(t *testing.T) {
	l := runs(t)
	l.takes(core.Event{Kind: core.Leave, Returning: true})
	l.ask(l.noted(core.NoteLeaving) && l.did(core.DoStop) && l.record().State == record.Leaving && l.record().Returning, "it does not say that it will return")
	l.reply(core.Put, core.Event{Rev: 4})
	l.ask(!l.did(core.DoClose) && l.record() == nil, "it goes on before q0 has stopped")
	l.takes(core.Event{Kind: core.Stopped, Token: record.MakeToken(7, 1)})
	l.ask(l.did(core.DoClose) && l.record().State == record.Leaving, "it does not close its source")
	l.reply(core.Put, core.Event{Rev: 5})
	l.ask(l.record() == nil, "it says more before its source is closed")
	l.takes(core.Event{Kind: core.Closed})
	l.ask(l.record() != nil && l.record().State == record.Left, "it does not say LEFT")
	l.takes(core.Event{Kind: core.Gap})
	l.ask(!l.did(core.DoEnd), "it ends before LEFT is known to be written")
	l.reply(core.Put, core.Event{Rev: 6})
	if cause, ended := l.n.Ended(); cause != core.ByLeave || !ended {
		t.Errorf("it ended %v, over: %v", cause, ended)
	}
}

// A leaver whose record has gone back to an earlier version notices the loss like
// any other member: others may run partitions by records that were lost.
func TestLeaverNoticesALoss(t *testing.T) {
	l := runs(t)
	l.takes(core.Event{Kind: core.Leave})
	put := l.reply(core.Put, core.Event{Outcome: core.Unknown})
	l.reply(core.Get, core.Event{Entries: []core.Entry{isMember(me, put.Member.Seq-2, record.Live)}})
	l.ask(l.noted(core.NoteLost), "it does not notice the loss")
}

// A session that notices a loss when it writes LEFT first begins a new incarnation,
// and then says LEFT.
func TestLastWordAfterALoss(t *testing.T) {
	l := newLone(t, nil)
	l.takes(names("q0"))
	l.takes(shows(aPlan(1, 2, record.Owned, 1, 0)))
	l.calls = slices.DeleteFunc(l.calls, func(a core.Action) bool { return a.Key.Cell == core.PlanCell })
	l.takes(core.Event{Kind: core.Leave})
	l.reply(core.Put, core.Event{Rev: 2})
	l.takes(core.Event{Kind: core.Closed})
	put := l.reply(core.Put, core.Event{Outcome: core.Unknown})
	l.ask(put.Member.State == record.Left, "it does not say LEFT")
	l.reply(core.Get, core.Event{Entries: []core.Entry{isMember(me, 1, record.Live)}})
	l.ask(l.noted(core.NoteLost) && l.record() == nil, "it says LEFT before the loss is written down")
}

// A session that has noticed a loss ends when the new incarnation is written, even
// if it learns meanwhile that it was declared dead and cannot say LEFT any more.
func TestLossIsWrittenDownByTheDeclaredDead(t *testing.T) {
	l := newLone(t, func(c *core.Config) { c.Volatile = true })
	p := aPlan(1, 2, record.Owned, 1, 0)
	p.Server = "s1"
	l.takes(names("q0"))
	l.takes(shows(p))
	l.waits(2 * time.Second)
	put := l.reply(core.Put, core.Event{Outcome: core.Conflict}) // so it reads its record
	l.takes(core.Event{Kind: core.Server, Text: "s2"})
	l.ask(l.noted(core.NoteLost), "it does not notice the loss")
	l.reply(core.Get, core.Event{Entries: []core.Entry{isMember(me, put.Member.Seq, record.Dead)}})
	if _, ended := l.n.Ended(); ended {
		t.Error("it ends before the loss is written down")
	}
}
