package core

import (
	"cmp"
	"slices"

	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// scratch is memory that drafts reuse; it holds no state between steps.
type scratch struct {
	live    []record.Session
	members []record.Session
	peers   []peerRef
	rows    []record.Row
	waits   []await
	open    []plan.Member
	parts   []plan.Partition
	targets []int32
	failing []int32 // members that have given something up lately, by index

	loads      []pack.Load
	capacities []float64
}

// peerRef is a newcomer's name and session, to be sorted by both.
type peerRef struct {
	name string
	who  record.Session
}

// draft makes the next version of the plan: it frees rows that have stopped,
// decides who should own what if a new plan is due, and grants free rows. It
// returns nil when nothing changes. All changes go into one compare-and-set.
func (n *Node) draft() *record.Plan {
	l, cur := &n.lead, n.plan
	if n.blockedByBug() || cur.Hold && (!n.heldLong() || !n.rosterKnown()) {
		return nil
	}
	if n.ownersAbsent() {
		// absence-is-not-death: see askForOwners.
		if !cur.Hold && !rule.AbsenceIsNotDeath.Off() {
			n.storeLost()
			return nil
		}
	}
	l.graces = slices.DeleteFunc(l.graces, func(g grace) bool { return n.reached(g.until) })
	l.loads.cools = slices.DeleteFunc(l.loads.cools, func(c cooling) bool { return n.now >= c.until })
	n.forgetFailures()
	d := draft{n: n, next: *cur, gen: cur.Gen + 1, worn: -1}
	l.scratch.rows = append(l.scratch.rows[:0], cur.Rows...)
	d.rows = l.scratch.rows
	if cur.Hold {
		d.endHold()
	}
	d.release()
	d.absolve()
	d.keepSize()
	if n.rosterKnown() {
		n.roster = n.roster.Full() // only a leader needs all entries
		if why, wanted := d.wanted(); !wanted {
			l.burst.close()
			if why := d.unbalanced(); why != 0 {
				d.replan(why)
			}
		} else if d.due() {
			d.replan(why)
		}
	}
	d.grant()
	if d.worn >= 0 {
		n.beginAnew(Action{Do: DoNote, Note: NoteWorn, ID: record.ID(d.worn), Name: n.NameOf(record.ID(d.worn))})
		return nil
	}
	if !d.changed {
		return nil
	}
	d.next.Gen, d.next.Decided = d.gen, d.gen
	d.next.Rows = slices.Clone(d.rows)
	l.scratch.rows = d.rows
	if d.planned {
		l.planAt = n.now
		l.burst.close()
	} else {
		l.tried = 0
	}
	return &d.next
}

// endHold lets grants flow again. Nobody runs anything now. The rows were granted
// by an earlier incarnation, and higher tokens of it may have been granted and
// lost, so every owner gets its row anew.
func (d *draft) endHold() {
	d.next.Hold, d.changed = false, true
	for i := range d.rows {
		// granted-anew-after-a-hold: When a hold ends, every row is granted anew.
		// Without it: The store forgets that q went from C2 to C1 under a higher token. C2
		// keeps q after the hold, under a token that is lower than one that was granted.
		if r := &d.rows[i]; r.State != record.Free && !rule.GrantedAnewAfterAHold.Off() {
			if r.State == record.Owned {
				r.To = r.Owner
			}
			d.free(r)
		}
	}
	d.n.do(Action{Do: DoNote, Note: NoteCleared})
}

// A draft is the next plan in the making.
type draft struct {
	n       *Node
	next    record.Plan
	rows    []record.Row
	gen     uint64
	changed bool
	planned bool
	lostPin bool    // a partition is pinned to an absent member
	packed  []int32 // the targets that unbalanced found to be better
	blamed  bool    // next.Kills is this draft's own
	worn    int     // a row whose tokens of this incarnation are used up; -1 if none
}

// heldLong tells whether this leader itself has waited until every lease has run
// out, those of lost records included.
func (n *Node) heldLong() bool {
	w := wait(n.cfg.Lease)
	for i := range n.peers {
		p := &n.peers[i]
		if p.rec == nil {
			continue
		}
		// hold-skips-the-proven-dead: A hold does not wait for the lease of a member that
		// is proven dead.
		// Without it: C2 has a lease of an hour, and an operator has declared that its
		// process is gone. The store loses the plan, and everybody waits for that hour.
		if !p.rec.Proof || rule.HoldSkipsTheProvenDead.Off() {
			w = max(w, wait(p.rec.Lease)) // lost records may have had leases as long as this one
		}
		if p.is(record.Live) && !p.heard && p.session != n.cfg.Session {
			return false // from a backup, and will expire; or alive, and will beat
		}
		if n.behindTimes(p) {
			return false // it may run partitions of another incarnation: see evict
		}
	}
	since := n.lead.since
	// hold-counts-from-the-claim: A hold counts from the claim of the leader that waits.
	// Without it: C2 has long tried to join when the store is emptied. It counts from its
	// birth, ends the hold at once and starts p, which C1 runs.
	if rule.HoldCountsFromTheClaim.Off() {
		since = n.born
	}
	return n.reached(since.Add(w))
}

// behindTimes tells whether the session may run partitions that a plan of another
// incarnation gave it. A session that can write but not read keeps its lease all
// through a hold.
func (n *Node) behindTimes(p *peer) bool {
	// hold-waits-for-the-deaf-leaver: A hold waits for every session of another
	// incarnation, also for one that is leaving.
	// Without it: C2 is leaving, can write and not read, and works on. The store lost the
	// plan. The hold ends without C2, and C3 starts q while C2 runs it.
	if rule.HoldWaitsForTheDeafLeaver.Off() && p.is(record.Leaving) {
		return false
	}
	// ack-of-this-incarnation: see acked.
	return p.rec != nil && !p.rec.State.Ended() && p.rec.AckInc != 0 && p.rec.AckInc != n.plan.Incarnation && !rule.AckOfThisIncarnation.Off()
}

// ownersAbsent tells whether the owner of a row has no record. Records that rows
// name are never deleted, so the store has lost it.
func (n *Node) ownersAbsent() bool {
	for i := range n.peers {
		p := &n.peers[i]
		if p.absent && slices.ContainsFunc(n.plan.Rows, func(r record.Row) bool { return r.Owner == p.session }) {
			return true
		}
	}
	return false
}

// free ends an ownership. The row keeps its token: the next grant must have a
// higher one, whichever leader makes it.
func (d *draft) free(r *record.Row) {
	r.State, r.Owner, r.Rev = record.Free, 0, d.gen
	// tokens-grow: A free row keeps its token, so that the next grant has a higher one.
	// Without it: q is C1's under token 1, then free, then C2's under token 1 again: no
	// sink can tell the two apart.
	if rule.TokensGrow.Off() {
		r.Token = record.MakeToken(d.next.Incarnation, 0)
	}
	d.changed = true
}

// release frees rows that nobody can be running any more, each by a fact that stays
// true: the owner confirmed this very revoke, gave the partition up, or has ended.
func (d *draft) release() {
	n := d.n
	for i := range d.rows {
		r, id := &d.rows[i], record.ID(i)
		if r.State == record.Free {
			continue
		}
		p := n.peer(r.Owner)
		if p == nil {
			continue
		}
		switch {
		// absence-is-not-death: see askForOwners.
		case p.absent && rule.AbsenceIsNotDeath.Off():
			d.free(r)
		case p.rec == nil:
		case r.State == record.Revoking:
			stopped := acked(n.plan, p.rec, r.Rev) && !has(p.rec.Stopping, id)
			// stop-ack: A revoked partition is free only when its owner has confirmed that
			// it stopped, or has ended.
			// Without it: C1 is told to stop q, and its handler still works. The leader
			// frees q at once and grants it to C2: both run q.
			if stopped || p.over() || rule.StopAck.Off() {
				d.blame(id, p)
				d.free(r)
			}
		case p.over() && n.reserved(p):
			d.blame(id, p)
			r.To, r.Reason = r.Owner, record.Returning
			d.free(r)
		case n.gaveUpRow(p.rec, id, r):
			n.graceFor(id, r.Owner)
			if n.noteFailure(id, r.Token, p.rec) {
				r.To, r.Reason = r.Owner, record.Failing
			} else {
				n.news() // when a broker is away, members give up many partitions
			}
			d.free(r)
		}
	}
}

// graceFor keeps the partition away from the member that gave it up, for cfg.Grace
// from now.
func (n *Node) graceFor(id record.ID, who record.Session) {
	l := &n.lead
	if !slices.ContainsFunc(l.graces, func(g grace) bool { return g.id == id && g.who == who }) {
		l.graces = append(l.graces, grace{id, who, n.now.Add(n.cfg.Grace)})
	}
}

// gaveUpRow tells whether m has given up this very grant and has stopped it.
func (n *Node) gaveUpRow(m *record.Member, id record.ID, r *record.Row) bool {
	return slices.ContainsFunc(m.GaveUp, func(g record.GaveUp) bool { return g.ID == id && g.Token == r.Token }) &&
		!has(m.Stopping, id)
}

// rosterKnown tells whether there is a roster to plan with. It should agree with
// source and orders; but a source that does not answer, or a roster that cannot be
// written, must not keep the partitions of dead members idle. So after a heartbeat
// the plan's own roster is good enough: its IDs have not changed their meaning.
func (n *Node) rosterKnown() bool {
	if n.roster == nil || n.roster.Ver < max(n.plan.Roster, n.lead.minRoster) {
		return false
	}
	// plans-without-a-listing: A plan waits for a newer roster no longer than a heartbeat.
	// Without it: C1 dies, and C2 leads. Its source does not list the partitions, and those
	// of C1 are idle until it does.
	return n.rosterRight() || n.reached(n.lead.rosterBy) && !rule.PlansWithoutAListing.Off()
}

// rosterRight tells whether there is a roster and it agrees with source and orders.
func (n *Node) rosterRight() bool {
	return n.roster != nil && !n.lead.rosterStale && !n.rosterCell.want
}

// wanted tells whether a new plan is needed, and why.
func (d *draft) wanted() (Why, bool) {
	n, cur := d.n, d.n.plan
	why, want := n.lead.burst.why|n.lead.tried, n.liveDiffers()
	if want && why == 0 {
		why = WhyLeft
	}
	if n.roster.Ver != cur.Roster {
		want, why = true, why|WhyRoster
	}
	if ordersVer(n.orders) != cur.Orders {
		want, why = true, why|WhyOrders
	}
	if !want && d.ownerless() {
		want, why = true, why|WhyOwnerless
	}
	return why, want
}

// liveDiffers tells whether the plan names other members than it should.
func (n *Node) liveDiffers() bool {
	live := 0
	for i := range n.peers {
		if p := &n.peers[i]; n.counts(p) || n.reserved(p) {
			if !p.planned {
				return true
			}
			live++
		}
	}
	return live != len(n.plan.Members)
}

// ownerless tells whether there is a free row that no grant will reach, although
// some member could take it.
func (d *draft) ownerless() bool {
	late := d.barred() && !d.revoking()
	var planned bool
	for i := range d.rows {
		if !d.stranded(record.ID(i), late) {
			continue
		}
		if !planned {
			d.targets(d.members())
			planned = true
		}
		if d.n.lead.scratch.targets[i] != plan.None {
			return true
		}
	}
	return false
}

// stranded tells whether no grant will reach a free row: it has no live target or,
// if late, it missed the barrier of an eager plan. A row whose reservation is over
// does not count here: liveDiffers notices that.
func (d *draft) stranded(id record.ID, late bool) bool {
	r := &d.rows[id]
	if r.State != record.Free {
		return false
	}
	switch r.Reason {
	case record.Unplaced:
		return true
	case record.NoReason:
		return !d.n.peer(r.To).is(record.Live) || late
	case record.Failing:
		return !d.n.backsOff(id) && (!d.n.peer(r.To).is(record.Live) || late)
	}
	return false
}

// due tells whether a wanted plan may be made now. An eager plan stops everybody,
// so the next one keeps a distance from it; as long as it has granted nothing, it
// can still be given other targets.
func (d *draft) due() bool {
	n := d.n
	// A leader that is leaving and alone waits for nobody's arrival. It counts as a member
	// until its record says so.
	// last-leader-frees-leavers: see last.
	if hurry := n.peer(n.cfg.Session).is(record.Leaving) && n.alone() && !n.last(); !hurry && !n.burstOver() {
		return false
	}
	// eager-distance: An eager plan keeps a distance of one lease from the one before.
	// Without it: Members arrive one after the other. Each arrival stops everybody again,
	// and hardly anything is consumed.
	if n.cfg.Mode != record.Eager || n.lead.planAt == Never || d.revoking() || rule.EagerDistance.Off() {
		return true
	}
	return n.reached(n.lead.planAt.Add(n.cfg.Lease))
}

// barred tells whether an eager plan must not grant anything yet, because something
// runs or may run. A plan made under a freeze stops no running partition, so it
// waits for none either.
func (d *draft) barred() bool {
	// eager-barrier: An eager plan grants nothing while anything still runs.
	// Without it: C2 joins, and everything is revoked. C1 has stopped p and still consumes
	// q; p is granted to C2 all the same.
	if d.next.Mode != record.Eager || rule.EagerBarrier.Off() {
		return false
	}
	frozen := d.n.frozen() && d.next.Orders == ordersVer(d.n.orders) // a freeze that the plan does not know yet lets nothing pass
	return slices.ContainsFunc(d.rows, func(r record.Row) bool {
		return r.State == record.Revoking || r.State == record.Owned && !frozen
	})
}

func (d *draft) revoking() bool {
	return slices.ContainsFunc(d.rows, func(r record.Row) bool { return r.State == record.Revoking })
}

// members returns the members of the next plan in line: those that stay, in their
// order, with an heir in the place of the ended session of its name; then newcomers
// by name. It notes the index of each in its peer.
func (d *draft) members() []record.Session {
	n, sc := d.n, &d.n.lead.scratch
	out := sc.members[:0]
	sc.peers = sc.peers[:0]
	for i := range n.peers {
		n.peers[i].line = plan.None
	}
	for _, s := range n.plan.Members {
		p := n.peer(s)
		if p == nil {
			continue
		}
		if h := n.heir(p); h != nil && h.line == plan.None {
			h.line = int32(len(out))
			p.line = h.line
			out = append(out, h.session)
		} else if n.counts(p) || n.reserved(p) {
			p.line = int32(len(out))
			out = append(out, s)
		}
	}
	for i := range n.peers {
		if p := &n.peers[i]; n.counts(p) && p.line == plan.None {
			sc.peers = append(sc.peers, peerRef{p.rec.Name, p.session})
		}
	}
	slices.SortFunc(sc.peers, func(a, b peerRef) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.who, b.who))
	})
	for _, r := range sc.peers {
		n.peer(r.who).line = int32(len(out))
		out = append(out, r.who)
	}
	sc.members = out
	return out
}

// replan decides who should own what, and revokes rows that have to move.
func (d *draft) replan(why Why) {
	n, next := d.n, &d.next
	retarget := n.cfg.Mode == record.Eager && n.plan.Mode == record.Eager && d.revoking()
	for len(d.rows) < n.roster.Len() {
		d.rows = append(d.rows, record.Row{Rev: d.gen})
	}
	for i := range d.rows {
		r := &d.rows[i]
		if r.State == record.Free {
			continue
		}
		// a-name-proves-nothing: see heir.
		// evicted-heir-waits: The heir of an evicted member waits for that member's lease
		// like anybody else.
		// Without it: C2 hangs on p and is evicted. A process of its name has just come, so
		// p is freed at once, and C1 starts it while C2 runs it.
		if p := n.peer(r.Owner); p != nil && (p.over() || n.heir(p) != nil && (rule.ANameProvesNothing.Off() || rule.EvictedHeirWaits.Off() && p.is(record.Evicted))) {
			if r.State == record.Owned {
				r.To = r.Owner // the former owner, until the targets are known
			}
			d.blame(record.ID(i), p)
			d.free(r)
		}
	}
	members := d.members()
	targets := d.packed
	if targets == nil {
		targets = d.targets(members)
	}
	d.countReturns(members)
	next.Members = slices.Clone(members)
	next.Mode = n.cfg.Mode
	if n.server != "" {
		next.Server = n.server
	}
	next.Roster, next.Orders = n.roster.Ver, ordersVer(n.orders)
	if !retarget {
		next.ID++
	}
	n.lead.tried = why
	moved, placed := d.aim(members, targets)
	if d.lostPin {
		n.do(Action{Do: DoNote, Note: NotePin})
	}
	d.changed, d.planned = true, true
	n.do(Action{Do: DoNote, Note: NotePlan, Moved: moved, Placed: placed, Why: why})
}

// aim gives every row its target and revokes rows that have to move. An eager plan
// revokes all rows if any moves or can be granted.
func (d *draft) aim(members []record.Session, targets []int32) (moved, placed int) {
	n := d.n
	all := false
	for i := range d.rows {
		r := &d.rows[i]
		t := d.target(members, targets[i])
		grants := r.State != record.Owned && d.reason(i, t) == record.NoReason
		all = all || grants || r.State == record.Owned && t != r.Owner
	}
	all = all && n.cfg.Mode == record.Eager && !n.frozen()
	for i := range d.rows {
		r := &d.rows[i]
		t := d.target(members, targets[i])
		reason := d.reason(i, t)
		if reason == record.Paused {
			t = d.home(r, members)
		}
		switch r.State {
		case record.Owned:
			if t == r.Owner && !all && reason == record.NoReason {
				continue
			}
			if t != r.Owner {
				moved++
				n.cool(record.ID(i))
			}
			r.State, r.Rev = record.Revoking, d.gen
		case record.Revoking:
			// revoke-is-final: A revoke is never taken back.
			// Without it: q is revoked, and C1 has stopped it. Then the plan gives q back
			// to C1 under the same token: one grant is started twice.
			if rule.RevokeIsFinal.Off() && t == r.Owner {
				r.State, r.Rev = record.Owned, d.gen
				t = 0
			}
		}
		if r.State == record.Free && reason == record.NoReason {
			placed++
		}
		if reason == record.Quarantined && r.Reason != reason {
			n.do(Action{Do: DoNote, Note: NoteQuarantined, ID: record.ID(i), Name: n.NameOf(record.ID(i)), Deaths: int(d.deaths(record.ID(i)))})
		}
		r.To, r.Reason = t, reason
	}
	return moved, placed
}

// home returns the member that a paused row comes from and would go back to.
func (d *draft) home(r *record.Row, members []record.Session) record.Session {
	at := r.Owner
	if r.To != 0 {
		at = r.To
	}
	return d.target(members, d.index(at))
}

func (d *draft) target(members []record.Session, i int32) record.Session {
	if i == plan.None {
		return 0
	}
	return members[i]
}

// reason tells why a row with target t is or will be free; NoReason if it can be
// granted.
func (d *draft) reason(i int, t record.Session) record.Reason {
	n := d.n
	if i >= n.roster.Len() {
		return record.Removed // the roster that named it is lost
	}
	e := n.roster.At(record.ID(i))
	switch {
	case e.Removed:
		return record.Removed
	case n.paused(e.Name):
		return record.Paused
	case d.quarantined(record.ID(i)):
		return record.Quarantined
	case t == 0:
		return record.Unplaced
	case !n.peer(t).is(record.Live):
		return record.Returning
	case n.backsOff(record.ID(i)):
		return record.Failing
	}
	return record.NoReason
}

// grant grants free rows to their live targets; an eager plan does so only after
// everything has stopped. While a hold lasts, nothing is drafted at all.
func (d *draft) grant() {
	if d.barred() {
		return
	}
	for i := range d.rows {
		r := &d.rows[i]
		ready := r.Reason == record.NoReason || r.Reason == record.Failing && !d.n.backsOff(record.ID(i))
		if r.State != record.Free || !ready || !d.n.peer(r.To).is(record.Live) {
			continue
		}
		count := r.Token.Counter() + 1
		// used-up-tokens-begin-anew: When the tokens of an incarnation are used up, a new
		// incarnation begins.
		// Without it: q has been granted four billion times. Its next token would be 1,
		// which is lower than what every sink has seen.
		if count == 0 && r.Token.Incarnation() == d.next.Incarnation && !rule.UsedUpTokensBeginAnew.Off() {
			d.worn = i
			return
		}
		next := record.MakeToken(d.next.Incarnation, max(count, 1)) // in a new incarnation any counter is higher
		assert(next > r.Token || rule.UsedUpTokensBeginAnew.Off(), "a token does not grow")
		*r = record.Row{State: record.Owned, Owner: r.To, Token: next, Rev: d.gen}
		d.changed = true
	}
}
