package ops

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

func ExplainCmd() *cobra.Command {
	var t connect.Target
	var v view
	cmd := &cobra.Command{
		Use:   "explain PARTITION|MEMBER",
		Short: "Say in words who owns a partition, since when, why it moved and what it waits for",
		Long: `Explain tells the story of a partition: who owns it, since when, why it moved and what
it waits for. If no partition has that name, it tells of the live member that has. In a
group that changes its size it also says how many members are wanted and why, which ones
are to go, when the scaler was last asked and what it answered.`,
		Example: `  rota explain orders.3
  rota explain orders.3 --watch
  rota explain c2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.show(cmd, &t,
				func(w io.Writer, st *rota.Status) error {
					text, err := explain(st, args[0], time.Now())
					if err == nil {
						_, err = io.WriteString(w, text)
					}
					return err
				},
				func(st *rota.Status) (any, error) { return explainShape(st, args[0], time.Now()) })
		},
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFrom(cmd.Context(), t, explainable, args, typed)
	}
	t.Flags(cmd)
	v.flags(cmd, true)
	return cmd
}

// explainable are the names that explain knows.
func explainable(st *rota.Status) []string { return union(partitionNames(st), memberNames(st)) }

func findPartition(st *rota.Status, name string) (*rota.PartitionInfo, error) {
	for i := range st.Partitions {
		if st.Partitions[i].Name == name {
			return &st.Partitions[i], nil
		}
	}
	return nil, cli.Known("partition or live member", explainable(st), name)
}

// memberAlone is the live member with a name that no partition has; nil otherwise.
func memberAlone(st *rota.Status, name string) *rota.MemberInfo {
	if slices.Contains(partitionNames(st), name) {
		return nil
	}
	return findMember(st, name)
}

func explainShape(st *rota.Status, name string, now time.Time) (any, error) {
	text, err := explain(st, name, now)
	if err != nil {
		return nil, err
	}
	if m := memberAlone(st, name); m != nil {
		return explainedMember{m, text}, nil
	}
	p, err := findPartition(st, name)
	if err != nil {
		return nil, err
	}
	return explained{p, text}, nil
}

// An explained partition is what explain prints as JSON.
type explained struct {
	*rota.PartitionInfo
	Says string `json:"says"` // for people
}

// explain tells a partition's story, or a member's.
func explain(st *rota.Status, name string, now time.Time) (string, error) {
	if m := memberAlone(st, name); m != nil {
		return explainMember(st, m, now), nil
	}
	p, err := findPartition(st, name)
	if err != nil {
		return "", err
	}
	// From here on for people: all texts of others are made plain.
	st, p, name = plain.Copy(st), plain.Copy(p), plain.Text(name)
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("%s", whoHasIt(st, p))
	if !p.Since.IsZero() {
		add("That is so since plan %d, made %s (%s) because %s.", p.Plan, cli.Ago(now.Sub(p.Since)), p.Since.Format(time.TimeOnly), cmp.Or(line.Causes(p.Causes), "of nothing on record"))
	}
	for _, s := range whatItWaitsFor(st, p, now) {
		add("%s", s)
	}
	if st.Load != nil && st.Load.Known {
		add("%.4g %s per second arrive, and %s wait.", p.Speed, st.Load.Unit, cli.Grouped(int(p.Backlog)))
	}
	for _, s := range ordersAbout(st, p) {
		add("%s", s)
	}
	for _, m := range st.Members {
		for _, c := range m.Conditions {
			if c.Partition == name || c.Partition == "" && handlerTrouble[c.Code] != "" && m.Session == p.Owner {
				add("%s says: %s.", m.Name, c.Text)
			}
		}
	}
	for _, s := range sizeStory(st, now) {
		add("%s", s)
	}
	if n := len(st.History); n > 0 {
		add("The last plans:")
		for _, h := range st.History[max(0, n-4):] {
			add("  plan %d, %s: %s; %s changed hands, %s", h.Plan, cli.Ago(now.Sub(h.Time)), cmp.Or(line.Causes(h.Causes), "no cause on record"),
				cli.Count(h.Moves, "partition"), cli.Count(h.Members, "member"))
		}
	}
	return strings.Join(out, "\n") + "\n", nil
}

func whoHasIt(st *rota.Status, p *rota.PartitionInfo) string {
	owner := st.NameOf(p.Owner)
	switch {
	case p.State == rota.PartitionOwned:
		return fmt.Sprintf("%s is owned by %s, under token %d (the %s grant).", p.Name, owner, uint64(p.Token), ordinal(uint32(p.Token)))
	case p.State == rota.PartitionRevoking && p.To != "":
		return fmt.Sprintf("%s is being moved from %s to %s: %s was told to stop.", p.Name, owner, st.NameOf(p.To), owner)
	case p.State == rota.PartitionRevoking:
		return fmt.Sprintf("%s is being taken from %s, which was told to stop.", p.Name, owner)
	}
	switch p.Reason {
	case rota.ReasonPaused:
		return fmt.Sprintf("%s is paused by order: nobody runs it until rota resume %s.", p.Name, p.Name)
	case rota.ReasonRemoved:
		return p.Name + " was removed: nobody runs it any more. rota partitions add brings it back."
	case rota.ReasonReturning:
		return p.Name + " waits for the member that had it to come back (--return)."
	case rota.ReasonQuarantined:
		return fmt.Sprintf("%s is in quarantine: %d members in a row died while they ran it, under more than one name, and with no other partition as many. Look at its first message, then rota release %s.", p.Name, p.Deaths, p.Name)
	case rota.ReasonUnplaced:
		return p.Name + " has no owner, because no member may take it: look at drains, bans and limits."
	case rota.ReasonFailing:
		return fmt.Sprintf("%s has no owner at this moment: its source failed again and again. %s tries again after a pause of at most 8 s.", p.Name, st.NameOf(p.To))
	}
	if p.To != "" {
		return fmt.Sprintf("%s has no owner at this moment: %s gets it next.", p.Name, st.NameOf(p.To))
	}
	return p.Name + " has no owner."
}

func ordinal(n uint32) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

func whatItWaitsFor(st *rota.Status, p *rota.PartitionInfo, now time.Time) (out []string) {
	for _, m := range st.Members {
		if m.Session != p.Owner || p.Owner == "" {
			continue
		}
		silent := now.Sub(m.Sent)
		switch {
		case m.State == rota.MemberDead || m.State == rota.MemberLeft:
			out = append(out, fmt.Sprintf("%s has ended (%s): %s", m.Name, strings.ToLower(string(m.State)), nextWords(st)))
		case m.Silent && m.Continues:
			out = append(out, fmt.Sprintf("Nothing was heard of %s for %.1f s. It was started with --on-store-loss continue, so it may work on without a lease. After %.1f s of silence it is declared dead, and another starts beside it: only a sink that checks tokens tells them apart.",
				m.Name, silent.Seconds(), DeadAfter(m.Lease).Seconds()))
		case m.Silent:
			out = append(out, fmt.Sprintf("Nothing was heard of %s for %.1f s. It stops by itself before its lease of %v is over; after %.1f s of silence it is declared dead, and only then may another start.",
				m.Name, silent.Seconds(), m.Lease, DeadAfter(m.Lease).Seconds()))
			if !slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool { return m.State == rota.MemberLive && !m.Silent }) {
				out = append(out, "No other member is heard, so nobody takes it over: start one.")
			}
		case m.State == rota.MemberEvicted:
			out = append(out, fmt.Sprintf("%s was evicted, because it did not stop in time. It may still be running, so its lease has to run out first.", m.Name))
		case m.State == rota.MemberLeaving:
			out = append(out, m.Name+" is leaving and hands it over.")
		}
	}
	if w, ok := waitOf(st, p.Name); ok {
		out = append(out, fmt.Sprintf("It waits for %s (%s).", WaitWords[w.For], cmp.Or(st.NameOf(w.Member), "nobody")))
	} else if p.State == rota.PartitionOwned && len(out) == 0 && st.Phase != rota.Vacant {
		out = append(out, whatItsMessagesWaitFor(st, p))
	}
	if st.Hold {
		out = append(out, "Nothing is granted yet: "+holdWords(st)+".")
	}
	if st.Phase == rota.Vacant {
		out = append(out, "No member is left, so nobody runs it: it waits for one to join.")
	}
	return out
}

// nextWords says what becomes of a partition whose owner has ended.
func nextWords(st *rota.Status) string {
	if st.Phase == rota.Vacant {
		return "nobody runs it."
	}
	return "the leader gives it to another with its next plan."
}

// handlerTrouble are the conditions under which the messages of a partition wait, and
// what they wait for.
var handlerTrouble = map[rota.Condition]string{
	rota.ConditionHandlerFails: retried, rota.ConditionUntried: retried, rota.ConditionTokenRefused: retried,
	rota.ConditionHandlerBusy:  "It runs, and its messages wait until its handler returns.",
	rota.ConditionSourceSilent: "It runs, and its messages wait for the source to deliver them.",
	rota.ConditionNoProgress:   "It runs, and reports no progress.",
}

const retried = "It runs, and its messages wait: they are tried again until the first of them is handled."

// whatItsMessagesWaitFor is about a partition that its owner runs.
func whatItsMessagesWaitFor(st *rota.Status, p *rota.PartitionInfo) string {
	for _, m := range st.Members {
		for _, c := range m.Conditions {
			if says := handlerTrouble[c.Code]; says != "" && m.Session == p.Owner && c.Partition == p.Name {
				return says
			}
		}
	}
	return "It runs, and waits for nothing."
}

func ordersAbout(st *rota.Status, p *rota.PartitionInfo) (out []string) {
	o := &st.Orders
	if to := o.Pins[p.Name]; to != "" {
		s := fmt.Sprintf("It is pinned to %s by order.", to)
		switch {
		case !slices.Contains(memberNames(st), to):
			s += " No member of that name is live, so the pin is ignored."
		case slices.Contains(o.Drains, to):
			s += fmt.Sprintf(" %s is drained, so the pin is ignored.", to)
		}
		out = append(out, s)
	}
	for _, from := range o.Bans[p.Name] {
		s := "It is kept away from " + from + " by order."
		if o.Pins[p.Name] == from {
			s += " It is pinned there too, and the pin wins: end one of the two orders."
		}
		out = append(out, s)
	}
	switch {
	case o.Freeze && o.Pins[p.Name] != "":
		out = append(out, "The group is frozen by order: it moves only if its owner is gone, and to where it is pinned.")
	case o.Freeze:
		out = append(out, "The group is frozen by order: it moves only if its owner is gone.")
	}
	for _, l := range slices.Backward(o.Log) {
		if slices.Contains(strings.Fields(l.What), p.Name) {
			why := ""
			if l.Why != "" {
				why = fmt.Sprintf(", because: %s", l.Why)
			}
			out = append(out, fmt.Sprintf("The last order about it: %s, by %s at %s%s.", l.What, l.Who, l.Time.Format(time.DateTime), why))
			break
		}
	}
	return out
}
