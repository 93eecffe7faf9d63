package main

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
	"syscall"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/failover"
	"github.com/rota-dev/rota/internal/core"
	"github.com/spf13/cobra"
)

// failoverFlags are what rota bench failover is told.
type failoverFlags struct {
	runs, first, partitions   int
	lease, heartbeat, handler time.Duration
	output, report            string
	member, system, only      string
	keep                      bool

	command []string // of --member, or this program
}

func benchFailoverCmd() *cobra.Command {
	f := &failoverFlags{runs: 10, partitions: 64, lease: 5 * time.Second, heartbeat: 2 * time.Second, handler: 20 * time.Millisecond, output: "table", system: "rota"}
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

All figures come from the members' event lines. After each run the lines are judged as
rota check judges them. A run takes about a minute. Use a machine that does nothing
else: the load is reported.

Exit codes: 0 all promises were kept, 1 one was broken or it did not work, 64 usage,
130 interrupted. A figure above its bound is marked and is no failure.`,
		Example: `  rota bench failover
  rota bench failover --runs 1                  a minute
  rota bench failover -o json --report figures  figures/rota-0.json … have every sample`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.Var(number[int]{&f.runs, 1, 1000}, "runs", "how often to do all of it; ten runs have all ten phases")
	fl.VarP(choice{&f.output, []string{"table", "json"}}, "output", "o", "how to print the figures")
	fl.StringVar(&f.report, "report", "", "keep the figures of each run in this folder, and the event lines of a run that broke a promise")
	fl.BoolVar(&f.keep, "keep", false, "with --report: keep all event lines, about 200 MB per run")
	fl.Var(number[int]{&f.partitions, 8, 1024}, "partitions", "how many partitions, 8 to 1024")
	fl.Var(span{&f.lease, false}, "lease", "how long a silent member keeps what it owns")
	fl.Var(span{&f.heartbeat, false}, "heartbeat", "how often the lease is renewed")
	fl.Var(span{&f.handler, false}, "handler", "how long a message takes: too short a time saturates the machine, which then measures itself")
	fl.Var(number[int]{&f.first, 0, 999}, "first", "number of the first run, and so its phase")
	fl.StringVar(&f.only, "only", "", "end a run after this event")
	fl.StringVar(&f.member, "member", "", "measure this program instead; it is called as CMD serve and CMD run")
	fl.StringVar(&f.system, "system", f.system, "and what to call it")
	for _, hidden := range []string{"partitions", "handler", "first", "only", "member", "system"} {
		fl.MarkHidden(hidden)
	}
	complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "report", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	complete(cmd, "only", cobra.FixedCompletions(failover.Events, cobra.ShellCompDirectiveNoFileComp))
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
	Busy       float64        `json:"busy"` // part of all cores that was busy, the most of any run,
	Own        float64        `json:"own"`  // and with this
	Rate       float64        `json:"messages_per_s"`
	Broken     []string       `json:"broken"`
	Rows       []failover.Row `json:"rows"`
	Runs       []benchRun     `json:"runs,omitempty"` // in --report only
}

// A benchRun is what came of one.
type benchRun struct {
	Run      int               `json:"run"`
	Seconds  float64           `json:"seconds"`
	Busy     float64           `json:"busy"`
	Own      float64           `json:"own"`
	Messages int               `json:"messages"`
	Broken   []string          `json:"broken"`
	Samples  []failover.Sample `json:"samples"`
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
		return usagef("--only %q: want one of %s", f.only, strings.Join(failover.Events, ", "))
	}
	if f.keep && f.report == "" {
		return usagef("--keep needs --report DIR")
	}
	if f.report != "" {
		if err := os.MkdirAll(f.report, 0o755); err != nil {
			return usagef("--report: %v", err)
		}
	}
	f.command = strings.Fields(f.member)
	if f.ours() {
		exe, err := os.Executable()
		f.command = []string{exe}
		return err
	}
	return nil
}

func (f *failoverFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	r := f.newReport(strings.Join(os.Args[1:], " "))
	var failed error
	for i := range f.runs {
		fmt.Fprintf(stderr, "%s, run %d of %d, each event %d/10 of a heartbeat after one\n", f.system, i+1, f.runs, (f.first+i)%10)
		run, err := f.once(ctx, f.first+i, stderr)
		if err != nil {
			failed = err
			break
		}
		r.Runs = append(r.Runs, run)
		if err := f.save(r, run); err != nil {
			return err
		}
	}
	r.sum()
	if ctx.Err() != nil {
		fmt.Fprintf(stderr, "interrupted after %d of %s; the figures are of those\n", len(r.Runs), count(f.runs, "run"))
		failed = silentExit(exitInterrupted)
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
		return silentExit(exitFailed)
	}
	return failed
}

func (f *failoverFlags) newReport(args string) *benchReport {
	return &benchReport{System: f.system, Command: "rota " + args, Machine: thisMachine(), Partitions: f.partitions,
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
	defer func() { err = errors.Join(err, discard(dir)) }()
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
	run = benchRun{Run: number, Seconds: time.Since(began).Seconds(), Messages: v.hist.Handled(), Samples: samples, Broken: []string{}}
	run.Busy, run.Own = before.since(readUsage(), v.cpu)
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
	var lines []seen
	for _, file := range files {
		got, err := readLines(file)
		if err != nil {
			return nil, err
		}
		lines = append(lines, got...)
	}
	v := judgeLines(lines)
	if v.missed > 0 {
		return nil, fmt.Errorf("%d events were never written: the disk is too slow for a trace of %d messages/s; give --handler a longer time", v.missed, f.partitions*int(time.Second/f.handler))
	}
	return v.wrong, nil
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

// A chain is one run: what is done to a fleet, one thing after the other.
type chain struct {
	*fleet
	phase   int
	stderr  io.Writer
	samples []failover.Sample
}

func (c *chain) play(ctx context.Context) ([]failover.Sample, error) {
	if err := c.quiet(ctx, 0); err != nil {
		return nil, err
	}
	for _, event := range failover.Events {
		e := failover.Episode{Event: event, From: int64(bootNow()), Lease: c.f.lease, Wait: c.f.wait()}
		if err := c.cause(ctx, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", event, err)
		}
		if err := c.quiet(ctx, e.From); err != nil {
			return nil, fmt.Errorf("%s: %w", event, err)
		}
		e.To = int64(bootNow())
		s, err := c.hist.Measure(e)
		if err != nil {
			return nil, err
		}
		s.Phase = c.phase
		c.samples = append(c.samples, s)
		fmt.Fprintln(c.stderr, "  "+sayFailover(s))
		if event == c.f.only {
			break
		}
	}
	return c.samples, nil
}

func sayFailover(s failover.Sample) string {
	out := fmt.Sprintf("%-27s %6.3f s", s.Event, s.Seconds)
	if s.Floor != 0 {
		out += fmt.Sprintf(", %+.3f s over the floor of %.3f s", s.Seconds-s.Floor, s.Floor)
	}
	return out + fmt.Sprintf(", %s moved, %s", count(s.Moved, "partition"), count(s.Plans, "plan"))
}

// quiet waits until everything is shared evenly and consumed, and nothing has
// changed for half a lease: a second plan would have come by then.
func (c *chain) quiet(ctx context.Context, after int64) error {
	return c.until(ctx, "a quiet group of "+strings.Join(c.live(), ", "), func() bool {
		calm := int64(bootNow()) - max(c.hist.Changed(), after)
		return calm > int64(c.f.lease)/2 && c.hist.Shared(c.f.partitions, c.live(), after)
	})
}

// phased waits for the run's phase of a member's heartbeat: groups that hear of a
// change with their next heartbeat would otherwise always be met at the same one.
// Nothing has changed for a lease then, the time that gaps are held against.
func (c *chain) phased(ctx context.Context, member string) error {
	due := int64(0)
	err := c.until(ctx, "a heartbeat of "+member, func() bool {
		l, ok := c.hist.Last("lease", member)
		due = l.Lease - int64(c.f.lease) + int64(c.f.heartbeat)*int64(c.phase)/10
		// A heartbeat is heard of after it was sent, so at once is a little later.
		return ok && due > int64(bootNow())-int64(4*pollEvery) && due > c.hist.Changed()+int64(c.f.lease)
	})
	if err != nil {
		return err
	}
	if err := c.until(ctx, "the instant", func() bool { return due-int64(bootNow()) < int64(2*pollEvery) }); err != nil {
		return err
	}
	time.Sleep(time.Duration(due - int64(bootNow())))
	return nil
}

// cause does something to the group.
func (c *chain) cause(ctx context.Context, e *failover.Episode) (err error) {
	switch e.Event {
	case "2nd joins":
		e.Joined, err = c.join(ctx, 1, e)
	case "5 join":
		e.Joined, err = c.join(ctx, 5, e)
	case "leave":
		e.Left = []string{c.follower()}
		if err = c.phased(ctx, c.leader()); err != nil {
			return err
		}
		e.From = int64(bootNow())
		if err = c.signal(failover.Term, syscall.SIGTERM, e.Left...); err == nil {
			err = c.until(ctx, "the end of "+e.Left[0], func() bool { return c.member(e.Left[0]).told })
		}
	case "kill":
		err = c.kill(ctx, e, c.follower())
	case "leader and follower killed":
		err = c.kill(ctx, e, c.leader(), c.follower())
	case "leader killed":
		err = c.kill(ctx, e, c.leader())
	}
	return err
}

// join opens a gate when all who shall join wait at it.
func (c *chain) join(ctx context.Context, n int, e *failover.Episode) ([]string, error) {
	gate := filepath.Join(c.dir, fmt.Sprintf("gate-%d", c.next))
	names, err := c.start(n, gate)
	if err != nil {
		return nil, err
	}
	err = c.until(ctx, "the start of "+strings.Join(names, ", "), func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Stat(filepath.Join(c.dir, name+".jsonl"))
			return err != nil
		})
	})
	if err != nil {
		return nil, err
	}
	if err := c.phased(ctx, c.leader()); err != nil {
		return nil, err
	}
	e.From = int64(bootNow())
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		return nil, err
	}
	return names, c.until(ctx, "the joining of "+strings.Join(names, ", "), func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, joined := c.hist.Last("joined", name)
			return !joined
		})
	})
}

// leader is who leads; where nobody does, who is there longest.
func (c *chain) leader() string {
	live := c.live()
	if l := c.hist.Leader(); slices.Contains(live, l) {
		return l
	}
	return live[0]
}

// follower is the youngest that does not lead.
func (c *chain) follower() string {
	live := c.live()
	for _, name := range slices.Backward(live) {
		if name != c.leader() {
			return name
		}
	}
	return live[0]
}

// kill kills at the run's phase of the first victim's heartbeat.
func (c *chain) kill(ctx context.Context, e *failover.Episode, victims ...string) error {
	if err := c.phased(ctx, victims[0]); err != nil {
		return err
	}
	e.From, e.Killed = int64(bootNow()), victims
	if err := c.signal(failover.Kill, syscall.SIGKILL, victims...); err != nil {
		return err
	}
	return c.until(ctx, "the end of "+strings.Join(victims, " and "), func() bool {
		return !slices.ContainsFunc(victims, func(name string) bool { return !c.member(name).told })
	})
}
