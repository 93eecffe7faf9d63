package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

var q0 = record.MakeToken(7, 1) // the token of the partition that runs(t) runs

// answers answers the oldest call on the plan.
func (l *lone) answers(o core.Outcome, p *record.Plan) core.Action {
	l.t.Helper()
	i := slices.IndexFunc(l.calls, func(a core.Action) bool { return a.Key.Cell == core.PlanCell })
	if i < 0 {
		l.t.Fatalf("no call on the plan is under way: %v", l.calls)
	}
	c := l.calls[i]
	l.calls = slices.Delete(l.calls, i, i+1)
	ev := core.Event{Kind: core.Answer, Verb: c.Verb, Key: c.Key, Outcome: o, Rev: 900}
	if p != nil {
		ev.Entries = []core.Entry{{Key: c.Key, Rev: core.Rev(100 + p.Gen), Plan: p}}
	}
	l.takes(ev)
	return c
}

// beats shows a plain heartbeat of the leader.
func beats(seq uint64) core.Event {
	return core.Event{Kind: core.Seen, Entries: []core.Entry{isMember(2, seq, record.Live)}}
}

// idle brings a session to where it is in the plan and owns nothing.
func idle(t *testing.T) *lone {
	l := newLone(t, nil)
	l.takes(names("q0", "q1"))
	l.takes(shows(aPlan(1, 2, record.Owned, 1, 0)))
	return l
}

// evicted brings a session that runs q0 to where it has read that it is evicted.
func evicted(t *testing.T) (*lone, core.Entry) {
	l := runs(t)
	e := isMember(me, 3, record.Evicted)
	l.takes(core.Event{Kind: core.Seen, Entries: []core.Entry{e}})
	l.reply(core.Get, core.Event{Entries: []core.Entry{e}})
	l.ask(l.did(core.DoCancel) && !l.did(core.DoEnd), "it is evicted, and goes on")
	return l, e
}

func (l *lone) over(want core.Cause) {
	l.t.Helper()
	if cause, ended := l.n.Ended(); cause != want || !ended {
		l.t.Errorf("it is %v, over: %v; not %v", cause, ended, want)
	}
}

func (l *lone) ends() (n int) {
	for _, a := range l.acts {
		if a.Do == core.DoEnd {
			n++
		}
	}
	return n
}

// A group's first incarnation is the wall clock, even if no answer told it: an
// incarnation that was lost with the store has a lower number.
func TestFirstIncarnationIsTheWallClock(t *testing.T) {
	if p := newLeader().plan(); p == nil || p.Incarnation != 7 {
		t.Errorf("the first plan is %+v", p)
	}
}

// The watch of a deputy shows all members. The deputy lists them every PollList,
// not at once.
func TestDeputyListsNowAndThen(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.show(true, member(1, "c1", 1))
	for i := range uint64(9) {
		d.after(time.Second)
		d.show(false, member(1, "c1", 2+i))
	}
	d.wantNone(core.List, core.MemberCell, 0)
	d.after(time.Second)
	d.want(core.List, core.MemberCell, 0)
}

// A session reports that it has joined when its record is in the store, and only
// once.
func TestJoinsOnce(t *testing.T) {
	l := newLone(t, nil)
	l.ask(l.noted(core.NoteJoined), "it does not tell that it has joined")
	l.waits(2 * time.Second)
	l.reply(core.Put, core.Event{Rev: 2})
	l.ask(!l.noted(core.NoteJoined), "it joins again")
}

// A record that could not be written before the session has joined is retried after
// a back-off, as often as it takes: it was not deleted.
func TestJoinsAtLast(t *testing.T) {
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Era: 7}
	l := &lone{victim: &victim{t: t, n: core.New(cfg), now: core.Time(time.Hour), shown: map[string]bool{}}}
	l.takes(core.Event{Kind: core.Begin})
	for range 3 {
		if put := l.reply(core.Put, core.Event{Outcome: core.Unknown}); put.Prev != 0 {
			t.Errorf("it writes over %d", put.Prev)
		}
		l.reply(core.Get, core.Event{Outcome: core.NotFound})
		l.ask(l.record() == nil && !l.did(core.DoEnd), "it writes again at once, or ends")
		l.waits(100 * time.Millisecond)
		l.ask(l.record() != nil, "it does not write again")
	}
	l.reply(core.Put, core.Event{Rev: 1})
	l.ask(l.noted(core.NoteJoined), "it does not tell that it has joined")
}

// The sequence number of an obituary is higher than that of any heartbeat:
// otherwise an observer of the last heartbeat would take the obituary for stale.
func TestObituaryIsTheNewest(t *testing.T) {
	l := runs(t)
	l.waits(2 * time.Second)
	put := l.reply(core.Put, core.Event{Rev: 4})
	if m, prev := l.n.Obituary(); m.Seq != put.Member.Seq+1 || prev != 4 {
		t.Errorf("after heartbeat %d it says number %d over %d", put.Member.Seq, m.Seq, prev)
	}
}

// A due action is done in time, whatever event comes in then; and each event of a
// batch is acted upon, whatever the others are.
func TestPlainHeartbeatHidesNothing(t *testing.T) {
	l := runs(t)
	l.takes(beats(1))
	l.now = l.now.Add(2 * time.Second)
	l.takes(beats(2))
	l.ask(l.record() != nil, "its own heartbeat is due")
	l.reply(core.Put, core.Event{Rev: 4})
	l.takes(core.Event{Kind: core.GivenUp, Token: q0, Text: "no broker"}, beats(3))
	l.ask(l.record() != nil && len(l.record().GaveUp) == 1, "it does not tell that it gave q0 up")
}

// A session that has left does nothing more, and wants no tick.
func TestLeftIsTheLastWord(t *testing.T) {
	l := idle(t)
	l.takes(core.Event{Kind: core.Leave})
	l.reply(core.Put, core.Event{Rev: 2})
	l.takes(core.Event{Kind: core.Closed})
	l.reply(core.Put, core.Event{Rev: 3})
	l.over(core.ByLeave)
	l.ask(len(l.acts) == 1 && l.did(core.DoEnd) && l.n.Next() == core.Never, "it should end, and nothing else")
	l.waits(time.Minute)
	l.ask(len(l.acts) == 0 && l.n.Next() == core.Never, "it goes on")
}

// A leader that is alone stops at once when it leaves: nobody will take its rows.
func TestAloneStopsAtOnce(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Rows: []record.Row{owned(1)}}, nil)
	d.lead(1, nil)
	acts := d.n.Step(d.now, core.Event{Kind: core.Leave})
	if !slices.ContainsFunc(acts, func(a core.Action) bool { return a.Do == core.DoStop }) {
		t.Errorf("it does %v", acts)
	}
}

// Rows under a hold need no acknowledgement at once: nobody waits for it.
func TestRowsUnderAHoldAreNoNews(t *testing.T) {
	l := newLone(t, nil)
	l.takes(names("q0"))
	p := aPlan(1, 2, record.Owned, 1, 1)
	p.Hold = true
	l.takes(shows(p))
	l.ask(!l.did(core.DoStart) && l.record() == nil, "it starts, or tells that it has seen the plan")
}

// A revoke is acknowledged at once, even of a partition that does not run, and
// whatever the plan says of this session's other rows.
func TestEveryRevokeIsAnswered(t *testing.T) {
	row := func(s record.RowState, rev uint64) record.Row {
		return record.Row{State: s, Owner: me, Token: q0, Rev: rev}
	}
	l := newLone(t, nil)
	l.takes(names("q0", "q1"))
	p := aPlan(2, 2, record.Owned, 1, 0)
	p.Rows = []record.Row{{Reason: record.Unplaced}, row(record.Revoking, 2)}
	l.takes(shows(p))
	l.ask(l.record() != nil && l.record().AckGen == 2, "it does not acknowledge the revoke of q1")
	l.reply(core.Put, core.Event{Rev: 2})
	p = aPlan(3, 2, record.Owned, 1, 0)
	p.Rows = []record.Row{row(record.Revoking, 3), row(record.Revoking, 2)}
	l.takes(shows(p))
	l.ask(l.record() != nil && l.record().AckGen == 3, "it does not acknowledge the revoke of q0")

	l = runs(t)
	l.takes(core.Event{Kind: core.GivenUp, Token: q0, Text: "no broker"})
	l.reply(core.Put, core.Event{Rev: 4})
	p = aPlan(2, 2, record.Owned, 1, 0)
	p.Rows = []record.Row{row(record.Owned, 1), row(record.Revoking, 2)}
	l.takes(shows(p))
	l.ask(l.record() != nil && l.record().AckGen == 2 && len(l.record().GaveUp) == 1, "it does not acknowledge the revoke beside what it gave up")
}

// A partition that was given up, and that the plan has taken away, is not reported
// as given up any more.
func TestTakenIsNotGivenUp(t *testing.T) {
	l := runs(t)
	l.takes(core.Event{Kind: core.GivenUp, Token: q0, Text: "no broker"})
	l.reply(core.Put, core.Event{Rev: 4})
	l.takes(shows(aPlan(2, 2, record.Owned, 1, 0)))
	l.ask(l.record() != nil && len(l.record().GaveUp) == 0, "it does not take it back")
}

// A session that is ending acknowledges no plan that it has not applied.
func TestEndingAppliesNothing(t *testing.T) {
	l := runs(t)
	e := isMember(me, 3, record.Evicted)
	l.takes(core.Event{Kind: core.Seen, Entries: []core.Entry{e}})
	get := l.call(core.Get, me)
	l.takes(shows(aPlan(2, 2, record.Owned, 1, 1)),
		core.Event{Kind: core.Answer, Verb: core.Get, Key: get.Key, Entries: []core.Entry{e}})
	l.takes(core.Event{Kind: core.Stopped, Token: q0})
	m := l.record()
	l.ask(m != nil && m.State == record.Left && m.AckGen == 1, "it should say LEFT, and acknowledge plan 1")
}

// A row that is granted anew is another ownership: the run under the old token is
// stopped, and reported as stopping, before one under the new token is started.
func TestNewTokenIsANewRun(t *testing.T) {
	l := runs(t)
	l.takes(shows(aPlan(2, 2, record.Owned, 2, 1)))
	l.ask(l.did(core.DoStop) && !l.did(core.DoStart), "it runs on under a token that is no more")
	l.ask(l.record() != nil && slices.Equal(l.record().Stopping, []record.ID{0}), "it does not tell that q0 is stopping")
	l.reply(core.Put, core.Event{Rev: 4})
	l.takes(core.Event{Kind: core.Stopped, Token: q0})
	l.ask(l.did(core.DoStart), "it does not start q0 again")
}

// A revoked partition has the stop time. Shortly before its end the run is
// cancelled, once; a handler that ignores that is aborted.
func TestDrainIsBounded(t *testing.T) {
	l := newLone(t, func(c *core.Config) { c.StopTime = 2 * time.Second })
	l.takes(names("q0"))
	l.takes(shows(aPlan(1, 2, record.Owned, 1, 1)))
	l.reply(core.Put, core.Event{Rev: 2})
	l.takes(shows(aPlan(2, 2, record.Revoking, 1, 1)))
	l.ask(l.did(core.DoStop) && !l.did(core.DoCancel), "it does not stop q0 in order")
	l.reply(core.Put, core.Event{Rev: 3})
	l.waits(1500*time.Millisecond - 1)
	l.ask(!l.did(core.DoCancel), "it cancels early")
	l.waits(1)
	l.ask(l.did(core.DoCancel) && !l.did(core.DoAbort), "it does not cancel")
	l.takes(core.Event{Kind: core.Gap})
	l.ask(!l.did(core.DoCancel) && !l.did(core.DoAbort), "it cancels again, or aborts early")
	l.waits(500 * time.Millisecond)
	l.ask(!l.did(core.DoCancel) && l.did(core.DoAbort), "it does not abort")
}

// The end of a lease cancels every run, and each has its time to stop. The session
// resumes when the lease is back and everything has stopped.
func TestPauseLastsUntilAllHasStopped(t *testing.T) {
	l := runs(t)
	l.takes(core.Event{Kind: core.Jumped, CountsSuspend: true})
	l.ask(l.did(core.DoCancel) && !l.did(core.DoAbort), "it should cancel, and not abort yet")
	l.ask(l.record() != nil && slices.Equal(l.record().Stopping, []record.ID{0}), "it does not tell that q0 is stopping")
	l.reply(core.Put, core.Event{Rev: 4})
	l.ask(!l.noted(core.NoteResumed), "it resumes while q0 runs")
	l.takes(core.Event{Kind: core.Stopped, Token: q0})
	l.ask(l.noted(core.NoteLapsed) && l.noted(core.NoteResumed), "it does not resume")
}

// A leaver that owns partitions and runs none of them gives the plan the same time
// to take them as any other, before it closes its source.
func TestLeaverWaitsForItsRows(t *testing.T) {
	l := runs(t)
	l.takes(core.Event{Kind: core.GivenUp, Token: q0, Text: "no broker"})
	l.reply(core.Put, core.Event{Rev: 4})
	l.takes(core.Event{Kind: core.Leave})
	l.ask(!l.did(core.DoClose), "it closes its source at once")
	l.reply(core.Put, core.Event{Rev: 5})
	l.waits(time.Second)
	l.ask(l.did(core.DoClose), "it waits for ever")
}

// A heartbeat with unknown outcome is in the store. The next one is sent at once if
// something has changed since it was sent, otherwise when it is due.
func TestReadBackIsWrittenAgainIfStale(t *testing.T) {
	next := aPlan(2, 2, record.Owned, 1, 1)
	next.Rows[0].Rev = 1
	for name, c := range map[string]struct {
		change core.Event
		tells  func(m *record.Member) bool
	}{
		"nothing":  {core.Event{Kind: core.Tick}, nil},
		"state":    {core.Event{Kind: core.Leave}, func(m *record.Member) bool { return m.State == record.Leaving }},
		"plan":     {shows(next), func(m *record.Member) bool { return m.AckGen == 2 }},
		"given up": {core.Event{Kind: core.GivenUp, Token: q0}, func(m *record.Member) bool { return len(m.GaveUp) == 1 }},
	} {
		l := runs(t)
		l.waits(2 * time.Second)
		put := l.reply(core.Put, core.Event{Outcome: core.Unknown})
		l.takes(c.change)
		l.reply(core.Get, core.Event{Entries: []core.Entry{entry(put.Member, 77)}})
		if m := l.record(); c.tells == nil && m != nil || c.tells != nil && (m == nil || !c.tells(m)) {
			t.Errorf("%s changed: it writes %+v", name, m)
		}
		if c.tells == nil {
			l.waits(2 * time.Second)
			l.ask(l.record() != nil, "it does not beat any more")
		}
	}
}

// A heartbeat with unknown outcome is not in the store, but the one before it is:
// the next one is sent after a back-off.
func TestLostHeartbeatIsSentAgain(t *testing.T) {
	l := runs(t)
	l.waits(2 * time.Second)
	first := l.reply(core.Put, core.Event{Rev: 4})
	l.waits(2 * time.Second)
	second := l.reply(core.Put, core.Event{Outcome: core.Unknown})
	l.reply(core.Get, core.Event{Entries: []core.Entry{entry(first.Member, 4)}})
	l.waits(100*time.Millisecond - 1)
	l.ask(l.record() == nil, "it writes again at once")
	l.waits(1)
	l.ask(l.record() != nil && l.record().Seq > second.Member.Seq, "it does not write again")
}

// A session whose own record has gone back to an earlier version begins a new
// incarnation of the plan, and then writes LEFT over the record that it found.
func TestLeftAfterALoss(t *testing.T) {
	l := idle(t)
	l.waits(2 * time.Second)
	l.reply(core.Put, core.Event{Rev: 2})
	l.waits(2 * time.Second)
	l.reply(core.Put, core.Event{Outcome: core.Unknown})
	old := isMember(me, 1, record.Live)
	l.reply(core.Get, core.Event{Entries: []core.Entry{old}})
	l.ask(l.noted(core.NoteLost) && l.record() == nil, "it does not notice the loss")
	for range 3 {
		if c := l.answers(core.OK, aPlan(1, 2, record.Owned, 1, 0)); c.Verb == core.Put {
			break
		}
	}
	put := l.call(core.Put, me)
	l.ask(put.Member.State == record.Left && put.Prev == old.Rev, "it does not say LEFT over what it found")
}

// A deleted record is never written anew, not even to say LEFT.
func TestGoneIsTheEnd(t *testing.T) {
	l := idle(t)
	l.waits(2 * time.Second)
	l.reply(core.Put, core.Event{Outcome: core.Conflict})
	l.reply(core.Get, core.Event{Outcome: core.NotFound})
	l.waits(100 * time.Millisecond)
	l.reply(core.Get, core.Event{Outcome: core.NotFound})
	l.ask(l.record() == nil, "it writes its record anew")
	l.over(core.ByFence)
}

// A session that was evicted says LEFT once everything has stopped, over the
// eviction, whatever a watch has shown meanwhile; when that is written, the session
// is over.
func TestEvictedSaysLeft(t *testing.T) {
	l, e := evicted(t)
	l.takes(core.Event{Kind: core.Seen, Entries: []core.Entry{e}})
	l.takes(core.Event{Kind: core.Stopped, Token: q0})
	l.ask(l.record() != nil && l.record().State == record.Left, "it does not say LEFT")
	l.takes(core.Event{Kind: core.Gap})
	l.ask(!l.did(core.DoEnd), "it ends before that is written")
	if put := l.reply(core.Put, core.Event{Rev: 9}); put.Prev != e.Rev {
		t.Errorf("it writes over %d", put.Prev)
	}
	l.over(core.ByFence)
}

// One try to say LEFT is enough, since the group waits for the lease in any case;
// and the session waits no longer than a lease for the outcome.
func TestEvictedTriesOnce(t *testing.T) {
	l, _ := evicted(t)
	l.takes(core.Event{Kind: core.Stopped, Token: q0})
	l.reply(core.Put, core.Event{Outcome: core.Unknown})
	l.ask(len(l.acts) == 1 && l.did(core.DoEnd), "it should end, and nothing else")
	l.over(core.ByFence)

	l, _ = evicted(t)
	l.takes(core.Event{Kind: core.Stopped, Token: q0})
	l.waits(5*time.Second - 1)
	l.ask(!l.did(core.DoEnd), "it does not wait for the answer")
	l.waits(1)
	l.ask(l.did(core.DoEnd), "it waits for ever")
	l.over(core.ByFence)
}

// A session that is ending for another cause no longer cares about its own record:
// it says LEFT at once.
func TestLeftDoesNotWaitForARetry(t *testing.T) {
	l := idle(t)
	l.waits(2 * time.Second)
	l.reply(core.Put, core.Event{Outcome: core.Unknown})
	l.reply(core.Get, core.Event{Outcome: core.Unknown})
	next := aPlan(5, 2, record.Owned, 1, 0)
	next.Incarnation = 8
	l.takes(shows(next))
	l.ask(l.record() != nil && l.record().State == record.Left, "it does not say LEFT")
}

// A leaver that was evicted at the instant at which it said LEFT says it again,
// over the eviction.
func TestLeaverEvictedAtTheEnd(t *testing.T) {
	l := idle(t)
	l.takes(core.Event{Kind: core.Leave})
	leaving := l.reply(core.Put, core.Event{Rev: 2})
	l.takes(core.Event{Kind: core.Closed})
	l.reply(core.Put, core.Event{Outcome: core.Conflict})
	e := isMember(me, leaving.Member.Seq, record.Evicted)
	l.reply(core.Get, core.Event{Entries: []core.Entry{e}})
	put := l.call(core.Put, me)
	l.ask(put.Member.State == record.Left && put.Prev == e.Rev, "it does not say LEFT over the eviction")
}

// A leaver that becomes an orphan while it tries to say LEFT ends once.
func TestOrphanedLeaverEndsOnce(t *testing.T) {
	l := newLone(t, func(c *core.Config) { c.Orphan = 2 * time.Second })
	ends := 0
	for i := range 100 {
		switch i {
		case 50:
			l.takes(core.Event{Kind: core.Leave})
		case 51:
			l.takes(core.Event{Kind: core.Closed})
		}
		for j := range l.calls {
			if c := l.calls[j]; c.Key.Session == me {
				l.reply(c.Verb, core.Event{Outcome: core.Unknown})
				ends += l.ends()
				break
			}
		}
		l.waits(100 * time.Millisecond)
		ends += l.ends()
	}
	if ends != 1 {
		t.Errorf("it ends %d times", ends)
	}
	l.over(core.ByOrphan)
}

// A member with few heartbeats per lease is a suspect earlier: when B remains until
// it may be declared dead.
func TestSuspectBeforeItsLeaseEnds(t *testing.T) {
	const o = 2080 * time.Millisecond // W − B = 5.2 s − 3.12 s
	slow := func(seq uint64) *record.Member {
		m := member(3, "c3", seq)
		m.Beat = 2400 * time.Millisecond
		return m
	}
	for _, c := range []struct {
		silent time.Duration
		waits  bool
	}{{o, true}, {o - 1, false}} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
		d.lead(0, nil, member(2, "c2", 1), slow(1))
		d.show(false, member(2, "c2", 2), slow(2))
		d.after(time.Second)
		d.show(false, slow(3))
		d.after(c.silent)
		dead := member(2, "c2", 2)
		dead.State = record.Dead
		d.show(false, dead)
		if _, ok := d.call(core.Put, core.PlanCell, 0); ok == c.waits {
			t.Errorf("silent for %v: a plan at once: %v", c.silent, ok)
		}
	}
}

// The memory of a session does not grow with its age: it does not keep its
// heartbeats.
func TestHeartbeatsAreForgotten(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"})
	size := func() int { return len((&core.Ranks{}).Append(nil, l.n.Shape(l.now))) }
	l.advance(time.Minute)
	was := size()
	l.advance(20 * time.Minute)
	if is := size(); is > was+was/10 {
		t.Errorf("its state has grown from %d to %d bytes", was, is)
	}
}

// A roster that is found to be lost while the hold ends is read again: without a
// hold the loss concerns every session.
func TestRosterLostAsTheHoldEnds(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Hold: true}, nil)
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
	d.answer(core.Get, core.OrdersCell, 0, core.NotFound)
	d.answer(core.List, core.MemberCell, 0, core.OK)
	d.after(6 * time.Second)
	d.step(core.Event{Kind: core.Gap})
	d.answer(core.Get, core.RosterCell, 0, core.NotFound)
	if a := d.answer(core.Put, core.PlanCell, 0, core.OK); a.Plan.Hold {
		t.Fatal("the hold does not end")
	}
	d.after(beat)
	d.answer(core.Get, core.RosterCell, 0, core.NotFound)
	if !slices.Contains(d.notes, core.NoteLost) {
		t.Errorf("it does not notice the loss: %v", d.notes)
	}
}
