package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/record"
	"github.com/spf13/cobra"
)

// mostLease is the longest that a member can have.
const mostLease = 24 * time.Hour

func groupRepairCmd() *cobra.Command {
	var t connect.Target
	var a assent
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Take away or write anew the records that nobody can read",
		Long: `Repair looks for records that cannot be read, and for keys that rota does not know.
It shows first what stands there, what it will do and what follows, and then asks;
with --yes it does not ask, and without a terminal it only shows. Each record is
changed only if it is still the one that was shown. What can be read is left alone.

  a member's record   the session ends. If the plan names it, repair waits until the
                      lease that its process may have is over, and writes that it is
                      dead; otherwise it takes the record away
  the orders          written anew: what is paused or removed stays so, other orders
                      are lost and have to be given again
  the roster          taken away, and a new incarnation begins, as by rota group reset:
                      the next leader makes a new roster from the source and the orders
  the plan            a new incarnation begins, as by rota group reset
  history, other keys taken away

How long the lease of a record that cannot be read is, nobody knows. Repair assumes
four times the longest that it can read, or 24 h if it can read none; --longest-lease
says it better. If that is less than the truth, and the process is cut off from the
store but runs, two may act on a partition.

A newer rota's records look unreadable, too. If one runs in this group, use it instead.

Exit codes: 0 nothing is left to repair, 8 it was only shown.`,
		Example: `  rota group repair
  rota group repair --yes --longest-lease 5s --why 'junk in the bucket'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lease > mostLease {
				return cli.Usagef("--longest-lease %v: no lease is longer than %v", lease, mostLease)
			}
			s, store, err := surveyAll(cmd.Context(), &t)
			if err != nil {
				return err
			}
			defer store.Close()
			d := s.repair(store, lease)
			if len(d.steps) == 0 && len(d.notes) == 0 {
				return nothingToDo(cmd, &a, fmt.Sprintf("group %s: all %s can be read: there is nothing to repair", s.group, cli.Count(len(s.all), "record")))
			}
			return a.carryOut(cmd, store, s.group, d)
		},
	}
	t.Flags(cmd)
	a.flags(cmd)
	cmd.Flags().Var(cli.Span(&lease), "longest-lease", "the longest lease that a member of this group can have")
	return cmd
}

func nothingToDo(cmd *cobra.Command, a *assent, text string) error {
	if a.output == "json" {
		return printDraft(cmd.OutOrStdout(), &draft{}, true)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), plain.Text(text))
	return err
}

// repair is what is to be done about all that cannot be read. Lease is the longest
// that a member may have; 0 if nobody said.
func (s *survey) repair(store rota.Store, lease time.Duration) *draft {
	d := &draft{what: "group repair", from: s.at}
	assumed := lease
	if assumed == 0 {
		assumed = min(cmp.Or(4*s.longestLease(), mostLease), mostLease)
	}
	unread := func(kind recordKind) *standing {
		if x := s.find(kind); x != nil && x.bad != nil {
			return x
		}
		return nil
	}
	afresh := unread(planKind) != nil || unread(rosterKind) != nil
	for i := range s.all {
		x := &s.all[i]
		switch {
		case x.kind == unknownKind && !addressable(x.key):
			d.notes = append(d.notes, fmt.Sprintf("%s is no key of rota's, and rota cannot name it: remove it with the store's own tools.", x.key))
		case x.kind == unknownKind:
			d.add(x, "no record of this version of rota has this key", "take it away", "nothing: members leave it out. But if a newer rota wrote it, that one misses it",
				func(ctx context.Context) error { return store.Delete(ctx, x.key, x.rev) }).alone = true
		case x.kind == historyKind && x.bad != nil:
			d.add(x, stands(x), "take it away", "rota status and rota explain tell less of the past; the next plan begins a new one",
				func(ctx context.Context) error { return store.Delete(ctx, x.key, x.rev) }).alone = true
		case x.kind == loadsKind && x.bad != nil:
			d.add(x, stands(x), "take it away", "nothing: a leader that packs by load writes a new one within seconds",
				func(ctx context.Context) error { return store.Delete(ctx, x.key, x.rev) }).alone = true
		case x.kind == memberKind && x.bad != nil:
			s.repairMember(d, store, x, afresh, assumed)
		}
	}
	if x := unread(ordersKind); x != nil {
		s.repairOrders(d, store, x)
	}
	if x := unread(rosterKind); x != nil {
		d.add(x, stands(x), "take it away", "the next leader makes a new one from the source and the orders; what partitions were removed because the source missed them is forgotten",
			func(ctx context.Context) error { return store.Delete(ctx, x.key, x.rev) })
	}
	if afresh {
		s.beginAnew(d, store)
	}
	if d.wait > 0 {
		said := "assumed, since nobody can read it: four times the longest that can be read, at most 24 h. If a member of this group may have a longer one, say so with --longest-lease"
		if lease != 0 {
			said = "as --longest-lease says"
		}
		d.notes = append(d.notes, fmt.Sprintf("Before the first step repair waits %s: so long may a process whose record cannot be read still trust a lease of %v (%s).", cli.Roughly(d.wait), assumed, said))
	}
	return d
}

func (d *draft) add(x *standing, stands, does, follows string, do func(context.Context) error) *step {
	d.steps = append(d.steps, step{Key: x.key, Rev: uint64(x.rev), Stands: fmt.Sprintf("%s (%s)", stands, cli.Count(x.size, "byte")), Does: does, Follows: follows, do: do})
	return &d.steps[len(d.steps)-1]
}

func stands(x *standing) string { return "it cannot be read: " + x.bad.Error() }

// repairMember ends a session whose record cannot be read. While that stands there
// the session cannot renew its lease: each heartbeat is a compare-and-set on a
// version that it wrote itself. So whoever has seen the version unchanged for as
// long as a lease can last may say that the session is dead, by the same rule as
// everybody else; a compare-and-set that succeeds shows that it was unchanged.
func (s *survey) repairMember(d *draft, store rota.Store, x *standing, afresh bool, lease time.Duration) {
	const fenced = "if its process still runs it stops everything, and comes back with --rejoin only"
	if !planNames(s.plan, x.session) {
		d.add(x, stands(x), "take it away", "the plan does not name this session. "+upper(fenced), func(ctx context.Context) error {
			if err := s.stillNobody(ctx, store, x.session); err != nil {
				return err
			}
			return store.Delete(ctx, x.key, x.rev)
		}).alone = true
		return
	}
	d.wait = max(d.wait, DeadAfter(lease))
	if afresh { // the hold frees its partitions
		d.add(x, stands(x), "wait until its lease is over, then take it away", fenced,
			func(ctx context.Context) error { return store.Delete(ctx, x.key, x.rev) })
		return
	}
	owned := "it owns nothing"
	if list := s.ownedBy(x.session); len(list) > 0 {
		owned = "its partitions get other owners: " + some(list)
	}
	d.add(x, stands(x), "wait until its lease is over, then write that the session is dead", owned+"; "+fenced, func(ctx context.Context) error {
		// Nobody may take this for an older version than one that was seen, so
		// its number is above all that a session can have reached.
		b, err := record.Encode(&record.Member{Session: x.session, State: record.Dead, Seq: wornCounter,
			Name: "unreadable-" + x.session.String(), Lease: lease, Beat: lease})
		if err != nil {
			return err
		}
		_, err = store.Put(ctx, x.key, b, x.rev)
		return err
	})
}

func upper(s string) string { return string(s[0]-'a'+'A') + s[1:] }

// stillNobody refuses if the plan names the session by now: its leader may know an
// older version of the record, which can be read.
func (s *survey) stillNobody(ctx context.Context, store rota.Store, session record.Session) error {
	e, err := store.Get(ctx, s.group+"/plan")
	if errors.Is(err, rota.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if p, err := record.DecodePlan(e.Value); err != nil || planNames(p, session) {
		return errChanged
	}
	return nil
}

// repairOrders keeps what can be told without the record: a pause or a removal that
// is forgotten starts what somebody has stopped. The version is one that nobody
// knows yet, so the group goes on as with any new order.
func (s *survey) repairOrders(d *draft, store rota.Store, x *standing) {
	o := &record.Orders{Ver: 1}
	if s.plan != nil && s.plan.Orders < wornCounter {
		o.Ver = s.plan.Orders + 1
	}
	if s.roster != nil {
		o.Pauses = s.rows(func(r *record.Row) bool { return r.Reason == record.Paused })
		for _, e := range s.roster.Entries {
			if e.Removed {
				o.Remove = append(o.Remove, e.Name)
			}
		}
		slices.Sort(o.Pauses)
		slices.Sort(o.Remove)
	}
	follows := "pins, bans, drains, freeze, added partitions and ordered metadata are lost, and so is the log: give again what is still wanted"
	if s.plan == nil || s.roster == nil {
		follows = "all orders are lost, pauses and removals too, since plan and roster cannot both be read: what somebody stopped starts again. Give them again"
	}
	if len(o.Pauses) > 0 {
		follows += "; paused stay " + some(o.Pauses)
	}
	if len(o.Remove) > 0 {
		follows += "; removed stay " + some(o.Remove) + " (rota partitions add brings one back)"
	}
	d.add(x, stands(x), fmt.Sprintf("write new orders, version %d", o.Ver), follows, func(ctx context.Context) error {
		b, err := record.Encode(o)
		if err != nil {
			return err
		}
		_, err = store.Put(ctx, x.key, b, x.rev)
		return err
	})
}

func groupResetCmd() *cobra.Command {
	var t connect.Target
	var a assent
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Begin a new incarnation: every session ends, and after a hold all goes on",
		Long: `Reset is for a group that neither goes on by itself nor by rota group repair, such as
one whose counters are used up. It gives the plan a new incarnation and a hold, as
members do when their store has lost writes: every session ends once, a leader waits
until every lease that there was is over, and then grants everything anew. Orders,
partitions and tokens stay; counters that are near their end begin again.

It shows first what it will do and asks; with --yes it does not ask, and without a
terminal it only shows.

Exit codes: 0 it is done, 8 it was only shown.`,
		Example: `  rota group reset
  rota group reset --yes --why 'nobody can write the plan'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, store, err := surveyAll(cmd.Context(), &t)
			if err != nil {
				return err
			}
			defer store.Close()
			d, err := s.reset(store)
			if err != nil {
				return err
			}
			return a.carryOut(cmd, store, s.group, d)
		},
	}
	t.Flags(cmd)
	a.flags(cmd)
	return cmd
}

// reset refuses while others than the plan cannot be read: a leader under a hold
// waits for every lease it can read of, and needs roster and orders.
func (s *survey) reset(store rota.Store) (*draft, error) {
	d := &draft{what: "group reset", from: s.at}
	if s.find(planKind) == nil {
		return nil, fmt.Errorf("there is no plan to reset: the next member to join makes one, with a hold")
	}
	for i := range s.all {
		if x := &s.all[i]; x.bad != nil && x.kind != planKind && x.kind != historyKind && x.kind != loadsKind {
			return nil, fmt.Errorf("%s cannot be read: rota group repair comes first, and begins a new incarnation where that is needed", x.key)
		}
	}
	// Before the plan: who knows the old numbers takes the new ones for a loss,
	// and ends; who comes after the plan has never seen the old ones.
	if r := s.roster; r != nil && r.Ver > wornRoster {
		next := &record.Roster{Ver: 1, Entries: r.Entries}
		s.renew(d, store, s.find(rosterKind), r.Ver, next)
	}
	if o := s.orders; o != nil && o.Ver > wornCounter {
		next := *o
		next.Ver = 1
		s.renew(d, store, s.find(ordersKind), o.Ver, &next)
	}
	s.beginAnew(d, store)
	return d, nil
}

func (s *survey) renew(d *draft, store rota.Store, x *standing, ver uint64, next record.Record) {
	d.add(x, fmt.Sprintf("ver is %d", ver), "write it again as version 1", "nothing by itself: all that it says stays", func(ctx context.Context) error {
		b, err := record.Encode(next)
		if err != nil {
			return err
		}
		_, err = store.Put(ctx, x.key, b, x.rev)
		return err
	})
}

// beginAnew adds the step that gives the plan a new incarnation.
func (s *survey) beginAnew(d *draft, store rota.Store) {
	x := s.find(planKind)
	if x == nil { // whoever finds no roster, or joins, makes one with a hold
		return
	}
	is := ""
	if x.bad != nil {
		is = stands(x)
	} else {
		owned := len(s.rows(func(r *record.Row) bool { return r.Owner != 0 }))
		is = fmt.Sprintf("incarnation %d, plan %d, led by %s; %d of %d partitions have an owner",
			s.plan.Incarnation, s.plan.ID, s.nameOf(s.plan.Leader), owned, len(s.plan.Rows))
	}
	hold, lease := "one lease", time.Duration(0)
	for _, m := range s.members {
		if !m.Proof { // nobody waits for those that are proven dead
			lease = max(lease, m.Lease)
		}
	}
	if lease > 0 {
		hold = cli.Roughly(DeadAfter(lease))
	}
	follows := fmt.Sprintf("every session ends once: rota run exits with %d, or comes back by itself with --rejoin. Whoever leads then waits %s, for every lease that there was, and grants everything anew: until then nothing runs",
		cli.ExitStoreLost, hold)
	if _, back, err := s.nextPlan(s.plan, ""); err == nil && back {
		follows += ". The incarnations are used up and begin again with the wall clock: end all members first, and let sinks that check tokens forget theirs, or they refuse the new ones"
	}
	d.add(x, is, "give it a new incarnation and a hold", follows, func(ctx context.Context) error { return s.putNextPlan(ctx, store, x) })
}

// putNextPlan writes over the plan that stands there now: a leader may have gone on
// since it was shown, and it is just as old as the one that was. One that cannot be
// read must be the very one.
func (s *survey) putNextPlan(ctx context.Context, store rota.Store, x *standing) error {
	server := ""
	if id, ok := store.(rota.Identifier); ok {
		server, _ = id.Identity(ctx) // without it the next leader fills it in
	}
	for {
		was, rev := s.plan, x.rev
		if was != nil {
			e, err := store.Get(ctx, x.key)
			if err != nil {
				return err
			}
			if was, err = record.DecodePlan(e.Value); err != nil {
				return errChanged
			}
			if was.Incarnation > s.plan.Incarnation && was.Hold && !worn(was) {
				return nil // members have begun one themselves
			}
			rev = e.Rev
		}
		b, _, err := s.nextPlan(was, server)
		if err != nil {
			return err
		}
		_, err = store.Put(ctx, x.key, b, rev)
		if was == nil || !errors.Is(err, rota.ErrConflict) {
			return err
		}
	}
}

// wallIncarnation is the wall clock as incarnations count it.
func wallIncarnation() uint32 { return uint32(time.Now().Unix() / 4) }

// nextPlan is the plan of a new incarnation, as a member writes it that has noticed
// a loss (bumpPlan in internal/core): the rows as they are, nobody leads, and
// nothing is granted before a leader has waited. With back it could not count on
// from the incarnation there was.
func (s *survey) nextPlan(was *record.Plan, server string) (b []byte, back bool, err error) {
	seen, wall := uint32(0), wallIncarnation()
	if was != nil {
		seen = was.Incarnation
	} else {
		was = &record.Plan{}
		for _, m := range s.members {
			// What no clock can have led to is nobody's word: somebody made it up.
			if m.AckInc < wall+1<<20 {
				seen = max(seen, m.AckInc)
			}
		}
	}
	// A sum that wraps is lower than the clock, which then serves.
	if b, err = record.Encode(anew(was, max(seen+1, wall), server)); err != nil {
		back = true
		b, err = record.Encode(anew(was, wall, server))
	}
	return b, back || max(seen+1, wall) <= seen, err
}

// worn tells whether the plan's counters are near their end.
func worn(p *record.Plan) bool {
	return max(p.Gen, p.Term, p.ID, p.Orders) > wornCounter || p.Roster > wornRoster ||
		slices.ContainsFunc(p.Rows, func(r record.Row) bool { return r.Token.Counter() > wornToken })
}

// anew is p in another incarnation. That comes before every other counter when
// two plans, acknowledgements or tokens are compared, so those that are near their
// end may begin again.
func anew(p *record.Plan, inc uint32, server string) *record.Plan {
	next := *p.Full()
	next.Rows = slices.Clone(next.Rows)
	for _, c := range []*uint64{&next.Gen, &next.Term, &next.ID, &next.Orders} {
		if *c > wornCounter {
			*c = 0
		}
	}
	if next.Roster > wornRoster {
		next.Roster = 0
	}
	next.Gen++
	next.Term = max(next.Term, 1)
	for i := range next.Rows {
		r := &next.Rows[i]
		r.Rev = min(r.Rev, next.Gen)
		if r.Token.Counter() > wornToken || r.Token.Incarnation() > inc {
			r.Token = record.MakeToken(inc, 1)
		}
	}
	next.Incarnation, next.Decided, next.Leader, next.Hold = inc, next.Gen, 0, true
	next.Server, next.Write = server, rand.Uint64()|1
	return &next
}
