package core

import (
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// burst is the part of leading that turns many changes into one plan without a
// fixed delay: an arrival is followed by a short quiet time; at a death the members
// that are overdue are noted once, and the plan waits for just those.
type burst struct {
	quiet    Time // no plan before this instant
	since    Time // the first change that no plan has answered yet; Never if none
	open     bool // the suspects of a death have been noted, and no plan has followed yet
	at       Time // when they were noted
	suspects []record.Session
	why      Why // reasons for the next plan
	came     int // members that have joined since the last plan, many at most
	left     int // and those that have left, likewise

	asked  Time // when the read at the end of the quiet time was sent; Never if none is in flight
	proved bool // it was answered quickly: the silence is that of the members, not of the store
}

// news notes a change that others may follow: the quiet time begins anew, up to
// QuietMax.
func (n *Node) news() { n.newsFor(n.cfg.Quiet) }

func (n *Node) newsFor(q time.Duration) {
	s := &n.lead.burst
	s.since, s.proved = min(s.since, n.now), false
	until := min(n.now.Add(q), s.since.Add(n.cfg.QuietMax))
	// quiet-after-arrivals: An arrival is followed by a short quiet time before the next
	// plan.
	// Without it: Five members start together, and each arrival is answered by a plan:
	// partitions move several times.
	if rule.QuietAfterArrivals.Off() {
		until = n.now
	}
	s.quiet = max(s.quiet, until)
}

// How many times as long a quiet time may become for the slowness of a store, and of members
// that join.
const (
	mostForStore = 5
	MostForSlow  = 6
)

// many is how many members come by themselves at most, one after the other: more come
// together, and are followed by others.
const many = 16

// arrived counts a member that has come, and returns the quiet time that follows it.
func (n *Node) arrived(p *peer) time.Duration {
	s, q := &n.lead.burst, n.cfg.Quiet
	s.came = min(s.came+1, many)
	// more-follow-many: After many arrivals the quiet time is four times as long, and after
	// many that leave twice.
	// Without it: Five hundred processes start on a busy machine. Fifty of them have joined,
	// and for a fifth of a second none of the others gets the processor. The leader plans
	// for fifty, and again for the rest.
	if s.came == many && !rule.MoreFollowMany.Off() {
		q = 4 * n.cfg.Quiet
	}
	// slow-to-join: After a member that took long to join, the quiet time is four times as
	// long, up to six quiet times.
	// Without it: Five hundred processes start on a busy machine. The first five of them
	// have joined after a third of a second, and the others are not so far yet. The leader
	// plans for five, and again for the rest.
	if !rule.SlowToJoin.Off() {
		q = max(q, n.slow(p.rec.Took, MostForSlow))
	}
	return q
}

// departed counts a member that has left, or is leaving, and returns the quiet time that
// follows it.
func (n *Node) departed() time.Duration {
	s := &n.lead.burst
	s.left = min(s.left+1, many)
	// more-follow-many: see arrived.
	if s.left == many && !rule.MoreFollowMany.Off() {
		return 2 * n.cfg.Quiet
	}
	return n.cfg.Quiet
}

// death notes the suspects when a member was declared dead: members that died with
// it are overdue by now. None is added later, or two members that flap could stall
// the plan for ever.
func (n *Node) death() {
	s := &n.lead.burst
	// wait-for-suspects: After a death the plan waits for the members that are overdue at
	// that instant.
	// Without it: C2 and C3 die together. C2 is declared dead first, and a plan is made;
	// then C3 is, and there is a second plan.
	// suspects-once: The members that are overdue are noted once per death, and none is
	// added later.
	// Without it: C4 dies. C2 and C3 are unsteady, and one of them is always overdue. Noted
	// again and again, they keep the plan from ever being made.
	if rule.WaitForSuspects.Off() || s.open && !rule.SuspectsOnce.Off() {
		return
	}
	s.open, s.at = true, n.now
	s.suspects = s.suspects[:0]
	for i := range n.peers {
		p := &n.peers[i]
		if p.session == n.cfg.Session || !p.is(record.Live) {
			continue
		}
		if !p.heard || n.now.Sub(p.at) >= overdue(p.rec) {
			s.suspects = append(s.suspects, p.session)
		}
	}
}

// clear removes m from the suspects: m was just seen in a new version, so it beats
// or is no longer LIVE.
func (l *lead) clear(m *record.Member) {
	if i := slices.Index(l.burst.suspects, m.Session); i >= 0 {
		l.burst.suspects = slices.Delete(l.burst.suspects, i, i+1)
	}
}

func (l *lead) suspects(s record.Session) bool { return slices.Contains(l.burst.suspects, s) }

// planned is called for each plan with a new ID. It answers all changes so far,
// unless a live member in sight is not in it yet.
func (n *Node) planned() {
	s := &n.lead.burst
	n.lead.tried = 0
	s.open, s.suspects = false, s.suspects[:0]
	for i := range n.peers {
		if q := &n.peers[i]; q.noticed == noticedLive && q.is(record.Live) && !q.planned {
			return
		}
	}
	s.close()
}

// close forgets all changes: there is nothing to plan for.
func (s *burst) close() {
	*s = burst{since: Never, asked: Never, suspects: s.suspects[:0]}
}

// notice takes notice of every change of a member's state, once.
func (n *Node) notice() {
	if !n.all || n.lead.taking || n.plan == nil {
		return // some members may not be in sight yet
	}
	// Nobody is missing, so no plan will answer that death: the next one notes
	// suspects anew.
	if !n.Leads() && n.lead.burst.open && !n.liveDiffers() {
		n.lead.burst.close()
	}
	for i := range n.peers {
		p := &n.peers[i]
		if p.rec == nil {
			continue
		}
		in := p.planned
		switch st := p.rec.State; {
		case st == record.Live && p.noticed == noticedNothing:
			if !in {
				if n.heldTwin(p) {
					continue
				}
				if n.longLease(p) {
					if n.Leads() {
						p.noticed = noticedLong
						n.do(Action{Do: DoNote, Note: NoteLongLease, Who: p.session})
					}
					continue
				}
				n.newsFor(n.arrived(p))
				n.lead.burst.why |= WhyJoined
				if n.Leads() && n.namesake(p) {
					n.do(Action{Do: DoNote, Note: NoteTwins, Who: p.session})
				}
			}
			p.noticed = noticedLive
		case st == record.Live:
		case p.noticed == noticedLive || p.noticed != noticedGone && in:
			n.noticeEnd(p)
		default:
			p.noticed = noticedGone
		}
	}
}

func (n *Node) noticeEnd(p *peer) {
	p.noticed = noticedGone
	switch p.rec.State {
	case record.Dead:
		n.lead.burst.why |= WhyDied
		if p.rec.Proof {
			n.newsFor(n.cfg.Guard)
		} else {
			n.death()
		}
	case record.Evicted:
		n.lead.burst.why |= WhyEvicted
		n.news()
	default:
		n.lead.burst.why |= WhyLeft
		n.newsFor(n.departed())
	}
}

// burstOver tells whether a plan may be made: the quiet time has passed and no
// suspect is left.
func (n *Node) burstOver() bool {
	s := &n.lead.burst
	// suspects-once: see death.
	if rule.SuspectsOnce.Off() && s.open {
		n.death()
	}
	s.suspects = slices.DeleteFunc(s.suspects, func(id record.Session) bool {
		p := n.peer(id)
		if !p.is(record.Live) {
			return true
		}
		// expiry-before-drop: A suspect that expires at this instant is declared dead
		// before it can be dropped.
		// Without it: C2 and C3 die together. C3 expires at the very instant at which it is
		// no longer waited for. Dropped first, it costs a second plan.
		if !p.heard || !rule.ExpiryBeforeDrop.Off() && n.expired(p) {
			return false
		}
		return n.reached(s.at.Add(gap(p.rec.Beat)))
	})
	return n.reached(s.quiet) && len(s.suspects) == 0 && n.quietProved()
}

// quietProved tells whether the quiet time was one of the members, not of the store:
// a read that is sent at its end is answered quickly.
func (n *Node) quietProved() bool {
	s := &n.lead.burst
	// slow-store-is-not-quiet: While the store answers slowly, silence ends no burst of
	// arrivals, nor, for a while, one of members that leave.
	// Without it: Five hundred members start on a busy machine. The store has written
	// twenty of their records and works on the others: nothing is heard of them for a
	// while. The leader plans for twenty, and again for the rest.
	// quiet-after-arrivals: see newsFor.
	if s.proved || !n.awaitsMore() || n.cfg.Quiet == 0 || rule.SlowStoreIsNotQuiet.Off() || rule.QuietAfterArrivals.Off() {
		return true
	}
	if n.reached(n.latest()) {
		return true
	}
	if s.asked == Never {
		s.asked = n.now
		n.readPlanSoon()
	}
	return false
}

// awaitsMore tells whether others may follow for whom the plan can wait: after arrivals, and
// after members that leave, which work on until the plan. What the dead left behind is idle.
func (n *Node) awaitsMore() bool {
	why := n.lead.burst.why
	return why&(WhyJoined|WhyLeft) != 0 && why&(WhyDied|WhyEvicted) == 0
}

// latest is when the plan waits for a slow store no longer. Members that leave stop by
// themselves when there is no plan in time, and it has to reach them.
func (n *Node) latest() Time {
	s := &n.lead.burst
	if s.why&WhyLeft != 0 {
		return s.since.Add(n.cfg.Leave / 2)
	}
	return s.since.Add(n.cfg.QuietMax)
}

// slow is the quiet time that follows from an answer or an arrival that took so long:
// several times as long, since members of a burst make several requests one after the
// other, and with a thousand of them pauses of four times an answer were seen.
func (n *Node) slow(took, most time.Duration) time.Duration {
	return min(4*took, most*n.cfg.Quiet)
}

// storeAnswered takes the answer to the read that quietProved has sent. A slow one begins
// the quiet time anew and makes it longer; then the store is asked again.
func (n *Node) storeAnswered() {
	s := &n.lead.burst
	if s.asked == Never {
		return
	}
	took := n.now.Sub(s.asked)
	if s.proved = took <= n.cfg.Quiet/2; !s.proved {
		n.newsFor(min(max(n.cfg.Quiet, n.slow(took, mostForStore)), n.latest().Sub(n.now)))
	}
	s.asked = Never
}

// heldTwin tells whether p waits because an earlier live session has its name. It
// waits until that one ends, and then takes its place, or until that one beats
// later than any heartbeat that was in flight when p came: then they are two
// processes.
func (n *Node) heldTwin(p *peer) bool {
	// twin-waits: A second session of a name waits until the first has ended, or is seen to
	// beat later.
	// Without it: C2 is killed and started again. Both sessions count as members until the
	// first is declared dead, and partitions move twice.
	// a-name-proves-nothing: see heir.
	if rule.TwinWaits.Off() || rule.ANameProvesNothing.Off() {
		return false
	}
	for i := range n.peers {
		q := &n.peers[i]
		if q == p || !q.is(record.Live) || q.rec.Name != p.rec.Name || !n.before(q, p) {
			continue
		}
		if q.at <= p.first.Add(delta(q.rec.Beat)) {
			return true
		}
	}
	return false
}

// longLease tells whether p's lease is too long for p to be taken into the plan. A
// member that is in the plan stays there.
func (n *Node) longLease(p *peer) bool {
	// lease-at-most-fourfold: A leader takes no newcomer whose lease is more than four
	// times its own.
	// Without it: A member with a lease of a day joins and dies. What it owned is idle for
	// a day.
	return p.rec.Lease > mostLeases*n.cfg.Lease && !rule.LeaseAtMostFourfold.Off()
}

// mostLeases is how many times as long as the leader's a newcomer's lease may be.
const mostLeases = 4

// namesake tells whether another live session has p's name.
func (n *Node) namesake(p *peer) bool {
	for i := range n.peers {
		if q := &n.peers[i]; q != p && q.is(record.Live) && q.rec.Name == p.rec.Name {
			return true
		}
	}
	return false
}

// before tells whether q came before p, where both have one name: the planned one
// is first, then the one seen first, then the lower session.
func (n *Node) before(q, p *peer) bool {
	switch {
	case q.planned != p.planned:
		return q.planned
	case q.first != p.first:
		return q.first < p.first
	}
	return q.session < p.session
}
