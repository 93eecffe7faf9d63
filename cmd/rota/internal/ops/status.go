package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
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

On a terminal it shows what fits, and what matters most on top: problems, orders,
partitions that do not run. --all shows everything, and so does a pipe.

Exit codes, for health checks: 0 all is well, or the group itself is about to put it
right; 8 something is wrong that somebody should look at, each in a line "problem:"
and in the JSON list "problems"; 1 there is no such group; 69 the store cannot be
reached. With --watch it is 0.`,
		Example: `  rota status                     of the rota up of this folder
  rota status --watch
  rota status -o json --group orders --store nats://localhost:4222`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v.frame = func(st *rota.Status, width, height int) []screen.Line {
				return statusFrame(st, t.Store, time.Now(), width, height)
			}
			return v.show(cmd, &t, func(w io.Writer, st *rota.Status) error { return printStatus(w, &t, st, time.Now()) },
				func(st *rota.Status) (any, error) { return inOrder(st), nil })
		},
	}
	t.Flags(cmd)
	v.flags(cmd, true)
	cmd.Flags().BoolVar(&v.all, "all", false, "everything, also if it does not fit on the terminal")
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

// heading says what the group is doing, and where it meets.
func heading(st *rota.Status, store string, now time.Time) []string {
	return []string{
		fmt.Sprintf("group %s: %s, plan %d%s, %s", st.Group, Leader(st, now), st.Plan, LastPlan(st, now), phase(st)),
		fmt.Sprintf("store %s, %s", cli.Redact(store), cmp.Or(classWords[st.Class], "class unknown: treated like one that may lose acknowledged writes")),
	}
}

// printStatus prints everything, for programs and for --all.
func printStatus(w io.Writer, t *connect.Target, st *rota.Status, now time.Time) error {
	st = plain.Copy(st)
	for _, text := range append(heading(st, t.Store, now), loadWords(st, now)...) {
		fmt.Fprintln(w, text)
	}
	for _, l := range notes(st, now) {
		fmt.Fprintln(w, l.Text)
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
				since = fmt.Sprintf(", since the plan of %s, because %s", cli.Ago(now.Sub(x.Since)), cmp.Or(line.Causes(x.Causes), "of nothing on record"))
			}
			fmt.Fprintf(w, "  %s waits for %s (%s%s)\n", x.Partition, WaitWords[x.For], st.NameOf(x.Member), since)
		}
	}
	fmt.Fprintln(w)
	if err := printMembers(w, st, now); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return printPartitions(w, st, now, false)
}

func LastPlan(st *rota.Status, now time.Time) string {
	if n := len(st.History); n > 0 && st.History[n-1].Plan == st.Plan {
		h := st.History[n-1]
		return fmt.Sprintf(" (%s, %s)", cmp.Or(line.Causes(h.Causes), "no cause on record"), cli.Ago(now.Sub(h.Time)))
	}
	return ""
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

// loadWords say what arrives and what that needs, of a group that packs by load.
func loadWords(st *rota.Status, now time.Time) []string {
	l := st.Load
	switch {
	case l == nil:
		return nil
	case !l.Known:
		return []string{fmt.Sprintf("load: not known, partitions are placed by number (%s)", cli.Ago(now.Sub(l.Time)))}
	}
	out := []string{fmt.Sprintf("load: %.4g %s per second, backlog %s (%s)", l.Speed, l.Unit, cli.Grouped(int(l.Backlog)), cli.Ago(now.Sub(l.Time)))}
	if !l.Looked.IsZero() {
		what := "nothing had to move"
		if l.Moved {
			what = "partitions moved"
		}
		out = append(out, fmt.Sprintf("      looked at %s: %s; %s", cli.Ago(now.Sub(l.Looked)), l.Needs, what))
	}
	return append(out, sizeWords(st, now)...)
}

// sizeWords say how many members are wanted, of a group with a scaler.
func sizeWords(st *rota.Status, now time.Time) []string {
	s := st.Size
	if s == nil {
		return nil
	}
	text := fmt.Sprintf("size: %d wanted, %d there", s.Wanted, s.Have)
	if len(s.Going) > 0 {
		text += "; to go: " + strings.Join(s.Going, ", ")
	}
	if !s.Asked.IsZero() {
		text += fmt.Sprintf("; the scaler was asked %s and said: %s", cli.Ago(now.Sub(s.Asked)), cmp.Or(s.Answer, "all is well"))
	}
	return []string{text}
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
	case m.Continues && (m.State == rota.MemberDead || m.Silent && m.Age > m.Lease):
		out += ", may work on"
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
	topics := meta && slices.ContainsFunc(st.Partitions, func(p rota.PartitionInfo) bool { return p.Topic != "" })
	if topics {
		head += "\tTOPIC"
	}
	if meta {
		head += "\tMETA"
	}
	fmt.Fprintln(tw, head)
	all := slices.Clone(st.Partitions)
	slices.SortFunc(all, func(a, b rota.PartitionInfo) int { return cli.Natural(a.Name, b.Name) })
	stateOf := PartitionStates(st)
	for _, p := range all {
		if p.Reason == rota.ReasonRemoved && !meta {
			continue
		}
		owner, since := "-", "-"
		if p.Owner != "" {
			owner = p.Member
		}
		if !p.Since.IsZero() {
			since = cli.Ago(now.Sub(p.Since))
		}
		load := ""
		if st.Load != nil {
			load = fmt.Sprintf("%.4g\t%s\t", p.Speed, cli.Grouped(int(p.Backlog)))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s%d\t%s\t%s", p.Name, stateOf(&p), owner, load, uint32(p.Token), since, cmp.Or(line.Causes(p.Causes), "-"))
		if topics {
			fmt.Fprintf(tw, "\t%s", cmp.Or(p.Topic, "-"))
		}
		if meta {
			fmt.Fprintf(tw, "\t%s", labels(p.Meta))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// ByClock marks the members whose heartbeats are overdue as silent. It is for members
// of this machine, whose clock dates their heartbeats.
func ByClock(st *rota.Status, now time.Time) {
	for i := range st.Members {
		m := &st.Members[i]
		m.Silent = m.State == rota.MemberLive && now.Sub(m.Sent) > m.Heartbeat*3/2
	}
}
