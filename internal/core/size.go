package core

import (
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// The leader also decides how many members there should be: as many as the load needs, and
// some to spare. To grow it asks the Scaler for more. To shrink it chooses the members that
// cost least to empty and writes them into the plan, which gives them nothing any more. Once
// such a member owns nothing, the Scaler is asked to remove it, by name.

// Scaling holds the limits of the group's size. Without a Max the size is nobody's business
// here.
type Scaling struct {
	Min, Max  uint32
	Spare     uint32        // members beyond those that the load needs
	Step      uint32        // by how many members the size changes at once, at most
	Band      uint32        // how much more load must fit before the group shrinks, in percent
	UpAfter   time.Duration // how long after the group was made to grow it may be again
	DownAfter time.Duration // how long after any change of size it may be made to shrink
	Vanish    time.Duration // how long a member may take to vanish once the Scaler was asked to remove it
	Repeat    time.Duration // how often the Scaler is asked for the same again
	Dry       bool          // decide and tell, and ask nobody

	// Before tells whether the platform removes a before b, where it decides; nil if it
	// removes whom it is told to.
	Before func(a, b *record.Member) bool
}

// DefaultScaling is what the documentation quotes, but for Max.
func DefaultScaling() Scaling {
	return Scaling{
		Min: 1, Spare: 1, Step: 4, Band: 10,
		UpAfter: 10 * time.Second, DownAfter: time.Minute,
		Vanish: 2 * time.Minute, Repeat: 30 * time.Second,
	}
}

func (s *Scaling) on() bool { return s.Max > 0 }

// A Fleet is what the Scaler is asked for.
type Fleet struct {
	Want   int              // how many members there shall be
	Remove []record.Session // members that own nothing and shall end, ascending; Want does not count them
}

func (f *Fleet) equal(o *Fleet) bool { return f.Want == o.Want && slices.Equal(f.Remove, o.Remove) }

// size is what a leader knows of the group's size, besides the plan.
type size struct {
	begun  bool // this leader has looked at the plan's size
	asking bool
	asked  Fleet // by the newest call
	again  Time  // when to ask the same again
	fails  uint32
	grown  Time // when the group was last made to grow
	turned Time // when its size was last changed, or this leadership began
	stayed Time // when a member that should have vanished was given up on; Never if none was
	exits  []exit
}

// An exit is a chosen member on its way out.
type exit struct {
	who   record.Session
	since Time // the Scaler was first asked to remove it
	named Time // the Scaler was last asked to remove it
	back  bool // it is wanted back: nobody asks for its removal any more
	sure  bool // the Scaler was never asked to remove it, or has answered a call since that did not name it
}

func newSize(now Time) size { return size{grown: Never, turned: now, stayed: Never} }

func (s *size) exit(who record.Session) *exit {
	if i := slices.IndexFunc(s.exits, func(x exit) bool { return x.who == who }); i >= 0 {
		return &s.exits[i]
	}
	return nil
}

// chosen tells whether session s gets nothing because it is on its way out.
func (d *draft) chosen(s record.Session) bool { return slices.Contains(d.next.Size.Chosen, s) }

// keepSize brings what the plan says of the group's size up to date: members that have gone
// are not chosen any more, and those that are wanted back are open again.
func (d *draft) keepSize() {
	n, s, cur := d.n, &d.n.lead.size, &d.next.Size
	if !n.cfg.Scaling.on() {
		if cur.Wanted != 0 || len(cur.Chosen) > 0 {
			*cur = record.Size{}
			d.changed, n.lead.loads.look = true, n.now
		}
		return
	}
	for _, who := range cur.Chosen {
		if s.exit(who) == nil {
			s.exits = append(s.exits, exit{who: who, since: Never, named: n.now}) // an earlier leader may just have asked
		}
	}
	keep := slices.DeleteFunc(slices.Clone(cur.Chosen), func(who record.Session) bool { return !n.peer(who).is(record.Live) })
	if lost := int(cur.Wanted) - (n.liveNow() - len(keep)); lost > 0 {
		d.wantBack(keep, lost)
	}
	keep = slices.DeleteFunc(keep, func(who record.Session) bool {
		x := s.exit(who)
		return x != nil && x.back && n.usable(x)
	})
	// choice-outlives-the-leader: A new leader goes on with the members that its
	// predecessor has chosen.
	// Without it: C1 has emptied C3, which is to go, and dies. C2 chooses C4: two members go
	// instead of one.
	if rule.ChoiceOutlivesTheLeader.Off() && !s.begun {
		keep = nil
	}
	s.begun = true
	if len(keep) != len(cur.Chosen) {
		cur.Chosen = keep
		d.changed = true
		n.lead.loads.look = n.now // one that is back may be needed
	}
	s.exits = slices.DeleteFunc(s.exits, func(x exit) bool { return !slices.Contains(cur.Chosen, x.who) })
	live := uint32(n.liveNow())
	if cur.Wanted == 0 {
		cur.Wanted, d.changed = live, true // until the load is known
	}
	if cur.Wanted < n.cfg.Scaling.Min {
		cur.Wanted, d.changed = n.cfg.Scaling.Min, true
		if live < cur.Wanted {
			d.tellSize(nil)
		}
	}
}

// usable tells whether a chosen member that is wanted back may be given something.
func (n *Node) usable(x *exit) bool {
	// back-after-an-answer: A member that the Scaler may be removing is used again only after a
	// call that does not name it, or much later.
	// Without it: The Scaler is removing C3 when the load comes back. C3 is given q, and is
	// ended while it works on it.
	return !n.empty(x.who) || x.sure || n.nobodyElse() || n.reached(x.named.Add(n.cfg.Scaling.Vanish)) || rule.BackAfterAnAnswer.Off()
}

// nobodyElse tells whether there is no live member but chosen ones: then they work.
func (n *Node) nobodyElse() bool {
	return !slices.ContainsFunc(n.peers, func(p peer) bool { return p.is(record.Live) && !slices.Contains(n.plan.Size.Chosen, p.session) })
}

// empty tells whether a member owns nothing by the plan in the store, and will be granted
// nothing.
func (n *Node) empty(who record.Session) bool {
	return !slices.ContainsFunc(n.plan.Rows, func(r record.Row) bool { return concerns(&r, who) })
}

// concerns tells whether who owns a row, or will be granted it without another plan.
func concerns(r *record.Row, who record.Session) bool {
	return r.Owner == who || r.To == who && (r.State != record.Free || r.Reason == record.NoReason || r.Reason == record.Failing)
}

// resize decides how many members there should be, and chooses those that go. targets are
// those of a plan without that. It reports whether members are closed now that targets give
// something to.
func (d *draft) resize(members []record.Session, targets []int32) bool {
	n, s, set, cur := d.n, &d.n.lead.size, &d.n.cfg.Scaling, &d.next.Size
	if !set.on() || n.frozen() || !n.measurable() {
		return false
	}
	want, have := d.wants(members), n.liveNow()
	switch stay := have - len(cur.Chosen); {
	case want > stay:
		d.wantBack(cur.Chosen, want-stay)
		d.keepSize()
		d.grow(want)
	case want > int(cur.Wanted):
		cur.Wanted, d.changed = uint32(want), true // more were there than was known to be needed
	case want < stay && n.reached(s.turned.Add(set.downAfter())) && (s.stayed == Never || n.reached(s.stayed.Add(set.Vanish))):
		return d.shrink(members, targets, min(stay-want, int(set.Step)))
	case want < int(cur.Wanted) && have <= want && n.reached(s.turned.Add(set.downAfter())):
		cur.Wanted = uint32(want) // those that have not come are not needed any more
		s.turned, d.changed = n.now, true
		d.tellSize(nil)
	}
	return false
}

// measurable tells whether there is a capacity to count members by.
func (n *Node) measurable() bool {
	return slices.ContainsFunc(n.peers, func(p peer) bool { return p.is(record.Live) && n.capacity(p.rec) > 0 })
}

func (s *Scaling) downAfter() time.Duration {
	// size-cools-down: The group shrinks only some time after its size last changed.
	// Without it: Load comes in waves. Members are removed after each, and started again for
	// the next.
	if rule.SizeCoolsDown.Off() {
		return 0
	}
	return s.DownAfter
}

// wants returns how many members there should be by the loads that were just packed.
func (d *draft) wants(members []record.Session) int {
	n, sc, set := d.n, &d.n.lead.scratch, &d.n.cfg.Scaling
	parts, drained := 0, 0
	for i := range sc.parts {
		if !sc.parts[i].Off {
			parts++
		}
	}
	for i, s := range members {
		if sc.open[i].Closed && !d.chosen(s) && n.peer(s).is(record.Live) {
			drained++ // by an operator: it is there, and takes nothing
		}
	}
	said := &n.lead.loads.said
	// hot-partition-takes-the-spare: A partition that is more than any member can take starts
	// no member: the one it has to itself is a spare one.
	// Without it: q is too much for any member, and has one to itself. Another member is
	// started, which cannot help q.
	want := said.Wanted + int(set.Spare)
	if !rule.HotPartitionTakesTheSpare.Off() {
		want -= min(len(said.Oversize), int(set.Spare))
	}
	// no-more-members-than-partitions: The group grows no larger than its partitions are
	// many.
	// Without it: Each of two partitions keeps a member busy. A third member is started to
	// spare, and can take nothing from them.
	if !rule.NoMoreMembersThanPartitions.Off() {
		want = min(want, parts)
	}
	return min(max(want+drained, int(set.Min)), int(set.Max))
}

// liveNow counts the members that live, whether the plan has taken them in yet or not.
func (n *Node) liveNow() (live int) {
	for i := range n.peers {
		if n.peers[i].is(record.Live) {
			live++
		}
	}
	return live
}

// wantBack wants some of the chosen members back, those first that have been there for
// longest.
func (d *draft) wantBack(chosen []record.Session, count int) {
	s := &d.n.lead.size
	for _, who := range d.n.plan.Members {
		x := s.exit(who)
		if x == nil || !slices.Contains(chosen, who) {
			continue
		}
		if count--; count < 0 {
			return
		}
		if !x.back {
			x.back = true
			d.n.do(Action{Do: DoNote, Note: NoteBack, Who: who})
		}
	}
}

// grow makes the group larger.
func (d *draft) grow(want int) {
	n, s, set, cur := d.n, &d.n.lead.size, &d.n.cfg.Scaling, &d.next.Size
	want = min(want, max(int(cur.Wanted), n.liveNow())+int(set.Step))
	if want <= int(cur.Wanted) || s.grown != Never && !n.reached(s.grown.Add(set.UpAfter)) {
		return
	}
	cur.Wanted = uint32(want)
	s.grown, s.turned, d.changed = n.now, n.now, true
	d.tellSize(nil)
}

// shrink chooses up to count members that go.
func (d *draft) shrink(members []record.Session, targets []int32, count int) bool {
	n, s, cur := d.n, &d.n.lead.size, &d.next.Size
	var gone []record.Session
	stay := n.liveNow() - len(cur.Chosen)
	for range count {
		who := d.cheapest(members, targets, gone)
		if who == 0 || stay-len(gone) <= int(n.cfg.Scaling.Max) && !d.roomy(members, append(gone, who)) {
			break
		}
		gone = append(gone, who)
	}
	left := uint32(stay - len(gone))
	if len(gone) == 0 || n.cfg.Scaling.Dry && cur.Wanted == left {
		return false
	}
	cur.Wanted = left
	s.turned, d.changed = n.now, true
	d.tellSize(gone)
	if n.cfg.Scaling.Dry {
		return false
	}
	cur.Chosen = slices.Concat(cur.Chosen, gone)
	slices.Sort(cur.Chosen)
	for _, who := range gone {
		s.exits = append(s.exits, exit{who: who, since: Never, named: n.now, sure: true}) // nobody was asked yet
	}
	return slices.ContainsFunc(d.rows, func(r record.Row) bool {
		return slices.ContainsFunc(gone, func(who record.Session) bool { return concerns(&r, who) })
	}) || slices.ContainsFunc(targets, func(t int32) bool { return t != plan.None && slices.Contains(gone, members[t]) })
}

// cheapest returns the member that costs least to empty and may go: the leader last. Where
// the platform decides who goes, it returns that one, if it may go.
func (d *draft) cheapest(members []record.Session, targets []int32, gone []record.Session) (best record.Session) {
	n, set := d.n, &d.n.cfg.Scaling
	costs := make([]uint64, len(members))
	for i, t := range targets {
		if t != plan.None {
			costs[t] += 1 + n.cfg.Packing.weight(n.lead.loads.load(record.ID(i)))
		}
	}
	var least uint64
	for i, s := range members {
		p := n.peer(s)
		if !p.is(record.Live) || d.chosen(s) || slices.Contains(gone, s) {
			continue
		}
		cost := costs[i]
		if s == n.cfg.Session {
			cost += 1 << 62
		}
		better := best == 0 || cost <= least // the youngest of several
		if set.Before != nil {
			better = best == 0 || set.Before(p.rec, n.peer(best).rec)
		} else if d.needed(i, p.rec.Name) {
			continue
		}
		if better {
			best, least = s, cost
		}
	}
	if best != 0 && set.Before != nil && d.needed(slices.Index(members, best), n.peer(best).rec.Name) {
		return 0
	}
	return best
}

// needed tells whether an operator wants member i to be there: it is drained, or something is
// pinned to it.
func (d *draft) needed(i int, name string) bool {
	n := d.n
	pinned := func(p record.Pin) bool { return p.Member == name }
	return n.orders != nil && (n.lead.scratch.open[i].Closed || slices.ContainsFunc(n.orders.Pins, pinned))
}

// roomy tells whether the members that are left without those gone have room for the load
// and the band, besides the spare ones.
func (d *draft) roomy(members []record.Session, gone []record.Session) bool {
	n, sc, set := d.n, &d.n.lead.scratch, &d.n.cfg.Scaling
	var room, widest, load uint64
	var caps []uint64
	for i, s := range members {
		p := n.peer(s)
		if sc.open[i].Closed || !p.is(record.Live) || slices.Contains(gone, s) {
			continue
		}
		c := n.capacity(p.rec) / 100 * uint64(n.cfg.Packing.Target)
		caps, room, widest = append(caps, c), room+c, max(widest, c)
	}
	slices.Sort(caps)
	for range min(int(set.Spare), len(caps)) {
		room -= caps[len(caps)-1]
		caps = caps[:len(caps)-1]
	}
	for i := range sc.parts {
		if !sc.parts[i].Off {
			load += min(n.cfg.Packing.weight(n.lead.loads.load(record.ID(i))), widest) // more than one member has helps nobody
		}
	}
	// size-has-a-band: The group shrinks only if the load would fit with some more.
	// Without it: Load wavers around what three members can take. The fourth is removed and
	// started again all the time.
	if rule.SizeHasABand.Off() {
		return load <= room
	}
	return load+load/100*uint64(set.Band) <= room
}

// tellSize tells people how many members are wanted now.
func (d *draft) tellSize(gone []record.Session) {
	d.n.do(Action{Do: DoNote, Note: NoteSize, Fleet: Fleet{Want: int(d.next.Size.Wanted), Remove: gone}, Have: d.n.liveNow()})
}

// askScaler asks the Scaler for the members that are wanted, if that has changed, or has not
// been said for a while.
func (n *Node) askScaler() {
	s, set := &n.lead.size, &n.cfg.Scaling
	if !set.on() || set.Dry || n.plan.Size.Wanted == 0 || n.plan.Hold || n.lapsed {
		return
	}
	n.giveUpOnStayers()
	f := n.fleet()
	if s.asking || !n.reached(s.again) && (s.fails > 0 || f.equal(&s.asked)) {
		return
	}
	s.asking, s.asked = true, f
	for _, who := range f.Remove {
		x := s.exit(who)
		x.since, x.named, x.sure = min(x.since, n.now), n.now, false
	}
	n.do(Action{Do: DoScale, Fleet: f})
}

// fleet returns what to ask the Scaler for.
func (n *Node) fleet() Fleet {
	s := &n.lead.size
	var f Fleet
	for _, who := range n.plan.Size.Chosen {
		x := s.exit(who)
		if x == nil || x.back || !n.peer(who).is(record.Live) {
			continue
		}
		// removed-when-empty: The Scaler is asked to remove a member only when it owns nothing
		// by the plan in the store.
		// Without it: C3 is chosen and still works on q. It is removed, and q is idle until
		// that is noticed.
		if n.empty(who) || rule.RemovedWhenEmpty.Off() {
			f.Remove = append(f.Remove, who)
		}
	}
	// chosen-still-counts: A member that is not to be removed yet counts among the members
	// that are wanted.
	// Without it: Three of four members are wanted, and C4 still works on q. The platform is
	// asked for three, and ends any of them.
	if f.Want = int(n.plan.Size.Wanted); !rule.ChosenStillCounts.Off() {
		f.Want = max(f.Want, n.liveNow()-len(f.Remove))
	}
	return f
}

// giveUpOnStayers wants members back that should have vanished by now.
func (n *Node) giveUpOnStayers() {
	s := &n.lead.size
	for i := range s.exits {
		x := &s.exits[i]
		// stayer-is-used-again: A member that the Scaler does not remove in time is used again.
		// Without it: The platform keeps C3 although its removal was asked for. C3 has nothing
		// to do for ever.
		if !x.back && x.since != Never && n.peer(x.who).is(record.Live) && n.reached(x.since.Add(n.cfg.Scaling.Vanish)) && !rule.StayerIsUsedAgain.Off() {
			x.back, s.stayed = true, n.now
			n.do(Action{Do: DoNote, Note: NoteStays, Who: x.who})
		}
	}
}

// mostPause is the longest pause between calls to a Scaler that fails, unless it asks for
// more.
const mostPause = time.Minute

// tookScaled takes the Scaler's answer.
func (n *Node) tookScaled(ev *Event) {
	s := &n.lead.size
	if !s.asking {
		return // asked as an earlier leader
	}
	s.asking = false
	if ev.Outcome != OK {
		s.fails = min(s.fails+1, 16)
		s.again = n.now.Add(max(ev.Pause, min(n.cfg.Retry<<(s.fails-1), mostPause)))
		return
	}
	s.fails, s.again = 0, n.now.Add(n.cfg.Scaling.Repeat)
	for i := range s.exits {
		if x := &s.exits[i]; x.back && !slices.Contains(s.asked.Remove, x.who) {
			x.sure = true
		}
	}
}
