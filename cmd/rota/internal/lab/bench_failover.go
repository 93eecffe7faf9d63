package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/demo"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/failover"
	"github.com/rota-dev/rota/cmd/rota/internal/ops"
	"github.com/rota-dev/rota/internal/core"
	"github.com/spf13/cobra"
)

// failoverFlags are what rota bench failover is told.
type failoverFlags struct {
	runs, first, partitions   int
	lease, heartbeat, handler time.Duration
	output, report, store     string
	rota, member              string // what is measured; this program if both are ""
	system, only              string
	keep, undisturbed         bool

	command []string // that is measured
}

func newFailoverFlags() *failoverFlags {
	return &failoverFlags{runs: 10, partitions: 64, lease: 5 * time.Second, heartbeat: 2 * time.Second, handler: 20 * time.Millisecond, output: "table", system: "rota"}
}

func benchFailoverCmd() *cobra.Command { return failoverCmd(newFailoverFlags()) }

func failoverCmd(f *failoverFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Measure how long partitions wait when members come, go and die",
		Long: `Failover starts a NATS server and members as processes of their own, keeps messages
waiting in every partition, and then, one after the other, in each run:

  2nd joins                    1 → 2 members
  5 join                       2 → 7, in one instant
  leave                        7 → 6, by SIGTERM
  kill                         6 → 5, by SIGKILL
  leader and follower killed   5 → 3, in one instant
  leader killed                3 → 2

The clock: of joining, from the last joined event until every partition was handled
under the new plan by its owner; of leaving, from the signal until the process has
ended and others handle all it had; of a kill, from the signal until others handle
all that the victims had. A kill cannot be told from silence before the lease is over:
the floor is W, 5.2 s with a lease of 5 s, minus the age of the victim's last heartbeat
when it is killed, and of two victims the later one. What is above the floor is the
excess. In the first run everything happens right after a heartbeat, in each further one
a tenth of a heartbeat later: of the victim, or of the leader for joining and leaving.

All figures come from the members' event lines. For half a second after each event
nobody reads them or publishes: the members have the machine to themselves. After each
run the lines are judged as rota check judges them. A run takes about a minute. Use a
machine that does nothing else: the load is reported. Where that is not to be had, as on
a virtual machine whose host is busy, --undisturbed makes runs again beside which others
had more than 8 % of the processor, whatever their figures were, and tells which. Once
four times --runs were made again, all further ones count. A promise that was broken in
any run stays broken.

With --store the members meet at that store, in a group of its own that is removed at
the end; the messages stay with the NATS server. Compare it with a run without --store,
made on the same machine just before or after.

Exit codes: 0 all promises were kept, 1 one was broken or it did not work, 64 usage,
130 interrupted. A figure above its bound is marked and is no failure.`,
		Example: `  rota bench failover
  rota bench failover --runs 1                  a minute
  rota bench failover --undisturbed             on a machine that is not all ours
  rota bench failover --runs 1 --store etcd://n1,n2,n3
  rota bench failover -o json --report figures  figures/rota-0.json … have every sample`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.Var(cli.Whole(&f.runs, 1, 1000), "runs", "how often to do all of it; ten runs have all ten phases")
	fl.VarP(cli.OneWord(&f.output, "table", "json"), "output", "o", "how to print the figures")
	fl.StringVar(&f.report, "report", "", "keep the figures of each run in this folder, and the event lines of a run that broke a promise")
	fl.BoolVar(&f.keep, "keep", false, "with --report: keep all event lines, about 200 MB per run")
	fl.BoolVar(&f.undisturbed, "undisturbed", false, "make runs again beside which others had more than 8 % of the processor")
	fl.StringVar(&f.store, "store", "", "where members meet: "+connect.StoreExamples()+" (default: the NATS server that it starts)")
	fl.Var(cli.Span(&f.lease), "lease", "how long a silent member keeps what it owns")
	fl.Var(cli.Span(&f.heartbeat), "heartbeat", "how often the lease is renewed")
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "report", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	return cmd
}

// devFailoverCmd is rota bench failover for those who develop it: it measures the
// rota, or another program, that it is told to.
func devFailoverCmd() *cobra.Command {
	f := newFailoverFlags()
	cmd := failoverCmd(f)
	cmd.Long = "Failover is rota bench failover, with what only scripts and tests need."
	cmd.Example = "  rota-dev bench failover --rota ./rota --runs 1 --report build/bench"
	fl := cmd.Flags()
	fl.StringVar(&f.rota, "rota", "", "the rota to measure")
	fl.Var(cli.Whole(&f.partitions, 8, 1024), "partitions", "how many partitions, 8 to 1024")
	fl.Var(cli.Span(&f.handler), "handler", "how long a message takes: too short a time saturates the machine, which then measures itself")
	fl.Var(cli.Whole(&f.first, 0, 999), "first", "number of the first run, and so its phase")
	fl.StringVar(&f.only, "only", "", "end a run after this event")
	fl.StringVar(&f.member, "member", "", "measure this program instead; it is called as CMD serve and CMD run")
	fl.StringVar(&f.system, "system", f.system, "and what to call it")
	cmd.MarkFlagsMutuallyExclusive("rota", "member")
	cmd.MarkFlagsOneRequired("rota", "member")
	cli.Complete(cmd, "only", cobra.FixedCompletions(failover.Events, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// A benchReport is what came of the runs.
type benchReport struct {
	System     string         `json:"system"`
	Command    string         `json:"command"`
	Machine    machine        `json:"machine"`
	Partitions int            `json:"partitions"`
	Lease      float64        `json:"lease_s"`
	Heartbeat  float64        `json:"heartbeat_s"`
	Wait       float64        `json:"w_s"`
	Handler    float64        `json:"handler_ms"`
	Busy       float64        `json:"busy"`                // part of all cores that was busy, the most of any run,
	Own        float64        `json:"own"`                 // and with this
	Disturbed  []float64      `json:"disturbed,omitempty"` // what others had of the cores in each run that does not count
	Cost       cost           `json:"us_per_message"`      // of the processor, median of the runs
	Rate       float64        `json:"messages_per_s"`
	Broken     []string       `json:"broken"`
	Rows       []failover.Row `json:"rows"`
	Runs       []benchRun     `json:"runs,omitempty"` // in --report only
}

// A benchRun is what came of one.
type benchRun struct {
	Run      int               `json:"run"`
	At       time.Time         `json:"at"` // when it ended
	Seconds  float64           `json:"seconds"`
	Busy     float64           `json:"busy"`
	Own      float64           `json:"own"`
	Cost     cost              `json:"us_per_message"`
	Messages int               `json:"messages"`
	Broken   []string          `json:"broken"`
	Samples  []failover.Sample `json:"samples"`
}

// A cost is what processes have used of the processor for each message, in microseconds: from their
// start to their end, with all that happened meanwhile.
type cost struct {
	Members float64 `json:"members"` // all of them together
	Server  float64 `json:"server"`
	Driver  float64 `json:"driver"` // what publishes, and reads event lines
}

func newCost(members, server, driver time.Duration, messages int) cost {
	each := func(d time.Duration) float64 { return float64(d) / 1e3 / float64(max(messages, 1)) }
	return cost{each(members), each(server), each(driver)}
}

func (c cost) String() string {
	return fmt.Sprintf("members %.0f µs, server %.0f, driver %.0f", c.Members, c.Server, c.Driver)
}

// middleCost is the median of each kind of process.
func middleCost(runs []benchRun) cost {
	of := func(f func(cost) float64) float64 {
		var all []float64
		for _, run := range runs {
			all = append(all, f(run.Cost))
		}
		return failover.Quantile(all, 0.5)
	}
	return cost{of(func(c cost) float64 { return c.Members }), of(func(c cost) float64 { return c.Server }), of(func(c cost) float64 { return c.Driver })}
}

// mostOthers is the part of all cores that others may have beside a run with --undisturbed.
const mostOthers = 0.08

// counts tells whether a run had the machine to itself, and remembers those that had not: at most so
// many.
func (r *benchReport) counts(run benchRun, most int) bool {
	others := run.Busy - run.Own
	if others <= mostOthers || len(r.Disturbed) == most {
		return true
	}
	r.Disturbed, r.Broken = append(r.Disturbed, others), append(r.Broken, run.Broken...)
	return false
}

func (f *failoverFlags) ours() bool { return f.member == "" }

// wait is W, after which a silent member counts as gone.
func (f *failoverFlags) wait() time.Duration {
	if !f.ours() {
		return f.lease // a broker's own clock is the only one it asks
	}
	return core.Timing{Lease: f.lease}.W()
}

// patience is how long anything may take.
func (f *failoverFlags) patience() time.Duration { return 60*time.Second + 3*f.lease }

func (f *failoverFlags) check() error {
	if runtime.GOOS != "linux" {
		return errors.New("bench failover: it compares the clocks of several processes (CLOCK_BOOTTIME), which it can on Linux only")
	}
	if f.only != "" && !slices.Contains(failover.Events, f.only) {
		return cli.Usagef("--only %q: want one of %s", f.only, strings.Join(failover.Events, ", "))
	}
	if err := f.checkStore(); err != nil {
		return err
	}
	if f.keep && f.report == "" {
		return cli.Usagef("--keep needs --report DIR")
	}
	if f.report != "" {
		if err := os.MkdirAll(f.report, 0o755); err != nil {
			return cli.Usagef("--report: %v", err)
		}
	}
	f.command = strings.Fields(f.member)
	switch {
	case f.rota != "":
		f.command = []string{f.rota}
	case f.ours():
		exe, err := os.Executable()
		f.command = []string{exe}
		return err
	}
	return nil
}

// checkStore refuses stores that processes cannot share.
func (f *failoverFlags) checkStore() error {
	switch {
	case f.store == "":
		return nil
	case !f.ours():
		return cli.Usagef("--store is for rota: --member %s brings a store of its own", f.member)
	case f.store == "mem:":
		return cli.Usagef("--store mem: is for one process alone, and each member is one")
	}
	s, err := connect.OpenStore(f.store)
	if err != nil {
		return err
	}
	return s.Close()
}

func (f *failoverFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	r := f.newReport(cmd.Root().Name() + " " + strings.Join(os.Args[1:], " "))
	var failed error
	for i := 0; i < f.runs; {
		fmt.Fprintf(stderr, "%s, run %d of %d, each event %d/10 of a heartbeat after one\n", f.system, i+1, f.runs, (f.first+i)%10)
		run, err := f.once(ctx, f.first+i, stderr)
		if err != nil {
			failed = err
			break
		}
		if f.undisturbed && !r.counts(run, 4*f.runs) {
			fmt.Fprintf(stderr, "others had %.0f %% of the processor meanwhile: this run does not count and is made again\n", 100*(run.Busy-run.Own))
			continue
		}
		i++
		r.Runs = append(r.Runs, run)
		if err := f.save(r, run); err != nil {
			return err
		}
	}
	r.sum()
	if ctx.Err() != nil {
		fmt.Fprintf(stderr, "interrupted after %d of %s; the figures are of those\n", len(r.Runs), cli.Count(f.runs, "run"))
		failed = cli.Quietly(cli.ExitInterrupted)
	}
	if len(r.Runs) > 0 {
		if err := f.print(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	}
	return r.verdict(failed)
}

// verdict is the exit code: a broken promise stays broken, whatever came then.
func (r *benchReport) verdict(failed error) error {
	if len(r.Broken) > 0 {
		return cli.Quietly(cli.ExitFailed)
	}
	return failed
}

func (f *failoverFlags) newReport(command string) *benchReport {
	return &benchReport{System: f.system, Command: command, Machine: thisMachine(), Partitions: f.partitions,
		Lease: f.lease.Seconds(), Heartbeat: f.heartbeat.Seconds(), Wait: f.wait().Seconds(), Handler: 1000 * f.handler.Seconds(), Broken: []string{}}
}

// sum pools the runs.
func (r *benchReport) sum() {
	var samples []failover.Sample
	messages, seconds := 0, 0.0
	for _, run := range r.Runs {
		r.Busy, r.Own = max(r.Busy, run.Busy), max(r.Own, run.Own)
		messages, seconds = messages+run.Messages, seconds+run.Seconds
		r.Broken = append(r.Broken, run.Broken...)
		samples = append(samples, run.Samples...)
	}
	if seconds > 0 {
		r.Rate = float64(messages) / seconds
	}
	r.Rows = failover.Rows(samples)
	r.Cost = middleCost(r.Runs)
}

// save keeps the figures of one run.
func (f *failoverFlags) save(r *benchReport, run benchRun) error {
	if f.report == "" {
		return nil
	}
	one := *r
	one.Runs, one.Broken = []benchRun{run}, []string{}
	one.sum()
	b, err := json.Marshal(one)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d.json", strings.ReplaceAll(f.system, " ", "-"), run.Run)
	return os.WriteFile(filepath.Join(f.report, name), append(b, '\n'), 0o644)
}

func (f *failoverFlags) print(w io.Writer, r *benchReport) error {
	if f.output == "json" {
		out := *r
		out.Runs = nil // --report has them
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	_, err := io.WriteString(w, failoverTable(r))
	return err
}

// once is one run, in a folder that is gone afterwards.
func (f *failoverFlags) once(ctx context.Context, number int, stderr io.Writer) (run benchRun, err error) {
	dir, err := os.MkdirTemp("", "rota-bench-")
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, demo.Discard(dir)) }()
	before := readUsage()
	began := time.Now()
	v, err := newFleet(ctx, f, dir)
	if err != nil {
		return run, err
	}
	d := &chain{fleet: v, phase: number % 10, stderr: stderr}
	samples, err := d.play(ctx)
	closing := v.Close()
	if err = cmp.Or(err, closing); err != nil {
		return run, err
	}
	run = benchRun{Run: number, At: time.Now().UTC().Truncate(time.Second), Seconds: time.Since(began).Seconds(), Messages: v.hist.Handled(), Samples: samples, Broken: []string{}}
	after := readUsage()
	run.Busy, run.Own = before.since(after, v.used.members+v.used.server)
	run.Cost = newCost(v.used.members, v.used.server, after.own-before.own, run.Messages)
	for i := range samples {
		samples[i].System, samples[i].Run = f.system, number
		if n := samples[i].Overlaps; n > 0 {
			run.Broken = append(run.Broken, fmt.Sprintf("run %d, %s: two owners were at work on one partition, %d times", number, samples[i].Event, n))
		}
	}
	if f.ours() {
		wrong, err := f.judge(v.files)
		if err != nil {
			return run, err
		}
		run.Broken = append(run.Broken, wrong...)
	}
	for _, w := range run.Broken {
		fmt.Fprintln(stderr, "broken promise:", w)
	}
	return run, f.keepLines(dir, number, len(run.Broken) > 0)
}

// judge asks what rota check asks.
func (f *failoverFlags) judge(files []string) ([]string, error) {
	var lines []ops.Line
	for _, file := range files {
		got, err := ops.ReadLines(file)
		if err != nil {
			return nil, err
		}
		lines = append(lines, got...)
	}
	v := ops.JudgeLines(lines)
	if v.Missed > 0 {
		return nil, fmt.Errorf("%d events were never written: the disk is too slow for a trace of %d messages/s; give --handler a longer time", v.Missed, f.partitions*int(time.Second/f.handler))
	}
	return v.Wrong, nil
}

func (f *failoverFlags) keepLines(dir string, number int, broken bool) error {
	if f.report == "" || !broken && !f.keep {
		return nil
	}
	to := filepath.Join(f.report, fmt.Sprintf("%s-%d-events", strings.ReplaceAll(f.system, " ", "-"), number))
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(file)), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
