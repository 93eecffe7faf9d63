package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// inspect reads the group. The store is the caller's to close.
func inspect(ctx context.Context, t *connect.Target) (*rota.Status, rota.Store, error) {
	store, err := t.Open()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connect.StoreTime)
	defer cancel()
	st, err := inspectIn(ctx, t, store, rota.Inspect)
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return st, store, nil
}

// observeTime is how long an observer may look for heartbeats, and read.
const observeTime = 30*time.Second + connect.StoreTime

// inspectIn reads the group by Inspect or, where people want to know who is silent, by
// Observe.
func inspectIn(ctx context.Context, t *connect.Target, store rota.Store, read func(context.Context, rota.Store, string) (rota.Status, error)) (*rota.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	if err := connect.Reach(ctx, store, t.Group); err != nil {
		return nil, cli.Unreachable(t.Store, err)
	}
	st, err := read(ctx, store, t.Group)
	switch {
	case errors.Is(err, rota.ErrNotFound):
		return nil, fmt.Errorf("there is no group called %q %s yet: it begins with its first member", t.Group, inStore(t.Store))
	case errors.Is(err, rota.ErrUnreadable):
		return nil, fmt.Errorf("%w; rota group check says more, rota group repair mends it", err)
	case err != nil:
		return nil, cli.Unreachable(t.Store, err)
	}
	return &st, nil
}

func inStore(url string) string {
	if strings.HasPrefix(url, "folder:") {
		return cli.Redact(url)
	}
	return "in " + cli.Redact(url)
}

// A view is how a command shows what it read: once, or again and again.
type view struct {
	output string
	watch  bool
	every  time.Duration
	health bool // the exit code says whether the group is well
}

// verdict is the end of a command that has shown the group.
func (v *view) verdict(st *rota.Status) error {
	if v.health && len(st.Problems) > 0 {
		return cli.Quietly(cli.ExitUndone)
	}
	return nil
}

func (v *view) flags(cmd *cobra.Command, watch bool) {
	v.output, v.every = "table", time.Second
	cmd.Flags().VarP(cli.OneWord(&v.output, "table", "json"), "output", "o", "how to print it")
	if watch {
		cmd.Flags().BoolVar(&v.watch, "watch", false, "again and again, until Ctrl-C")
		cmd.Flags().Var(cli.Span(&v.every), "every", "how often, with --watch")
	}
}

// show prints what the group looks like, by table or as JSON.
func (v *view) show(cmd *cobra.Command, t *connect.Target, table func(io.Writer, *rota.Status) error, shape func(*rota.Status) (any, error)) error {
	ctx, w := cmd.Context(), cmd.OutOrStdout()
	store, err := t.Open()
	if err != nil {
		return err
	}
	defer store.Close()
	st, err := inspectIn(ctx, t, store, rota.Observe)
	if err != nil {
		return err
	}
	for {
		var text strings.Builder
		if v.output == "json" {
			x, err := shape(st)
			if err != nil {
				return err
			}
			enc := json.NewEncoder(&text)
			if !v.watch {
				enc.SetIndent("", "  ")
			}
			if err := enc.Encode(x); err != nil {
				return err
			}
		} else if err := table(&text, st); err != nil {
			return err
		}
		if v.watch && v.output == "table" && cli.Columns(w) > 0 {
			fmt.Fprint(w, "\x1b[H\x1b[2J")
		}
		if _, err := io.WriteString(w, text.String()); err != nil {
			return err
		}
		if !v.watch {
			return v.verdict(st)
		}
		if v.output == "table" {
			fmt.Fprintln(w)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(v.every):
		}
		if st, err = inspectIn(ctx, t, store, rota.Observe); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

func StatusCmd() *cobra.Command {
	var t connect.Target
	v := view{health: true}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a group: leader, plan, members, partitions, what is waited for",
		Long: `Status reads a group from its store and shows who leads, which plan counts, what is
waited for, the members and the partitions. It asks no member and changes nothing.

Heartbeats are dated by the clocks of the members' machines: where those are wrong,
so are the ages. A member is called silent only if no heartbeat came while status
looked for one; if a heartbeat looks old, that takes one and a half heartbeats.

Exit codes, for health checks: 0 all is well, or the group itself is about to put it
right; 8 something is wrong that somebody should look at, each in a line "problem:"
and in the JSON list "problems"; 1 there is no such group; 69 the store cannot be
reached. With --watch it is 0.`,
		Example: `  rota status                     of the rota up of this folder
  rota status --watch
  rota status -o json --group orders --store nats://localhost:4222`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.show(cmd, &t, func(w io.Writer, st *rota.Status) error { return printStatus(w, &t, st, time.Now()) },
				func(st *rota.Status) (any, error) { return inOrder(st), nil })
		},
	}
	t.Flags(cmd)
	v.flags(cmd, true)
	return cmd
}

func partitionsListCmd() *cobra.Command {
	var t connect.Target
	var v view
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the partitions with their owners and metadata",
		Example: "  rota partitions list\n  rota partitions list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.show(cmd, &t, func(w io.Writer, st *rota.Status) error { return printPartitions(w, st, time.Now(), true) },
				func(st *rota.Status) (any, error) { return st.Partitions, nil })
		},
	}
	t.Flags(cmd)
	v.flags(cmd, true)
	return cmd
}

var WaitWords = map[rota.WaitFor]string{
	rota.WaitStop: "its owner to stop", rota.WaitGrant: "its grant", rota.WaitAck: "its owner to see the plan", rota.WaitStart: "the source to confirm its start",
}

var PhaseWords = map[rota.Phase]string{
	rota.Sentinel: "at rest", rota.Computing: "about to plan", rota.Changing: "partitions are changing hands", rota.Vacant: "nothing runs",
}

var classWords = map[rota.Class]string{
	rota.ClassA: "class A: acknowledged writes survive any failover",
	rota.ClassB: "class B: one server with a durable log",
	rota.ClassC: "class C: a failover may lose acknowledged writes; exclusive then only with a sink that checks tokens",
}

func printStatus(w io.Writer, t *connect.Target, st *rota.Status, now time.Time) error {
	st = plain.Copy(st)
	fmt.Fprintf(w, "group %s: %s, plan %d%s, %s\n", st.Group, Leader(st, now), st.Plan, LastPlan(st, now), phase(st))
	fmt.Fprintf(w, "store %s, %s\n", cli.Redact(t.Store), cmp.Or(classWords[st.Class], "class unknown: treated like one that may lose acknowledged writes"))
	printLoad(w, st, now)
	printNotes(w, st)
	fmt.Fprintln(w)
	if err := printMembers(w, st, now); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := printPartitions(w, st, now, false); err != nil {
		return err
	}
	if len(st.Waits) > 0 {
		fmt.Fprintf(w, "\nwaiting (%d):\n", len(st.Waits))
		for i, x := range st.Waits {
			if i == 20 {
				fmt.Fprintf(w, "  … and %d more\n", len(st.Waits)-i)
				break
			}
			since := ""
			if !x.Since.IsZero() {
				since = ", since the plan of " + cli.Ago(now.Sub(x.Since))
			}
			fmt.Fprintf(w, "  %s waits for %s (%s%s)\n", x.Partition, WaitWords[x.For], st.NameOf(x.Member), since)
		}
	}
	return nil
}

func LastPlan(st *rota.Status, now time.Time) string {
	if n := len(st.History); n > 0 && st.History[n-1].Plan == st.Plan {
		h := st.History[n-1]
		return fmt.Sprintf(" (%s, %s)", cmp.Or(line.Causes(h.Causes), "no cause on record"), cli.Ago(now.Sub(h.Time)))
	}
	return ""
}

// printNotes tells what a person should know: holds, orders, conditions.
func printNotes(w io.Writer, st *rota.Status) {
	for _, p := range st.Problems {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
	if st.Hold {
		fmt.Fprintln(w, "hold: "+holdWords(st))
	}
	o := &st.Orders
	if o.Freeze {
		fmt.Fprintln(w, "order: frozen, nothing moves that need not (rota thaw)")
	}
	if len(o.Paused) > 0 {
		fmt.Fprintf(w, "order: paused %s (rota resume)\n", strings.Join(o.Paused, ", "))
	}
	if len(o.Drains) > 0 {
		fmt.Fprintf(w, "order: drained %s (rota undrain)\n", strings.Join(o.Drains, ", "))
	}
	for _, p := range cli.SortedKeys(o.Pins) {
		fmt.Fprintf(w, "order: %s is pinned to %s (rota unpin)\n", p, o.Pins[p])
	}
	for _, p := range cli.SortedKeys(o.Bans) {
		fmt.Fprintf(w, "order: %s is kept away from %s (rota unban)\n", p, strings.Join(o.Bans[p], ", "))
	}
	for _, c := range st.Conditions {
		fmt.Fprintf(w, "condition: %s (rota group check)\n", c)
	}
	for _, m := range st.Members {
		for _, c := range m.Conditions {
			if (m.State == rota.MemberLive || m.State == rota.MemberLeaving) && c.Code != rota.ConditionHold && !isProblem(st, &m, c) {
				fmt.Fprintf(w, "condition: %s: %s\n", m.Name, c)
			}
		}
	}
}

// isProblem tells whether a condition is among the problems, so that it is not shown
// twice.
func isProblem(st *rota.Status, m *rota.MemberInfo, c rota.ConditionInfo) bool {
	return slices.ContainsFunc(st.Problems, func(p rota.Problem) bool {
		return p.Code == c.Code && p.Member == m.Name && p.Text == c.Text && (c.Partition == "" || slices.Contains(p.Partitions, c.Partition))
	})
}

// holdWords says how long the leader still waits, if it has said so.
func holdWords(st *rota.Status) string {
	for _, m := range st.Members {
		for _, c := range m.Conditions {
			if m.Session == st.Leader && c.Code == rota.ConditionHold {
				return c.Text
			}
		}
	}
	return "nothing is granted until every lease that this store may have forgotten is over"
}

// leaderOf is the record of the session that the plan names as its leader, if there is
// one.
func leaderOf(st *rota.Status) *rota.MemberInfo {
	for i := range st.Members {
		if st.Members[i].Session == st.Leader && st.Leader != "" {
			return &st.Members[i]
		}
	}
	return nil
}

// Leader says who leads, or why nobody does.
func Leader(st *rota.Status, now time.Time) string {
	live, ended := MemberOrder(st)
	leader := leaderOf(st)
	switch {
	case st.Phase == rota.Vacant && len(ended) > 0:
		return fmt.Sprintf("nobody leads: the last member, %s, %s", ended[0].Name, endWords(&ended[0], now))
	case st.Phase == rota.Vacant:
		return "nobody leads: there is no member"
	case leader == nil:
		return "nobody leads at this moment"
	case leader.Silent && !slices.ContainsFunc(live, func(m rota.MemberInfo) bool { return !m.Silent }):
		return fmt.Sprintf("nobody is heard: %s led, its last heartbeat came %s", leader.Name, cli.Ago(now.Sub(leader.Sent)))
	case leader.Silent:
		return fmt.Sprintf("%s leads and is silent, its last heartbeat came %s: another takes over after %.1f s", leader.Name, cli.Ago(now.Sub(leader.Sent)), DeadAfter(leader.Lease).Seconds())
	case leader.State != rota.MemberLive && leader.State != rota.MemberLeaving:
		return fmt.Sprintf("nobody leads at this moment: %s led and %s", leader.Name, endWords(leader, now))
	}
	return fmt.Sprintf("%s leads (term %d)", st.LeaderName, st.Term)
}

// endWords says how and when a member ended.
func endWords(m *rota.MemberInfo, now time.Time) string {
	ago := cli.Ago(now.Sub(m.Sent))
	switch m.State {
	case rota.MemberLeft:
		return "left " + ago
	case rota.MemberDead:
		return "was declared dead, its last heartbeat came " + ago
	}
	return "was evicted, its last heartbeat came " + ago
}

// phase says what the group is doing. A group is at rest only if all is well.
func phase(st *rota.Status) string {
	if st.Phase == rota.Sentinel && len(st.Problems) > 0 {
		return "needs attention"
	}
	return PhaseWords[st.Phase]
}

// inOrder is a status with its members as people are shown them.
func inOrder(st *rota.Status) *rota.Status {
	live, ended := MemberOrder(st)
	out := *st
	out.Members = append(live, ended...)
	return &out
}

// MemberOrder sorts the members for people: those that live come first, by name, and
// those that have ended follow, the last one first.
func MemberOrder(st *rota.Status) (live, ended []rota.MemberInfo) {
	for _, m := range st.Members {
		if m.State == rota.MemberDead || m.State == rota.MemberLeft {
			ended = append(ended, m)
		} else {
			live = append(live, m)
		}
	}
	byName := func(a, b rota.MemberInfo) int {
		return cmp.Or(cli.Natural(a.Name, b.Name), strings.Compare(a.Session, b.Session))
	}
	slices.SortFunc(live, byName)
	slices.SortFunc(ended, func(a, b rota.MemberInfo) int { return b.Sent.Compare(a.Sent) })
	return live, ended
}

// printLoad says what arrives and what that needs, of a group that packs by load.
func printLoad(w io.Writer, st *rota.Status, now time.Time) {
	l := st.Load
	switch {
	case l == nil:
		return
	case !l.Known:
		fmt.Fprintf(w, "load: not known, partitions are placed by number (%s)\n", cli.Ago(now.Sub(l.Time)))
		return
	}
	fmt.Fprintf(w, "load: %.4g %s per second, backlog %s (%s)\n", l.Speed, l.Unit, cli.Grouped(int(l.Backlog)), cli.Ago(now.Sub(l.Time)))
	if !l.Looked.IsZero() {
		what := "nothing had to move"
		if l.Moved {
			what = "partitions moved"
		}
		fmt.Fprintf(w, "      looked at %s: %s; %s\n", cli.Ago(now.Sub(l.Looked)), l.Needs, what)
	}
}

// loadOf says what a member carries, and what it sustains.
func loadOf(m *rota.MemberInfo) string {
	if m.Capacity == 0 {
		return fmt.Sprintf("%.4g of ?", m.Load)
	}
	return fmt.Sprintf("%.4g of %.4g", m.Load, m.Capacity)
}

func printMembers(w io.Writer, st *rota.Status, now time.Time) error {
	live, ended := MemberOrder(st)
	tw := cli.Table(w)
	load := ""
	if st.Load != nil {
		load = "LOAD\t"
	}
	fmt.Fprintln(tw, "MEMBER\tSTATE\tHEARTBEAT\tPARTITIONS\t"+load+"PID\tSESSION\tLABELS")
	for _, m := range live {
		if st.Load != nil {
			load = loadOf(&m) + "\t"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s%d\t%s\t%s\n", m.Name, MemberState(st, &m), cli.Ago(now.Sub(m.Sent)), m.Partitions, load, m.PID, m.Session, labels(m.Labels))
	}
	if st.Load != nil {
		load = "-\t"
	}
	for i, m := range ended {
		if i == 5 {
			break
		}
		fmt.Fprintf(tw, "%s\t%s\tlast %s\t%d\t%s%d\t%s\t%s\n", m.Name, MemberState(st, &m), cli.Ago(now.Sub(m.Sent)), m.Partitions, load, m.PID, m.Session, labels(m.Labels))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(ended) > 5 {
		fmt.Fprintf(w, "and %d more that have ended\n", len(ended)-5)
	}
	return nil
}

// DeadAfter is how long a member must be silent before others may declare it dead.
func DeadAfter(lease time.Duration) time.Duration { return core.Timing{Lease: lease}.W() }

func MemberState(st *rota.Status, m *rota.MemberInfo) string {
	out := strings.ToLower(string(m.State))
	switch {
	case m.Silent && m.Age > DeadAfter(m.Lease):
		out = "silent, lease over"
	case m.Silent:
		out = fmt.Sprintf("silent, dead after %.1f s", DeadAfter(m.Lease).Seconds())
	case m.State == rota.MemberLive && m.Session == st.Leader:
		out = "leads"
	case m.State == rota.MemberLive && !m.Planned:
		out = "joining"
	case m.State == rota.MemberLive && slices.Contains(st.Orders.Drains, m.Name):
		out = "drained"
	case m.State == rota.MemberLive && m.Partitions == 0:
		out = "standby"
	}
	return out
}

func labels(m map[string]string) string {
	var out []string
	for _, k := range cli.SortedKeys(m) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

func printPartitions(w io.Writer, st *rota.Status, now time.Time, meta bool) error {
	st = plain.Copy(st)
	tw := cli.Table(w)
	head := "PARTITION\tSTATE\tOWNER\tTOKEN\tSINCE\tBECAUSE"
	if st.Load != nil {
		head = "PARTITION\tSTATE\tOWNER\tPER SECOND\tBACKLOG\tTOKEN\tSINCE\tBECAUSE"
	}
	if meta {
		head += "\tMETA"
	}
	fmt.Fprintln(tw, head)
	all := slices.Clone(st.Partitions)
	slices.SortFunc(all, func(a, b rota.PartitionInfo) int { return cli.Natural(a.Name, b.Name) })
	for _, p := range all {
		if p.Reason == rota.ReasonRemoved && !meta {
			continue
		}
		owner, since := "-", "-"
		if p.Owner != "" {
			owner = st.NameOf(p.Owner)
		}
		if !p.Since.IsZero() {
			since = cli.Ago(now.Sub(p.Since))
		}
		load := ""
		if st.Load != nil {
			load = fmt.Sprintf("%.4g\t%s\t", p.Speed, cli.Grouped(int(p.Backlog)))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s%d\t%s\t%s", p.Name, PartitionState(st, &p), owner, load, uint32(p.Token), since, cmp.Or(line.Causes(p.Causes), "-"))
		if meta {
			fmt.Fprintf(tw, "\t%s", labels(p.Meta))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

func waitOf(st *rota.Status, name string) (rota.Wait, bool) {
	for _, w := range st.Waits {
		if w.Partition == name {
			return w, true
		}
	}
	return rota.Wait{}, false
}

// ByClock marks the members whose heartbeats are overdue as silent. It is for members
// of this machine, whose clock dates their heartbeats.
func ByClock(st *rota.Status, now time.Time) {
	for i := range st.Members {
		m := &st.Members[i]
		m.Silent = m.State == rota.MemberLive && now.Sub(m.Sent) > m.Heartbeat*3/2
	}
}

func PartitionState(st *rota.Status, p *rota.PartitionInfo) string {
	var owner rota.MemberInfo
	if i := slices.IndexFunc(st.Members, func(m rota.MemberInfo) bool { return m.Session == p.Owner }); i >= 0 {
		owner = st.Members[i]
	}
	switch w, waits := waitOf(st, p.Name); {
	case p.Owner != "" && owner.State == rota.MemberLeft:
		return "nobody, owner left"
	case p.Owner != "" && owner.State == rota.MemberDead:
		return "nobody, owner dead"
	case p.Owner != "" && st.Phase == rota.Vacant:
		return "nobody, owner gone"
	case owner.Silent:
		return "owner silent"
	case p.State == rota.PartitionOwned && waits:
		return "starting"
	case p.State == rota.PartitionOwned:
		return "runs"
	case p.State == rota.PartitionRevoking:
		return "stopping"
	case p.Reason != "":
		return string(p.Reason)
	case waits && w.Member != "":
		return "for " + st.NameOf(w.Member)
	}
	return "free"
}
