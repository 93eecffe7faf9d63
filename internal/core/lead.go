package core

import (
	"cmp"
	"slices"

	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// lead is the state that only a leader needs, apart from burst, which a deputy
// keeps as well. All of it but burst starts from nothing with each leader.
type lead struct {
	burst burst

	taking    bool // it has claimed, and reads everything again before its first plan
	ready     bool
	since     Time // when the claim was confirmed
	gotRoster bool
	gotOrders bool
	gotList   bool

	minRoster   uint64 // version of a lost roster: the next one's is higher
	rosterStale bool   // roster, orders or listing changed: derive it again
	rosterBy    Time   // until when plans wait for a roster that is wrong now; Never if it is right
	listing     []record.Partition
	listed      bool // the source has answered
	complete    bool // the listing comes from the broker: a partition it lacks may be gone
	missed      []miss
	asking      bool
	ask         Time

	tried    Why  // reasons of the plan in flight, kept in case that write fails
	planAt   Time // when the last plan was made: eager ones keep a distance
	waits    []await
	graces   []grace
	failures []failure // by ID
	trials   []trial   // by ID
	bugSeen  bool      // the last leader ended on a bug over this very plan, with bugLive and bugVer
	bugLive  []record.Session
	bugVer   uint64

	loads loads
	size  size

	planner plan.Planner
	packer  *pack.Packer // made when it is needed
	scratch scratch
}

// A miss counts listings in a row that lacked a partition.
type miss struct {
	id record.ID
	n  int
}

// A grace keeps a partition away from the member that gave it up.
type grace struct {
	id    record.ID
	who   record.Session
	until Time
}

func newLead() lead {
	return lead{loads: loads{look: Never, said: Packed{At: Never}}, size: newSize(Never), since: Never, ask: 0, planAt: Never, rosterBy: Never, burst: burst{since: Never, asked: Never}}
}

// resign resets everything but burst, which a deputy keeps as well, and reusable
// memory.
func (l *lead) resign() {
	s, p, k, sc := l.burst, l.planner, l.packer, l.scratch
	*l = newLead()
	l.burst, l.planner, l.packer, l.scratch = s, p, k, sc
}

// takeOver begins a leadership. This node may not know all that the former leader
// knew, so it reads everything again before the first plan: a list begun after the
// claim shows every record that was written before the claim.
func (n *Node) takeOver() {
	l := &n.lead
	l.taking, l.since = true, n.now
	l.rosterStale = true
	l.size = newSize(n.now)
	for _, c := range [...]*cell{&n.rosterCell, &n.ordersCell, &n.list} {
		c.ask()
		c.wait = n.now
	}
	n.do(Action{Do: DoNote, Note: NoteLead})
}

// tookMembers takes a listing of all member records.
func (n *Node) tookMembers(ev *Event) {
	c := &n.list
	c.flight = NoVerb
	if ev.Outcome != OK {
		c.again = false
		c.wait = n.now.Add(n.cfg.Retry)
		return
	}
	fresh := c.got()
	n.all = n.watch.All
	for i := range ev.Entries {
		e := &ev.Entries[i]
		if e.Session != n.cfg.Session {
			n.sawPeer(e.Member, e.Rev, false)
		}
	}
	n.forget(ev.Entries)
	if !n.lead.taking || !fresh {
		return
	}
	n.lead.gotList = true
	n.askForOwners()
}

// forget drops ended peers whose records are not listed any more: a watch may have
// missed their deletion. A peer with a call in flight stays: if it were added again
// and read again, the old answer would be taken for the new one.
func (n *Node) forget(listed []Entry) {
	n.peers = slices.DeleteFunc(n.peers, func(p peer) bool {
		return p.over() && p.flight == NoVerb && !n.named(p.session) &&
			!slices.ContainsFunc(listed, func(e Entry) bool { return e.Session == p.session })
	})
}

// askForOwners reads by name the records of owners that are not in sight. Absence
// from a listing frees nothing.
func (n *Node) askForOwners() {
	for i := range n.plan.Rows {
		if o := n.plan.Rows[i].Owner; o != 0 && n.peer(o) == nil {
			p := n.addPeer(o)
			// absence-is-not-death: A record that a listing lacks frees nothing: its owner
			// is asked for by name.
			// Without it: A new leader's listing lacks C2, which lives and runs q. The
			// leader frees q and grants it to C3: both run it.
			p.reread = !rule.AbsenceIsNotDeath.Off()
			p.absent = rule.AbsenceIsNotDeath.Off()
		}
	}
}

// leading tells whether this node may change the plan now.
func (n *Node) leading() bool {
	if !n.Leads() || n.cause != NotEnded {
		return false
	}
	l := &n.lead
	if l.taking && l.gotRoster && l.gotOrders && l.gotList && !n.asksOwners() {
		l.taking, l.ready = false, true
		n.checkBug()
	}
	// leaving-leader-leads-on: A leader that is leaving leads until what its plan moves has
	// moved.
	// Without it: C1 leads and leaves together with C2 and C3, the next in line. C4 knows
	// nothing of that and waits for its turn. Then it reads everything, and only then are
	// the partitions of the three planned for.
	return l.ready && (n.own.state == record.Live || n.own.state == record.Leaving && (n.alone() || !rule.LeavingLeaderLeadsOn.Off()))
}

// asksOwners tells whether the record of some row's owner has not been read yet.
func (n *Node) asksOwners() bool {
	for i := range n.plan.Rows {
		o := n.plan.Rows[i].Owner
		if o == 0 {
			continue
		}
		if p := n.peer(o); p == nil || p.rec == nil && !p.absent {
			return true
		}
	}
	return false
}

// leadGroup does all that a leader does, and takes notice of changes as a deputy
// does.
func (n *Node) leadGroup() {
	n.notice()
	if !n.leading() {
		return
	}
	n.expire()
	n.askSource()
	n.keepRoster()
	n.keepWaits()
	n.measure()
	n.evict()
	n.collect()
	// failing-leader-ends: A leader whose plans cannot be written for W ends its session.
	// Without it: C1 leads and beats, and each of its plans is refused. Nobody succeeds a
	// leader that beats, and nothing is planned any more.
	if n.reached(n.cell.fails.Add(wait(n.cfg.Lease))) && !rule.FailingLeaderEnds.Off() {
		n.end(ByFailure) // its heartbeats succeed, so nobody else will end it
		return
	}
	if n.cell.flight != NoVerb || n.cell.doubt || !n.reached(n.cell.after) {
		return // act only on a plan known to be in the store
	}
	if next := n.draft(); next != nil {
		n.putPlan(next, n.cell.rev)
		return
	}
	n.askScaler()
}

// expire declares members dead that have been silent for W.
func (n *Node) expire() {
	for i := range n.peers {
		p := &n.peers[i]
		if p.session != n.cfg.Session && p.flight == NoVerb && !p.reread && n.expired(p) {
			n.declare(p, record.Dead)
		}
	}
}

// checkBug finds out whether a former leader ended on a bug over the plan as it is
// now. The same decision again would end the members one by one, so this leader
// waits until members or orders change.
func (n *Node) checkBug() {
	l := &n.lead
	i := slices.IndexFunc(n.peers, func(p peer) bool { return p.is(record.Left) && p.rec.Bug == n.plan.Decided })
	// bug-does-not-spread: A plan over which a leader ended by a bug is not made again
	// until something changes.
	// Without it: C1 ends by a bug over a plan. C2 leads, makes the same plan and ends by
	// the same bug; so does C3.
	if i < 0 || rule.BugDoesNotSpread.Off() {
		return
	}
	l.bugSeen, l.bugVer = true, ordersVer(n.orders)
	l.bugLive = n.live(nil)
	n.do(Action{Do: DoNote, Note: NoteBug, Who: n.peers[i].session})
}

// blockedByBug tells whether a former leader broke on this very plan, and neither
// members nor orders have changed since: nothing is planned then.
func (n *Node) blockedByBug() bool {
	l := &n.lead
	if l.bugSeen && (ordersVer(n.orders) != l.bugVer || !slices.Equal(n.live(l.scratch.live[:0]), l.bugLive)) {
		l.bugSeen = false
	}
	return l.bugSeen
}

// live appends the sessions that a plan should name, sorted: live ones that are not
// held back, and ended ones whose rows are reserved.
func (n *Node) live(dst []record.Session) []record.Session {
	for i := range n.peers {
		if p := &n.peers[i]; n.counts(p) || n.reserved(p) {
			dst = append(dst, p.session)
		}
	}
	return dst
}

// counts tells whether p is live and not held back for its name or its lease.
func (n *Node) counts(p *peer) bool {
	return p.is(record.Live) && (p.planned || p.noticed == noticedLive)
}

// reserved tells whether the rows of p, which is ending or has ended, are kept for
// its name. After three returns in a row without running long, a name gets no
// reservation.
func (n *Node) reserved(p *peer) bool {
	// return: The partitions of a member that may return are kept for its name for a while.
	// Without it: C2 is restarted. Its partitions move to C1 and, seconds later, back: two
	// moves for nothing.
	if n.cfg.Return <= 0 || !p.planned || p.rec == nil || rule.Return.Off() {
		return false
	}
	m := p.rec
	switch {
	case m.State == record.Leaving && m.Returning:
		return true
	case m.State == record.Dead, m.State == record.Left && m.Returning:
	default:
		return false
	}
	if n.heir(p) != nil || n.returns(m.Name) >= 3 {
		return false
	}
	return !n.reached(p.ended.Add(n.cfg.Return))
}

func (n *Node) returns(name string) uint32 {
	i, ok := slices.BinarySearchFunc(n.plan.Returns, name, func(r record.Return, s string) int { return cmp.Compare(r.Name, s) })
	if !ok {
		return 0
	}
	return n.plan.Returns[i].Count
}

// heir returns the live session of p's name that is not in the plan yet, where p is
// in the plan and no longer live; otherwise nil.
func (n *Node) heir(p *peer) *peer {
	// a-name-proves-nothing: A session takes over nothing from another of its name before
	// that one has ended.
	// Without it: A is frozen, and a second process starts under its name. It is granted q
	// as if it were the first. The first wakes up: both run q.
	if p.rec == nil || p.is(record.Live) && !rule.ANameProvesNothing.Off() {
		return nil
	}
	for i := range n.peers {
		q := &n.peers[i]
		if !q.planned && q.is(record.Live) && q.rec.Name == p.rec.Name && q.noticed == noticedLive {
			return q
		}
	}
	return nil
}

// evict gives up on members that do not stop a revoked partition in time and, in a
// hold, on those that beat and know only another incarnation. Evicted is not
// stopped: W still has to pass before their rows are free.
func (n *Node) evict() {
	// evict-after-stop-time: A member that does not stop a revoked partition in time is
	// evicted.
	// Without it: C2 beats, and its handler hangs on q, which is revoked. Nobody gets q
	// until C2 ends by itself.
	if rule.EvictAfterStopTime.Off() {
		return
	}
	if n.plan.Hold && n.reached(n.lead.since.Add(wait(n.cfg.Lease))) {
		for i := range n.peers {
			p := &n.peers[i]
			if n.behindTimes(p) && p.heard && n.now.Sub(p.at) < overdue(p.rec) && !p.is(record.Evicted) && p.flight == NoVerb && !p.reread {
				n.declare(p, record.Evicted) // its next heartbeat conflicts, so its lease runs out
			}
		}
	}
	for i := range n.lead.waits {
		w := &n.lead.waits[i]
		r := &n.plan.Rows[w.id]
		if r.State != record.Revoking || r.Owner == n.cfg.Session {
			continue
		}
		p := n.peer(r.Owner)
		if p.flight != NoVerb || p.reread || !p.is(record.Live) && !p.is(record.Leaving) {
			continue
		}
		if n.reached(w.since.Add(n.cfg.StopTime + 2*p.rec.Beat)) {
			n.declare(p, record.Evicted)
		}
	}
}

// collect deletes the records of sessions that ended long ago and that the plan no
// longer names.
func (n *Node) collect() {
	// old-records-are-deleted: The record of an ended session is deleted when nothing names
	// it any more.
	// Without it: Members come and go for a year, and every new leader reads the records of
	// all of them.
	if rule.OldRecordsAreDeleted.Off() {
		return
	}
	for i := range n.peers {
		p := &n.peers[i]
		if p.rec == nil || !p.rec.State.Ended() || p.flight != NoVerb || p.session == n.cfg.Session {
			continue
		}
		if n.reached(p.ended.Add(n.cfg.Keep)) && n.reached(p.wait) && !n.named(p.session) {
			p.flight = Delete
			n.do(Action{Do: DoCall, Verb: Delete, Key: Key{MemberCell, p.session}, Prev: p.rev})
		}
	}
}
