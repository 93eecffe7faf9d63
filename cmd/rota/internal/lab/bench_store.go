package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/spf13/cobra"
)

// storeFlags are the flags of rota bench store.
type storeFlags struct {
	connect.Target
	members int
	each    time.Duration
	output  string
}

func benchStoreCmd() *cobra.Command {
	f := &storeFlags{members: 100, each: 5 * time.Second, output: "table"}
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Measure a store on its network, and recommend lease and heartbeat",
		Long: `Store measures what members ask of a store, one after the other:

  compare-and-set   one connection writes a record of the size of a heartbeat, again
                    and again
  fan-out           a plan of 1, 10 and 100 KB is written five times each; the clock
                    stops when the last of --members connections has seen it
  heartbeats        all connections write a record of their own, without a pause; the
                    first three also watch all of them, as a leader and its deputies do

Then it recommends a lease and a heartbeat, and says why. A heartbeat is given up after
a quarter of the lease; that is to be three times the longest call that was seen and ten
times the 99th percentile of single calls, and all members together are to write half as
much as the store can. It never recommends less than the default lease of 5 s: that has
to last longer than a failover of the servers, which is not measured here; the page of
each store says how long one takes.

It works in a group of its own, called bench- and random letters, and removes that when
it ends, also by Ctrl-C. Deletion marks of NATS stay for an hour. What a first member
would make too, a folder, a bucket or a chroot, stays. Run it where members run: it
measures the network, too. The servers have much to do meanwhile.

Exit codes: 0 measured, 1 it did not work, 64 usage, 69 the store cannot be reached,
130 interrupted.`,
		Example: `  rota bench store                                  the rota up of this folder
  rota bench store --store etcd://n1,n2,n3
  rota bench store --store redis://localhost --members 500 --each 20s
  rota bench store --store zk://z1,z2,z3 -o json | jq .recommended.lease_s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.Store, "store", "", "the store: "+connect.StoreExamples()+" (default: the rota up or rota serve of this folder)")
	fl.Var(connect.Dir(&f.Dir), "dir", "the folder of that rota up or rota serve")
	fl.Var(cli.Whole(&f.members, 1, 2000), "members", "how many connections see plans and write heartbeats")
	fl.Var(cli.Span(&f.each), "each", "how long to write, one at a time and then all at once")
	fl.VarP(cli.OneWord(&f.output, "table", "json"), "output", "o", "how to print the figures")
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "dir", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	return cmd
}

func (f *storeFlags) run(cmd *cobra.Command) error {
	if _, err := f.Fill(); err != nil {
		return err
	}
	dial, err := connect.Connections(f.Store)
	if err != nil {
		return err
	}
	say := func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
	t := newStoreTrial(dial, f.members, f.each, say)
	r, err := t.run(cmd.Context())
	removed := t.remove()
	if cmd.Context().Err() != nil && removed == nil {
		say("interrupted; the group " + t.group + " is removed")
		return cli.Quietly(cli.ExitInterrupted)
	}
	if removed != nil {
		removed = fmt.Errorf("the group %s is still in the store: %w", t.group, cli.Bare(removed))
	}
	if unreachable, ok := errors.AsType[storeSilent](err); ok {
		return cli.Unreachable(f.Store, unreachable.error)
	}
	switch {
	case err != nil && removed != nil:
		return fmt.Errorf("%w; %w", connect.Words(err), removed)
	case err != nil:
		return connect.Words(err)
	case removed != nil:
		return removed
	}
	r.Store = cli.Redact(f.Store)
	return f.print(cmd.OutOrStdout(), r)
}

func (f *storeFlags) print(w io.Writer, r *storeReport) error {
	if f.output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(w, r.table())
	return err
}

// A storeReport is what rota bench store has measured. Times are milliseconds, unless
// their names say otherwise.
type storeReport struct {
	Store       string     `json:"store"`
	Class       rota.Class `json:"class"`
	Members     int        `json:"members"`
	Connected   float64    `json:"connected_ms"` // until the last of them watched the plan
	CAS         timings    `json:"compare_and_set"`
	FanOut      []fanOut   `json:"fan_out"`
	Heartbeats  timings    `json:"heartbeats"`
	PerSecond   float64    `json:"heartbeats_per_second"`
	Gaps        int        `json:"watches_ended"`
	Recommended advice     `json:"recommended"`
}

// A fanOut is how long plans of one size took to reach the last member.
type fanOut struct {
	Bytes  int     `json:"bytes"`
	Times  int     `json:"times"`
	Median float64 `json:"median_ms"`
	Worst  float64 `json:"worst_ms"`
}

// table is the report for people.
func (r *storeReport) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, class %s\n", r.Store, r.Class)
	fmt.Fprintf(&b, "%s, each with a connection of its own; the last one watched after %s\n\n", cli.Count(r.Members, "member"), inMS(r.Connected))
	cells := [][]string{{"", "p50", "p99", "worst", ""},
		{"compare-and-set, one at a time", inMS(r.CAS.P50), inMS(r.CAS.P99), inMS(r.CAS.Worst), cli.Count(r.CAS.Calls, "call") + r.CAS.failures()}}
	for _, f := range r.FanOut {
		cells = append(cells, []string{fmt.Sprintf("a plan of %d KB to the last member", f.Bytes>>10), inMS(f.Median), "", inMS(f.Worst), cli.Count(f.Times, "plan")})
	}
	cells = append(cells, []string{"heartbeats, all at once", inMS(r.Heartbeats.P50), inMS(r.Heartbeats.P99), inMS(r.Heartbeats.Worst),
		cli.Grouped(r.PerSecond) + " a second" + r.Heartbeats.failures()})
	b.WriteString(plainTable(cells))
	if r.Gaps > 0 {
		fmt.Fprintf(&b, "%s ended meanwhile and began anew\n", cli.Count(r.Gaps, "watch"))
	}
	fmt.Fprintf(&b, "\nrecommended: --lease %s --heartbeat %s\n", span(r.Recommended.Lease), span(r.Recommended.Heartbeat))
	for _, why := range r.Recommended.Why {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	return b.String()
}

// inMS prints milliseconds with two digits that count, or more where there are more.
func inMS(ms float64) string {
	switch {
	case ms < 0.1:
		return fmt.Sprintf("%.3f ms", ms)
	case ms < 1:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// span prints seconds as flags have them.
func span(seconds float64) string { return inSeconds(seconds).String() }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// storeSilent is an error of the first call: the store cannot be used at all.
type storeSilent struct{ error }

// reach makes the first call.
func (t *storeTrial) reach(ctx context.Context) error {
	if err := connect.Reach(ctx, t.main, t.group); err != nil {
		t.main.Close()
		return storeSilent{err}
	}
	t.used = true
	return nil
}
