package core

import (
	"slices"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A peer is this node's knowledge of one member's record, its own included.
type peer struct {
	session record.Session
	rec     *record.Member // nil: not read yet, or absent
	rev     Rev            // of rec
	at      Time           // when this very version was first seen here
	first   Time           // when the session was first heard of
	heard   bool           // it was seen to change, or to be created: its age is known
	flight  Verb           // the call in flight on the record: Get, Delete or Put
	put     *record.Member // the record that the Put in flight writes: Dead or Evicted
	reread  bool
	floor   uint64 // sequence number known when the Get in flight was sent
	state   uint8  // rank of the state known then
	wait    Time
	ended   Time    // when it was first seen to have ended; Never before
	planned bool    // the plan names it as a member (derived from the plan)
	line    int32   // its index in the plan being drafted; meaningless between steps
	noticed noticed // its last state that was taken as news
	proof   bool    // the kernel proved its death
	absent  bool    // a linearizable read did not find it
}

// noticed is the last state of a peer that a leader or deputy has taken notice of.
type noticed uint8

const (
	noticedNothing noticed = iota
	noticedLive
	noticedLong // LIVE, with a lease that is too long for this leader
	noticedGone // LIVE no more
)

// is tells whether the peer, if there is one, is known to be in state s.
func (p *peer) is(s record.MemberState) bool { return p != nil && p.rec != nil && p.rec.State == s }

// over tells whether the peer's session can run nothing any more.
func (p *peer) over() bool {
	// evicted-is-not-stopped: An evicted member keeps its partitions until its lease has
	// run out.
	// Without it: C2 does not stop q and is evicted. It has not heard of that yet and works
	// on. The leader frees q, and C1 starts it: both run it.
	return p.rec != nil && (p.rec.State.Ended() || rule.EvictedIsNotStopped.Off() && p.rec.State == record.Evicted)
}

func (n *Node) findPeer(s record.Session) (int, bool) {
	// Not slices.BinarySearchFunc, which would copy a whole peer for every
	// comparison.
	lo, hi := 0, len(n.peers)
	for lo < hi {
		mid := (lo + hi) / 2
		if n.peers[mid].session < s {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(n.peers) && n.peers[lo].session == s
}

// peer returns the peer of session s, or nil. The pointer is valid until the next
// peer is added or dropped.
func (n *Node) peer(s record.Session) *peer {
	if i, ok := n.findPeer(s); ok {
		return &n.peers[i]
	}
	return nil
}

func (n *Node) addPeer(s record.Session) *peer {
	i, ok := n.findPeer(s)
	if !ok {
		in := n.plan != nil && slices.Contains(n.plan.Members, s)
		n.peers = slices.Insert(n.peers, i, peer{session: s, first: n.now, at: n.now, ended: Never, planned: in})
	}
	return &n.peers[i]
}

// sawPeer takes a version of a member's record. With created, a watch in progress
// showed it: if it is the first version seen here, the record has just been
// created. It returns whether anything but the sequence number changed.
func (n *Node) sawPeer(m *record.Member, rev Rev, created bool) bool {
	i, known := n.findPeer(m.Session)
	if known && n.peers[i].rev == rev && n.peers[i].rec != nil {
		return false
	}
	p := n.addPeer(m.Session)
	was := p.rec
	if was != nil && stalePeer(m, was) {
		p.reread = true // stale, or the store has lost the newer one: read it
		return true
	}
	if was != nil && cameBack(rank(m.State), rank(was.State)) {
		n.storeLost()
		return true
	}
	p.rec, p.rev, p.at, p.absent = m, rev, n.now, false
	p.heard = p.heard || was != nil || created
	if m.State.Ended() {
		p.ended = n.now
	}
	n.lead.clear(m)
	return was == nil || !sameButSeq(was, m)
}

// stalePeer tells whether m is an older version than known. A member's own writes
// raise the sequence number; writes of others keep the number and raise the rank of
// the state.
func stalePeer(m, known *record.Member) bool {
	return m.Seq < known.Seq || m.Seq == known.Seq && rank(m.State) < rank(known.State)
}

// cameBack tells whether a record went back to an earlier rank. No member comes
// back from an eviction or from death, unless the store lost the write.
func cameBack(now, was uint8) bool {
	// no-way-back-from-eviction: An evicted member that beats again proves that the store
	// lost the eviction.
	// Without it: The store loses the eviction of C2, and C2 beats before anybody looks. C1
	// takes it for alive, and C2 is in no plan for ever.
	return now < was && !(rule.NoWayBackFromEviction.Off() && was == rank(record.Evicted))
}

// rank orders states by how far a session is in its life. It never goes down.
func rank(s record.MemberState) uint8 {
	return [...]uint8{record.Live: 0, record.Leaving: 0, record.Evicted: 1, record.Left: 2, record.Dead: 2}[s]
}

// sameButSeq tells whether two versions say the same but for the sequence number.
// It does not compare the incarnation, which a session acknowledges with its first
// plan and keeps, nor the proof, which comes with the death.
func sameButSeq(a, b *record.Member) bool {
	return a.State == b.State && a.AckGen == b.AckGen && slices.Equal(a.Stopping, b.Stopping) &&
		slices.Equal(a.Starting, b.Starting) && slices.Equal(a.GaveUp, b.GaveUp)
}

// watchOut decides whose records to watch. The leader and the next two in line
// watch everybody, so that when the leader and another member die together, the
// next leader has already counted the silence of the other: one lease passes, not
// two.
func (n *Node) watchOut() {
	if n.plan == nil {
		return
	}
	w := Watch{Orders: n.Leads()}
	if n.Leads() || n.deputy() {
		w.All = true
		if n.listPoll == Never {
			n.listPoll = n.now.Add(n.cfg.PollList)
		}
		if n.reached(n.listPoll) {
			n.list.want = true
			// orders-are-polled: A leader reads the orders from time to time, although their
			// watch is quiet.
			// Without it: The leader's watch misses the order that ends a pause. The
			// partition stays paused until the next order, or the next leader.
			n.ordersCell.want = n.ordersCell.want || w.Orders && !rule.OrdersArePolled.Off()
			n.listPoll = n.now.Add(n.cfg.PollList)
			n.reached(n.listPoll) // asks for a Tick then
		}
	} else {
		w.Leader = n.plan.Leader
		n.listPoll = Never
	}
	if w != n.watch {
		n.all = n.all && w.All
		n.watch = w
		n.do(Action{Do: DoWatch, Watch: w})
	}
}

// deputy tells whether this node is one of the two after the leader in the plan's
// line.
func (n *Node) deputy() bool {
	// deputies-watch-everybody: The two members after the leader in line watch everybody.
	// Without it: C1, which leads, and C2 die together. C3 leads and begins only then to
	// count C2's silence: two leases pass instead of one.
	if rule.DeputiesWatchEverybody.Off() {
		return false
	}
	ahead := 0
	for _, s := range n.plan.Members {
		if s == n.cfg.Session {
			return ahead < 2
		}
		if s != n.plan.Leader {
			ahead++
		}
	}
	return false
}

// minds tells whether this node has to act on the peer's silence or death.
func (n *Node) minds(p *peer) bool {
	return p.session != n.cfg.Session && (n.watch.All || p.session == n.plan.Leader || p.proof)
}

// refreshPeers reads the records of peers whose heartbeat is late and of those in
// doubt, and declares peers dead whose death is proven. Watches miss changes: a
// quiet watch proves nothing.
func (n *Node) refreshPeers() {
	if n.plan == nil || n.cause != NotEnded {
		return
	}
	if l := n.plan.Leader; l != 0 && n.peer(l) == nil {
		n.addPeer(l).reread = true
	}
	for i := range n.peers {
		p := &n.peers[i]
		if p.flight != NoVerb || !n.minds(p) {
			continue
		}
		if p.rec != nil && !p.rec.State.Ended() && n.reached(p.at.Add(gap(p.rec.Beat))) {
			p.reread = p.reread || n.reached(p.wait)
		}
		switch {
		case p.reread && n.reached(p.wait):
			p.flight = Get
			if p.rec != nil {
				p.floor, p.state = p.rec.Seq, rank(p.rec.State)
			}
			n.do(Action{Do: DoCall, Verb: Get, Key: Key{MemberCell, p.session}})
		case p.proof && !p.reread && p.rec != nil && !p.rec.State.Ended():
			n.declare(p, record.Dead)
		}
	}
}

// tookPeer takes the answer to a call on another member's record.
func (n *Node) tookPeer(ev *Event) bool {
	p := n.peer(ev.Key.Session)
	if p == nil {
		return false
	}
	verb := p.flight
	p.flight = NoVerb
	switch {
	case verb == Get && ev.Outcome == OK:
		p.reread, p.wait = false, n.now.Add(n.cfg.Heartbeat)
		// lost-eviction-is-noticed: A record that is read back in an earlier state of its
		// life proves that the store lost a write.
		// Without it: The store loses the eviction of C2. C1, which wrote it, goes on as if
		// C2 were evicted, and C2 as if it were not.
		if m := ev.Entries[0].Member; m.Seq < p.floor || cameBack(rank(m.State), p.state) && !rule.LostEvictionIsNoticed.Off() {
			n.storeLost() // the store had a newer version
			return true
		}
		n.sawPeer(ev.Entries[0].Member, ev.Entries[0].Rev, false)
	case verb == Get && ev.Outcome == NotFound:
		p.reread, p.wait = false, n.now.Add(n.cfg.Heartbeat)
		if p.floor == 0 && p.rec != nil {
			p.reread, p.wait = true, n.now // created after this read was sent: read again
		} else {
			n.peerAbsent(p)
		}
	case verb == Put && ev.Outcome == OK:
		m := p.put
		n.sawPeer(m, ev.Rev, false)
		note := NoteDead
		if m.State == record.Evicted {
			note = NoteEvicted
		}
		n.do(Action{Do: DoNote, Note: note, Who: m.Session})
	case verb == Delete && ev.Outcome == OK:
		n.dropPeer(ev.Key.Session)
	default: // a conflict or an unknown outcome: read the record
		p.reread, p.wait = true, n.now
		if ev.Outcome == Unknown {
			p.wait = n.now.Add(n.cfg.Retry)
		}
	}
	return true
}

// declare writes that p is dead or evicted, over the very version seen. If p has
// written a heartbeat meanwhile, it is alive, and the write conflicts.
func (n *Node) declare(p *peer, s record.MemberState) {
	m := *p.rec
	m.State, m.Proof = s, s == record.Dead && p.proof
	p.put, p.flight = &m, Put
	// death-is-compare-and-set: A member is declared dead only over the very version that
	// was seen to be silent.
	// Without it: C2's word that C1 is dead is in flight for a while. C1 wakes up and
	// renews its lease. Then the word overwrites that heartbeat, and q is granted to C2
	// while C1 runs it.
	n.do(Action{Do: DoCall, Verb: Put, Key: Key{MemberCell, p.session}, Prev: p.rev, Member: p.put})
}

// expired tells whether p may be declared dead: its death is proven, or p has been
// silent for W, which no lease outlasts. W follows from the lease in p's own
// record, not from the observer's.
func (n *Node) expired(p *peer) bool {
	if p.rec == nil || p.rec.State.Ended() {
		return false
	}
	if p.proof {
		return true
	}
	lease := p.rec.Lease
	// lease-of-that-record: A member is waited for as long as its own record says, not as
	// long as the observer's lease is.
	// Without it: C2's lease is longer than C1's. C1 waits for its own, declares C2 dead
	// and is granted q. C2 has lease left and runs it.
	if rule.LeaseOfThatRecord.Off() {
		lease = n.cfg.Lease
	}
	w := wait(lease)
	// dead-after-the-lease: A silent member is declared dead only when the last lease that
	// it can have has run out.
	// Without it: C1 is frozen with half of its lease left. C2 declares it dead and is
	// granted q. C1 wakes up and goes on with q under a valid lease.
	if rule.DeadAfterTheLease.Off() {
		w = lease / 2
	}
	since := p.at
	// deafness-is-not-silence: A member whose lease ran out counts the silence of others
	// anew from when its lease is back.
	// Without it: The store is away for longer than the leases. C1 is the first that
	// reaches it again, and declares C2 and C3 dead, which come a moment later.
	if !rule.DeafnessIsNotSilence.Off() {
		since = max(since, n.back)
	}
	return n.reached(since.Add(w))
}

// peerAbsent notes that a linearizable read did not find the record. Absence frees
// nothing by itself: vacated and ownersAbsent decide what follows.
func (n *Node) peerAbsent(p *peer) {
	if !n.named(p.session) {
		n.dropPeer(p.session)
		return
	}
	p.rec, p.absent = nil, true
}

// dropPeer forgets a peer. It is never called for this node itself.
func (n *Node) dropPeer(s record.Session) {
	i, _ := n.findPeer(s)
	n.peers = slices.Delete(n.peers, i, i+1)
}

// named tells whether the plan names s as leader, member or owner. Rows are meant
// for members only, so their targets need no look.
func (n *Node) named(s record.Session) bool {
	if n.plan.Leader == s || slices.Contains(n.plan.Members, s) {
		return true
	}
	return slices.ContainsFunc(n.plan.Rows, func(r record.Row) bool { return r.Owner == s })
}
