package ops

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/record"
	"github.com/spf13/cobra"
)

func GroupCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Find out what is wrong with a group's records, and mend it",
		Example: `  rota group check
  rota group repair
  rota group reset --why 'nobody can write the plan'`,
	}
	cmd.AddCommand(groupCheckCmd(), groupRepairCmd(), groupResetCmd())
	return cmd
}

func groupCheckCmd() *cobra.Command {
	var t connect.Target
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read every record of a group, and say what is wrong with it",
		Long: `Check reads everything that stands in the store under a group. Of each thing that
is wrong it says which record it is, what members do about it by themselves, and
which command helps. It asks no member and changes nothing.

Heartbeats are dated by the clocks of the members' machines: where those are wrong,
so is what it says of silent members.

Exit codes: 0 all well, 8 something is wrong.`,
		Example: `  rota group check
  rota group check -o json --group orders --store nats://localhost:4222`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, store, err := surveyAll(cmd.Context(), &t)
			if err != nil {
				return err
			}
			store.Close()
			found := s.troubles(time.Now())
			if err := printTroubles(cmd.OutOrStdout(), output, s, found); err != nil {
				return err
			}
			if len(found) > 0 {
				return cli.Quietly(cli.ExitUndone)
			}
			return nil
		},
	}
	t.Flags(cmd)
	outputFlag(cmd, &output)
	return cmd
}

func outputFlag(cmd *cobra.Command, output *string) {
	*output = "table" // as of all commands, which one file of settings may serve
	cmd.Flags().VarP(cli.OneWord(output, "table", "json"), "output", "o", "how to print it")
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// A checkedGroup is what group check prints as JSON.
type checkedGroup struct {
	Group    string    `json:"group"`
	Records  int       `json:"records"` // in the store
	Live     int       `json:"live"`    // members
	Troubles []trouble `json:"troubles"`
}

// A trouble is one thing that is wrong with a record.
type trouble struct {
	Key     string `json:"key"`
	Rev     uint64 `json:"rev"`  // 0: no such record is there
	Size    int    `json:"size"` // in bytes
	Wrong   string `json:"wrong"`
	Members string `json:"members"` // what they do about it by themselves
	Help    string `json:"help"`    // what an operator can do
}

func printTroubles(w io.Writer, output string, s *survey, found []trouble) error {
	if output == "json" {
		return printJSON(w, checkedGroup{s.group, len(s.all), s.live(), append([]trouble{}, found...)})
	}
	wrong := "nothing is"
	if len(found) > 0 {
		wrong = cli.Count(len(found), "thing")
	}
	fmt.Fprintf(w, "group %s: %s, %s live, %s wrong\n", s.group, cli.Count(len(s.all), "record"), cli.Count(s.live(), "member"), wrong)
	for _, f := range plain.Copy(found) {
		where := "not there"
		if f.Rev != 0 {
			where = fmt.Sprintf("revision %d, %s", f.Rev, cli.Count(f.Size, "byte"))
		}
		fmt.Fprintf(w, "\n%s (%s)\n  wrong    %s\n  members  %s\n  help     %s\n", f.Key, where, f.Wrong, f.Members, f.Help)
	}
	return nil
}

// From these numbers on a counter is told as near its end: not far beyond them it
// cannot be read. No group counts that far by itself.
const (
	wornCounter = 1 << 61
	wornToken   = 1<<32 - 1<<20
	wornRoster  = (1<<32 - 1<<21) << 32 // a roster's version begins with the incarnation
)

const (
	helpRepair = "rota group repair"
	helpReset  = "rota group reset"
	helpNone   = "nothing needs to be done"
)

// troubles is all that is wrong, by key.
func (s *survey) troubles(now time.Time) (out []trouble) {
	tell := func(x *standing, key, wrong, members, help string) {
		f := trouble{Key: key, Wrong: wrong, Members: members, Help: help}
		if x != nil {
			f.Rev, f.Size = uint64(x.rev), x.size
		}
		out = append(out, f)
	}
	for i := range s.all {
		x := &s.all[i]
		switch {
		case x.kind == unknownKind && !addressable(x.key):
			tell(x, x.key, "no record of rota has this key, and rota cannot name it", "leave it out", "remove it with the store's own tools")
		case x.kind == unknownKind:
			tell(x, x.key, "no record of this version of rota has this key", "leave it out", helpRepair+", unless a newer rota runs in this group")
		case x.bad != nil:
			tell(x, x.key, "it cannot be read: "+x.bad.Error(), unreadMembers[x.kind], helpRepair)
		}
	}
	s.planTroubles(tell)
	s.listTroubles(tell)
	for _, m := range s.members {
		s.memberTroubles(m, now, tell)
	}
	slices.SortStableFunc(out, func(a, b trouble) int { return cli.Natural(a.Key, b.Key) })
	return out
}

// unreadMembers is what members do about a record that they cannot read.
var unreadMembers = map[recordKind]string{
	planKind:    "go on with the plan they know; nothing moves any more, whoever dies, and nobody can join",
	rosterKind:  "go on with the roster they know; newcomers start nothing, and the next leader plans nothing",
	ordersKind:  "go on with the orders the leader knows; no order can be given, and the next leader plans nothing",
	historyKind: "write a new one with the next plan: it is for people only",
	loadsKind:   "write a new one with the next measurement: it is for people only",
	memberKind:  "cannot tell whether this session lives: its own process stops when its lease ends, its partitions stay without an owner, and the next leader plans nothing",
}

// a teller takes one trouble: the record, if it is there, its key and the words.
type teller func(x *standing, key, wrong, members, help string)

func (s *survey) planTroubles(tell teller) {
	x, key := s.find(planKind), s.group+"/plan"
	if x == nil {
		tell(nil, key, "there is no plan", "that run take this for a store that lost writes, and make one; otherwise the next to join makes it", helpNone)
	}
	p := s.plan
	if p == nil {
		return
	}
	for _, c := range []struct {
		field       string
		value, last uint64
	}{{"gen", p.Gen, wornCounter}, {"term", p.Term, wornCounter}, {"id", p.ID, wornCounter}, {"roster", p.Roster, wornRoster}, {"orders", p.Orders, wornCounter}} {
		if c.value > c.last {
			tell(x, key, fmt.Sprintf("%s is %d: that cannot be counted on from for long", c.field, c.value),
				"count on until the plan cannot be written any more", helpReset)
		}
	}
	if _, back, _ := s.nextPlan(p, ""); back {
		tell(x, key, fmt.Sprintf("incarnation is %d, the last; by the wall clock it would be %d", p.Incarnation, wallIncarnation()),
			"go on, until they notice a loss: then none can begin a new one", helpReset)
	}
	if worn := s.rows(func(r *record.Row) bool { return r.Token.Counter() > wornToken }); len(worn) > 0 {
		tell(x, key, "tokens are nearly used up of "+some(worn), "begin a new incarnation when they are: every session ends once, and nothing runs for a lease",
			helpReset+" does the same at an hour that suits you")
	}
	s.strangers(x, key, tell)
}

// strangers tells of sessions that the plan names and that have no record.
func (s *survey) strangers(x *standing, key string, tell teller) {
	p := s.plan
	var owners, others []string
	seen := map[record.Session]bool{0: true}
	look := func(list *[]string, session record.Session) {
		if !seen[session] && s.record(session) == nil {
			*list = append(*list, session.String())
		}
		seen[session] = true
	}
	for i := range p.Rows {
		look(&owners, p.Rows[i].Owner)
	}
	look(&others, p.Leader)
	for _, m := range p.Members {
		look(&others, m)
	}
	if len(owners) > 0 && !p.Hold {
		tell(x, key, "it names owners without a record: "+some(owners),
			"take this for a store that lost writes: every session ends once, and a new incarnation begins with a hold", helpNone)
	}
	if len(others) > 0 {
		tell(x, key, "it names members without a record: "+some(others), "leave them out of the next plan; if it is the leader, the next in line leads", helpNone)
	}
}

// listTroubles is what is wrong with roster and orders.
func (s *survey) listTroubles(tell teller) {
	roster, orders := s.find(rosterKind), s.find(ordersKind)
	if s.roster != nil && s.roster.Ver > wornRoster {
		tell(roster, s.group+"/roster", fmt.Sprintf("ver is %d: that cannot be counted on from for long", s.roster.Ver),
			"count on until no roster can be written any more, and then keep the partitions they have", helpReset)
	}
	if s.orders != nil && s.orders.Ver > wornCounter {
		tell(orders, s.group+"/orders", fmt.Sprintf("ver is %d: that cannot be counted on from for long", s.orders.Ver),
			"obey them; soon no order can be given any more", helpReset)
	}
	if s.plan == nil {
		return
	}
	older := func(x *standing, readable bool, ver, obeys uint64) bool {
		return ver < obeys && (x == nil || readable)
	}
	var rosterVer, ordersVer uint64
	if s.roster != nil {
		rosterVer = s.roster.Ver
	}
	if s.orders != nil {
		ordersVer = s.orders.Ver
	}
	if older(roster, s.roster != nil, rosterVer, s.plan.Roster) {
		tell(roster, s.group+"/roster", fmt.Sprintf("it has version %d, and the plan obeys %d", rosterVer, s.plan.Roster),
			"take this for a store that lost writes: every session ends once, and the next leader makes a new roster from the source", helpNone+", unless the plan's counter is near its end")
	}
	if older(orders, s.orders != nil, ordersVer, s.plan.Orders) {
		tell(orders, s.group+"/orders", fmt.Sprintf("it has version %d, and the plan obeys %d", ordersVer, s.plan.Orders),
			"obey the orders that stand here; if the leader knows newer ones, every session ends once", "give the lost orders again; rota status shows those that count")
	}
}

func (s *survey) memberTroubles(m *record.Member, now time.Time, tell teller) {
	x := s.record(m.Session)
	if s.plan != nil && m.State == record.Left && m.Bug != 0 && m.Bug == s.plan.Decided {
		tell(x, x.key, fmt.Sprintf("%s led, and ended on a bug of rota over the plan that stands here", m.Name),
			"plan nothing until an order is given or a member comes or goes, so that they do not end on it one by one", "report the bug; any order makes them try again, "+helpReset+" begins anew")
	}
	if m.State.Ended() {
		return
	}
	if m.Seq > wornCounter {
		tell(x, x.key, fmt.Sprintf("seq of %s is %d: that cannot be counted on from for long", m.Name, m.Seq),
			"this one ends when it cannot beat any more", "start it again")
	}
	silence := now.Sub(time.UnixMilli(m.Sent))
	left := DeadAfter(m.Lease) - silence
	dead := "rota declare-dead, if its process is gone for good: see its --help"
	switch {
	case left <= 0:
		tell(x, x.key, fmt.Sprintf("%s (%s) has been silent for %s, longer than its lease of %v", m.Name, m.State, cli.Roughly(silence), m.Lease),
			"whoever leads declares it dead once it has itself seen the silence for as long; if that does not happen, no member runs", "start a member, if none runs")
	case silence > 3*m.Beat:
		does := fmt.Sprintf("declare it dead in %s", cli.Roughly(left))
		if owned := s.ownedBy(m.Session); len(owned) > 0 {
			does += "; until then nobody else gets " + some(owned)
		}
		tell(x, x.key, fmt.Sprintf("%s (%s) has been silent for %s, %d heartbeats", m.Name, m.State, cli.Roughly(silence), silence/m.Beat), does, dead)
	}
	if s.plan == nil {
		return
	}
	leader := s.member(s.plan.Leader)
	if leader != nil && m.Lease > 4*leader.Lease {
		what := "do not take it in while that one leads"
		if planNames(s.plan, m.Session) {
			what = "wait that long for it if it falls silent; once it has ended, the leader does not take it in again"
		}
		tell(x, x.key, fmt.Sprintf("%s has a lease of %v, more than four times that of %s, which leads, %v", m.Name, m.Lease, leader.Name, leader.Lease),
			what, "start it with a lease like the others'; "+dead)
	}
	if m.AckInc > s.plan.Incarnation {
		tell(x, x.key, fmt.Sprintf("%s has applied a plan of incarnation %d, and the one that stands here is of %d", m.Name, m.AckInc, s.plan.Incarnation),
			"take this for a store that lost writes: every session ends once, and a new incarnation begins with a hold", helpNone)
	}
}
