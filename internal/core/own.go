package core

import (
	"slices"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// own is a session's knowledge of its own record. At most one call on it is in
// flight.
type own struct {
	state   record.MemberState // the state that the next write tells
	rev     Rev                // of the version that the next write replaces; 0 if there is none
	seq     uint64             // newest sequence number used
	known   uint64             // highest sequence number confirmed; 0 before the first
	sent    []beat             // heartbeats that may be in the store, oldest first
	lease   Time               // its end: ownerships are trusted until then
	flight  Verb
	put     *record.Member // the newest record sent
	reread  bool           // outcome unknown, or record in doubt: read before writing
	dirty   bool           // the record is stale: write it before the next heartbeat is due
	missing bool           // the record was not found once already
	mute    bool           // the last call was not answered
	due     Time           // next heartbeat
	wait    Time           // back-off after a failed call
}

// A beat is one heartbeat. Its instant is noted before it is sent: the store cannot
// have had it earlier, so no observer counts from an earlier instant.
type beat struct {
	seq uint64
	at  Time
}

// forgetSends makes sure that no heartbeat sent so far extends the lease.
func (o *own) forgetSends() {
	for i := range o.sent {
		o.sent[i].at = longAgo
	}
}

// longAgo is so early that every lease that counts from it is over.
const longAgo Time = -1 << 62

// beat writes the own record when it is due or stale, and reads it when it is in
// doubt.
func (n *Node) beat() {
	o := &n.own
	if n.ended || o.flight != NoVerb {
		return
	}
	over := o.state == record.Left
	if n.cause != NotEnded && (!over || n.bump) {
		return // no write before everything has stopped and a new incarnation, if due, is written
	}
	if !o.dirty && !o.reread && (over || !n.reached(o.due)) || !n.reached(o.wait) {
		return
	}
	if o.reread {
		o.flight = Get
		n.do(Action{Do: DoCall, Verb: Get, Key: n.myKey()})
		return
	}
	o.seq++
	o.sent = append(o.sent, beat{o.seq, n.now})
	o.flight, o.dirty, o.due = Put, false, n.now.Add(n.cfg.Heartbeat)
	o.put = n.compose()
	// beat-is-compare-and-set: A heartbeat is written only over the last version of its
	// sender.
	// Without it: C1's heartbeat is in flight for longer than its lease. C2 declares C1
	// dead and is granted q. The heartbeat arrives and overwrites DEAD: C1 finds itself
	// alive and runs q, too.
	n.do(Action{Do: DoCall, Verb: Put, Key: n.myKey(), Prev: o.rev, Member: o.put})
}

func (n *Node) myKey() Key { return Key{MemberCell, n.cfg.Session} }

// mostCauses is how many of the partitions given up are reported with their cause.
// When its broker is down, a member gives up all its partitions: with a text for
// each, the record would not fit, and a heartbeat that cannot be written costs the
// lease.
const mostCauses = 100

// compose makes the record that describes the present state.
func (n *Node) compose() *record.Member {
	m := &record.Member{}
	if n.cfg.Self != nil {
		*m = *n.cfg.Self
	}
	m.Session, m.Name = n.cfg.Session, n.cfg.Name
	m.Lease, m.Beat = n.cfg.Lease, n.cfg.Heartbeat
	m.State, m.Seq, m.Returning, m.Continues = n.own.state, n.own.seq, n.returning, n.cfg.Continue
	m.AckInc, m.AckGen = n.ackInc, n.ackGen
	m.GaveUp = slices.Clone(n.gaveUp)
	for i := mostCauses; i < len(m.GaveUp); i++ {
		m.GaveUp[i].Cause = ""
	}
	for i := range n.runs {
		switch r := &n.runs[i]; r.phase {
		case starting:
			m.Starting = append(m.Starting, r.id)
		case stopping:
			// ack-after-stop: A stop is acknowledged only after the handler has returned.
			// Without it: C1 sees that q is revoked, and acknowledges the plan while its
			// handler still works. The leader takes q for stopped and grants it to C2: both
			// run it.
			if !rule.AckAfterStop.Off() {
				m.Stopping = append(m.Stopping, r.id)
			}
		}
	}
	return m
}

// tookPut takes the answer to a write of the own record.
func (n *Node) tookPut(ev *Event) {
	o := &n.own
	o.flight, o.mute = NoVerb, ev.Outcome == Unknown
	if ev.Outcome != OK {
		// The write may be in the store all the same, or another member has declared
		// this one dead: read it back.
		o.reread, o.dirty = true, true
		return
	}
	o.rev = ev.Rev
	n.confirmed(o.sent[len(o.sent)-1], o.put, ev.Rev)
	if o.put.State == record.Left {
		n.leftFor(ByLeave)
	}
}

// confirmed takes a heartbeat that is known to be in the store.
func (n *Node) confirmed(b beat, m *record.Member, rev Rev) {
	if n.own.known == 0 {
		n.do(Action{Do: DoNote, Note: NoteJoined})
		n.readPlanSoon()
	}
	n.credit(b)
	n.sawPeer(m, rev, false)
}

// credit extends the lease by a heartbeat known to be in the store. The lease
// counts from the sending, never from the answer: the store may have had the
// heartbeat for that long.
func (n *Node) credit(b beat) {
	o := &n.own
	o.known = max(o.known, b.seq)
	i := 0
	for i < len(o.sent) && o.sent[i].seq < b.seq {
		i++
	}
	o.sent = append(o.sent[:0], o.sent[i:]...)
	from := b.at
	// lease-from-sending: A lease counts from the instant before its heartbeat was sent,
	// never from the answer.
	// Without it: The answer to C1's heartbeat takes a second, and C1 counts from then. C2
	// counts from when it saw the heartbeat, declares C1 dead and is granted q. C1 has a
	// second of lease left and runs q.
	if rule.LeaseFromSending.Off() {
		from = n.now
	}
	o.lease = max(o.lease, from.Add(n.cfg.Lease))
}

// tookGet takes the answer to a read of the own record.
func (n *Node) tookGet(ev *Event) {
	o := &n.own
	o.flight, o.mute = NoVerb, ev.Outcome == Unknown
	switch ev.Outcome {
	case OK:
		o.reread, o.missing = false, false
		n.readBack(&ev.Entries[0])
	case NotFound:
		n.recordGone()
	default:
		o.wait = n.now.Add(n.cfg.Retry)
	}
}

// readBack takes the own record as it was read. The session goes on only if that
// record is alive and one that this session sent; the lease then counts from the
// sending of that one. A number lower than one that was confirmed means that the
// store lost a write. Any other record means that somebody else ended this session.
func (n *Node) readBack(e *Entry) {
	o, m := &n.own, e.Member
	// incarnation-after-loss: see storeLost.
	if m.Seq < o.known && !rule.IncarnationAfterLoss.Off() {
		o.rev = e.Rev
		n.storeLost()
		return
	}
	i := slices.IndexFunc(o.sent, func(b beat) bool { return b.seq == m.Seq })
	alive := m.State == record.Live || m.State == record.Leaving
	switch {
	case m.State == record.Left && i >= 0:
		n.leftFor(ByLeave)
	case m.State == record.Evicted:
		o.rev = e.Rev // so that LEFT can be written over the eviction once everything has stopped
		n.end(ByFence)
	// continue-ends-with-the-record: A member that works on without a lease ends when it
	// reads that its session has ended.
	// Without it: C2 is cut off and works on. C1 declares it dead and is granted q. C2
	// reaches the store again, reads that it is dead, and works on.
	case (!alive || i < 0) && n.worksOn && rule.ContinueEndsWithTheRecord.Off():
		o.wait = n.now.Add(n.cfg.Heartbeat)
		o.reread = true
	case !alive || i < 0:
		o.rev = 0
		n.end(ByFence)
	default:
		found, newest := o.sent[i], o.sent[len(o.sent)-1]
		// credit-what-was-found: A lease that is read back counts from the sending of the
		// heartbeat that was found.
		// Without it: C1's newest heartbeat is lost, and C1 reads back the one before. It
		// counts from the newest, everybody else from the one in the store. C2 declares C1
		// dead and is granted q, and C1 has lease left.
		if rule.CreditWhatWasFound.Off() {
			found = newest
		}
		o.rev = e.Rev
		n.confirmed(found, m, e.Rev)
		o.dirty = m.Seq != newest.seq || n.stale(m)
		if m.Seq != newest.seq { // the newest heartbeat failed: back-off
			o.wait = n.now.Add(n.cfg.Retry)
		}
	}
}

// stale tells whether record m differs from the present state. The incarnation is
// not compared: a session acknowledges it with its first plan and keeps it.
func (n *Node) stale(m *record.Member) bool {
	c := n.compose()
	return c.State != m.State || c.AckGen != m.AckGen ||
		!slices.Equal(c.Stopping, m.Stopping) || !slices.Equal(c.Starting, m.Starting) ||
		!slices.Equal(c.GaveUp, m.GaveUp)
}

// recordGone handles a read that found no record. A record that was there and is
// not found twice has been deleted. It is never written anew: others may have drawn
// conclusions from its end. A first record that was never confirmed is written
// again.
func (n *Node) recordGone() {
	o := &n.own
	// deleted-stays-deleted: A session whose record was deleted ends, and never writes the
	// record anew.
	// Without it: C2's record is deleted, and others conclude that C2 has ended. C2 writes
	// it anew and goes on.
	if o.known == 0 || rule.DeletedStaysDeleted.Off() {
		o.reread, o.rev = false, 0
		o.dirty = true
		o.wait = n.now.Add(n.cfg.Retry)
		return
	}
	if o.missing {
		o.rev = 0
		n.end(ByFence)
		return
	}
	o.missing = true
	o.wait = n.now.Add(n.cfg.Retry)
}

// keepLease stops everything before the lease ends, resumes when the lease is back,
// and ends the session when it does not come back.
func (n *Node) keepLease() {
	// self-stop: A member whose lease is not renewed stops everything before the lease
	// ends.
	// Without it: C1's requests are lost from now on, and C1 runs q all the same. After W
	// C2 declares C1 dead and starts q: both run it.
	if rule.SelfStop.Off() {
		return
	}
	lease := n.own.lease
	if n.reached(lease.Add(-n.cfg.Margin)) && !n.lapsed && n.own.known > 0 {
		n.lapsed, n.worksOn = true, n.mayWorkOn()
		if n.worksOn {
			n.do(Action{Do: DoNote, Note: NoteWorksOn})
		} else {
			n.cancelAll()
		}
	}
	if len(n.runs) > 0 && n.reached(lease) && !n.worksOn {
		n.abort()
	}
	if n.lapsed && !n.reached(lease.Add(-n.cfg.Margin)) && (len(n.runs) == 0 || n.worksOn) && n.cause == NotEnded {
		n.lapsed, n.worksOn, n.back = false, false, n.now
		// resume-reads-first: A member whose lease is back reads the plan before it starts
		// anything.
		// Without it: C2 has no lease for a while, and q is revoked meanwhile. Its lease is
		// back, and C2 starts q only to stop it again.
		if !rule.ResumeReadsFirst.Off() {
			n.recheck = true
			n.readPlanSoon()
		}
		n.do(Action{Do: DoNote, Note: NoteResumed})
	}
	// orphan-ends-itself: A member that has had no lease for the orphan time ends its
	// session.
	// Without it: C5 is cut off for good. It runs nothing and hopes for ever, and its
	// supervisor never learns that it is of no use.
	if n.cause == NotEnded && !rule.OrphanEndsItself.Off() && !(n.worksOn && len(n.runs) > 0) {
		from := lease
		if n.own.known == 0 {
			from = n.born.Add(n.cfg.Lease) // it never had a lease: allow one more for the first
		}
		if n.reached(from.Add(n.cfg.Orphan)) {
			n.end(ByOrphan)
		}
	}
}

// mayWorkOn tells whether the runs go on although the lease is over.
func (n *Node) mayWorkOn() bool {
	// continue-needs-silence: A member works on without a lease only if the store did not
	// answer its last call.
	// Without it: C2 is told to continue without a store. Its process is frozen for longer
	// than the lease, and q goes to C1. C2 wakes up and works on, although the store would
	// have told it.
	return n.cfg.Continue && n.cause == NotEnded && n.own.state == record.Live && (n.own.mute || rule.ContinueNeedsSilence.Off())
}

// abort is the last resort against handlers that outlive the lease or the stop
// time. An abort may return, because the handler has ended after all; it is repeated
// as long as any handler overstays.
func (n *Node) abort() {
	var late []record.ID
	for i := range n.runs {
		if r := &n.runs[i]; r.cancelled && !n.excused(r) {
			late = append(late, r.id)
		}
	}
	if len(late) > 0 && n.reached(n.abortAt) {
		n.abortAt = n.now.Add(n.cfg.Margin)
		// abort-again: An abort that has returned is repeated as long as anything
		// overstays.
		// Without it: C2's abort ends one handler and returns. Another one overstays the
		// lease, and nothing ends it.
		if rule.AbortAgain.Off() {
			n.abortAt = Never
		}
		n.do(Action{Do: DoAbort, Late: late})
	}
}

// excused tells whether a run that was cancelled is not late yet, although the lease
// is over: its function asks for the lease before it acts. It has a moment to ask and,
// once it was refused, the time that stopping may take. This matters only after the
// process was stopped for longer than the lease; otherwise a run is cancelled that
// much earlier.
func (n *Node) excused(r *run) bool {
	// looking-earns-time: A function that looked at its lease before it acted, and was
	// refused, has the time that stopping may take.
	// Without it: C2's process is frozen for longer than the lease. Its function wakes
	// up, asks, is refused and would return at once, but the process is ended before.
	if !r.looks || rule.LookingEarnsTime.Off() {
		return false
	}
	if r.denied {
		return !n.reached(r.ended.Add(n.cfg.Margin))
	}
	return !n.reached(r.ended.Add(n.cfg.Margin / 5))
}
