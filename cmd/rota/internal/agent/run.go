package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// memberFlags are what rota run is told.
type memberFlags struct {
	group, store, dir, source, handle, own, name string
	strategy, rebalance, onStoreLoss             string
	lease, heartbeat, quietTime, stopTime        time.Duration
	grace, orphan, ret, tally, listEvery         time.Duration
	backoffFirst, backoffLast, handleTime        time.Duration
	stallTime                                    time.Duration
	attempts, quarantine                         int
	rejoin, newGroup, trace, quiet, tether       bool
	gate, events, labelFrom, cloudwatch          string
	workerPer, health                            string
	labels                                       map[string]string
	packing                                      packing
	scaling                                      scaling
	env                                          []string // what commands inherit
}

func RunCmd() *cobra.Command {
	f := &memberFlags{strategy: string(rota.Spread), rebalance: string(rota.Incremental), onStoreLoss: string(rota.StopAll), quarantine: 3, lease: 5 * time.Second, heartbeat: 2 * time.Second,
		quietTime: 100 * time.Millisecond, stopTime: 30 * time.Second, grace: time.Second, orphan: 30 * time.Second, ret: rota.AtOnce, tally: rota.AtOnce, listEvery: 30 * time.Second, stallTime: time.Minute,
		backoffFirst: 100 * time.Millisecond, backoffLast: 10 * time.Second, handleTime: rota.AtOnce, workerPer: "partition"}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run one member of a group",
		Long: `Run joins a group and works on the partitions it is given, until it is asked to
end (SIGTERM, Ctrl-C); then it hands them over and leaves.

Without --store it joins the group of the rota up or rota serve of this folder.

--handle says what to do with a message:
  log          print a line about it (the default)
  none         nothing: it is settled at once
  sleep:TIME   take that long, 20ms say, and nothing else: for demonstrations
  exec:CMD     run CMD with the message on its standard input; exit 0 settles it
  worker:CMD   keep CMD running: it reads messages on its standard input and answers each
               on its standard output (docs/workers.md); one for each partition, or one for
               all with --worker-per member
  http:URL     post it to URL; an answer 2xx settles it
Anything else means that it failed. It is tried again after a pause, for as long as it
takes, and the messages of its partition behind it wait; --attempts limits that. Some
answers say more:
  exit 65, HTTP 400 or 422   the message is bad: a dead letter at once (rota dead)
  exit 75, HTTP 429 or 503   not now: no attempt is counted; Retry-After is honoured
  exit 77, HTTP 409 or 412   the sink refused the token: nothing is settled
A command finds ROTA_GROUP, ROTA_MEMBER, ROTA_PARTITION, ROTA_TOKEN, ROTA_SESSION,
ROTA_ATTEMPT, ROTA_TOPIC, ROTA_META (the metadata as JSON), ROTA_MESSAGE_ID, …_POSITION,
…_TIME, …_KEY and …_HEADERS in its environment; a server the same as headers (Rota-Group,
…). ROTA_LEASE_FILE tells until when a command may act: see rota lease.

--own exec:CMD, with --source none:?partitions=N, runs CMD once per partition for as
long as the partition is owned; SIGTERM asks it to end. It finds the metadata as it is
now in the file ROTA_META_FILE.

Commands are gone before the lease ends, also when rota itself is frozen: a watchdog
process in another session sees to it. What can escape it: docs/cli.md. One that takes
longer than --handle-time, or is still busy when --stop-time is nearly over, is asked to
end by SIGTERM first.

Exit codes: 0 left in good order, 3 fenced, 4 aborted (a handler did not stop in time),
5 orphaned, 6 the store lost writes, 7 the plan could not be written, 64 usage,
69 the store cannot be reached, 70 a bug of rota.`,
		Example: `  rota run                                            one more member for the rota up of this folder
  rota run --group orders --store nats://localhost:4222 \
      --source 'nats://localhost:4222?stream=ORDERS&subject=orders.*&partitions=64' \
      --handle exec:./handle.sh
  rota run --group cron --store embed:./data --source none:?partitions=8 --own 'exec:sleep 1000'
  ROTA_LEASE=10s rota run --config rota.yaml          flags, environment, file: in this order`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.env = ChildEnv(os.Environ(), cmd.Root())
			return runMember(cmd.Context(), f, cmd.Flags().Changed, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.group, "group", "", "who share the work; each group gets every message")
	fl.StringVar(&f.store, "store", "", "where they meet: "+connect.StoreExamples()+" (default: the rota up or rota serve of this folder)")
	fl.Var(connect.Dir(&f.dir), "dir", "the folder of that rota up or rota serve")
	fl.StringVar(&f.source, "source", "", "what there is to do: "+connect.SourceExamples())
	fl.StringVar(&f.handle, "handle", "log", "what to do with a message: log, none, sleep:TIME, exec:CMD, worker:CMD or http:URL")
	fl.Var(cli.OneWord(&f.workerPer, "partition", "member"), "worker-per", "with --handle worker:CMD: one worker for each partition, or one for all of the member")
	fl.StringVar(&f.own, "own", "", "exec:CMD: a command per owned partition, with --source none:")
	fl.StringVar(&f.name, "name", "", "what people call this member (default host-pid-random)")
	fl.Var(cli.OneWord(&f.strategy, "spread", "range", "pack"), "strategy", "how partitions are spread over members: by number, in blocks, or by measured load")
	f.packing.flags(fl)
	f.scaling.flags(fl)
	fl.Var(cli.OneWord(&f.rebalance, "incremental", "eager"), "rebalance", "whether only what moves stops, or everything")
	fl.Var(cli.Span(&f.lease), "lease", "how long a silent member keeps what it owns")
	fl.Var(cli.Span(&f.heartbeat), "heartbeat", "how often the lease is renewed")
	fl.Var(cli.SpanOrNone(&f.quietTime), "quiet-time", "how long a leader waits for further arrivals before it plans, so that a burst is one plan")
	fl.Var(cli.Span(&f.stopTime), "stop-time", "how long a partition may take to stop")
	fl.Var(cli.SpanOrNone(&f.grace), "grace", "how long a partition stays away from a member that gave it up")
	fl.Var(cli.SpanOrNone(&f.orphan), "orphan", "how long to hope for the store once the lease is over")
	fl.Var(cli.OneWord(&f.onStoreLoss, "stop", "continue"), "on-store-loss", "what to do when the store does not answer and the lease is over: stop; or continue, which gives up exclusivity: another member may work on the same partition, and only a sink that checks tokens tells them apart")
	fl.Var(cli.SpanOrNone(&f.ret), "return", "how long the partitions of a member that left or died wait for one of its --name")
	fl.Var(cli.Span(&f.listEvery), "list-every", "how often the leader asks the source for its partitions")
	fl.Var(cli.Whole(&f.attempts, 0, math.MaxInt32), "attempts", "how often a message may fail before it is a dead letter; 0: no limit")
	fl.Var(cli.Whole(&f.quarantine, 0, math.MaxInt16), "quarantine", "how many members in a row must have died with a partition until nobody gets it (rota release); 0: never")
	fl.Var(cli.Span(&f.backoffFirst), "backoff-first", "the pause after a first failure; it doubles with each further one")
	fl.Var(cli.Span(&f.backoffLast), "backoff-last", "the longest pause")
	fl.Var(cli.SpanOrNone(&f.handleTime), "handle-time", "timeout of one attempt; 0s: none")
	fl.Var(cli.SpanOrNone(&f.stallTime), "stall-time", "how long a partition may make no progress before that is reported; 0s: never")
	fl.BoolVar(&f.rejoin, "rejoin", false, "come back under a new session when others ended the old one")
	fl.BoolVar(&f.newGroup, "new-group", false, "the store is known to be new: do not wait for leases it might have forgotten")
	fl.StringVar(&f.gate, "start-gate", "", "wait until this file exists, then join")
	fl.StringVar(&f.events, "events", "", "write event lines to this file, - for standard output; see docs/events.md")
	fl.BoolVar(&f.trace, "trace", false, "with --events: also each message and each lease")
	fl.BoolVar(&f.quiet, "quiet", false, "do not tell on standard error what happens")
	fl.StringToStringVar(&f.labels, "label", nil, "key=value, for people and placement; may be given more than once")
	fl.Var(cli.OneWord(&f.labelFrom, connect.LabelSources()...), "label-from", "a label that the machine knows: ec2 is the id of the EC2 instance, as the label instance, by which --scaler aws: ends it")
	fl.StringVar(&f.cloudwatch, "cloudwatch", "", "publish metrics in this namespace of CloudWatch, once a minute; see docs/scalers/aws.md")
	fl.StringVar(&f.health, "health", "", "HOST:PORT for probes by HTTP: /healthz (it lives) and /readyz (it has joined, holds its lease and has applied the plan); see docs/deploy.md")
	fl.BoolVar(&f.tether, "tether", false, "leave when standard input ends: for supervisors")
	fl.Var(cli.SpanOrNone(&f.tally), "tally", "with --events: how often to tell how many messages were handled")
	fl.MarkHidden("tether")
	fl.MarkHidden("tally")
	return cmd
}

// runMember is rota run.
func runMember(ctx context.Context, f *memberFlags, changed func(string) bool, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := f.complete(changed); err != nil {
		return err
	}
	j, h, src, err := f.prepare(stdout)
	if err != nil {
		return err
	}
	if j != nil {
		defer j.Close()
	}
	defer h.metaFiles.close()
	probes, err := listenHealth(f.health)
	if err != nil {
		return err
	}
	defer probes.close()
	if err := f.findLabel(ctx); err != nil {
		return err
	}
	store, err := connect.OpenStore(f.store)
	if err != nil {
		return err
	}
	defer store.Close()
	if h.deed.runs() {
		if h.keeper, err = startKeeper(EndTime(f.lease), f.env, func(err error) { f.abort(stderr, j, err) }); err != nil {
			return err
		}
		defer h.keeper.Close()
		h.metaFiles.share(h.keeper.folder())
	}
	cfg := f.config(store, src, h)
	if err := f.scaling.config(&cfg); err != nil {
		return err
	}
	cfg.Abort = func(err error) {
		if !h.harmless() {
			f.abort(stderr, j, err)
		}
	}
	speak := line.NewSpeaker(stderr, f.quiet || f.events == "-")
	cfg.TraceMessages = j != nil && f.trace
	cfg.Trace = func(e rota.Event) {
		if j != nil {
			j.Take(e)
		}
		speak.Take(e)
	}
	m, err := rota.New(cfg)
	if err != nil {
		return cli.BadUsage(flagWords(err))
	}
	publish, err := f.metrics(m, store, cfg.Trace)
	if err != nil {
		return err
	}
	probes.serve(m.Ready)
	h.member = m.Name()
	if h.keeper != nil {
		h.keeper.onEscape(func(partition string, pid int, what string) {
			cfg.Trace(rota.Event{Kind: rota.EventCondition, Condition: "escaped", Time: time.Now(), Member: m.Name(), Partition: partition, Because: escapeWords(pid, what)})
		})
	}
	if f.tether {
		ctx = tethered(ctx, stdin, f.lease)
	}
	if err := waitFor(ctx, f.gate, func() {
		if !f.quiet {
			fmt.Fprintf(stderr, "ready, waiting for %s\n", f.gate)
		}
	}); err != nil {
		return nil // asked to end while waiting
	}
	if err := connect.Reach(ctx, store, f.group); err != nil {
		return cli.Unreachable(f.store, err)
	}
	if h.handles {
		if err := connect.ReachSource(ctx, src); err != nil {
			return cli.Coded(fmt.Errorf("the source %s cannot be used: %w", cli.Redact(f.source), cli.Bare(err)), cli.ExitUnreachable)
		}
	}
	if j != nil && f.tally > 0 {
		defer h.tally(j, m.Name(), f.tally)()
	}
	published := publish(ctx)
	err = m.Run(ctx)
	published()
	h.workers.close()
	speak.Close()
	if c, ok := src.(io.Closer); ok {
		c.Close()
	}
	return ended(err)
}

// escapeWords tells of a process of another user that a command has left.
func escapeWords(pid int, what string) string {
	return fmt.Sprintf("process %d (%s) has escaped: a command started it, and rota may not end it, for it is another user's", pid, plain.Text(what))
}

// leastExec is the shortest lease with commands.
const leastExec = 500 * time.Millisecond

// EndTime is how long before the end of its lease a command is ended: half of
// what stopping takes.
func EndTime(lease time.Duration) time.Duration { return lease / 20 }

// complete fills in what this folder's rota up or rota serve knows.
func (f *memberFlags) complete(changed func(string) bool) error {
	switch {
	case f.own != "" && changed("handle"):
		return cli.Usagef("--own and --handle: choose one")
	case changed("worker-per") && !strings.HasPrefix(f.handle, "worker:"):
		return cli.Usagef("--worker-per is for --handle worker:CMD, and that is %q", cli.RedactIfURL(f.handle))
	case f.trace && f.events == "":
		return cli.Usagef("--trace needs --events FILE")
	}
	if err := f.packing.check(f.strategy, changed); err != nil {
		return err
	}
	if err := f.scaling.check(f.strategy, changed); err != nil {
		return err
	}
	t := connect.Target{Group: f.group, Store: f.store, Dir: f.dir}
	source, err := t.Fill()
	if err != nil {
		return err
	}
	f.group, f.store, f.source = t.Group, t.Store, cmp.Or(f.source, source)
	switch {
	case f.group == "":
		return cli.Usagef("--group is missing: name the group to join")
	case f.store == "":
		return cli.Usagef("--store is missing: say where the group meets, such as %s", connect.StoreExamples())
	case f.source == "":
		return cli.Usagef("--source is missing: say what there is to do, such as %s", connect.SourceExamples())
	}
	return nil
}

// prepare makes what a member works with, short of connecting to anything.
func (f *memberFlags) prepare(stdout io.Writer) (*line.Journal, *handler, rota.Source, error) {
	h := &handler{group: f.group, out: stdout, stdout: os.Stdout, lastPause: f.backoffLast, stopTime: f.stopTime, margin: EndTime(f.lease)}
	h.workers.single = f.workerPer == "member"
	if f.events == "-" {
		h.out, h.stdout = os.Stderr, os.Stderr
	}
	qs, err := connect.OpenSource(f.source)
	if err != nil {
		return nil, nil, nil, err
	}
	var src rota.Source
	switch {
	case qs.Names != nil && f.own == "":
		return nil, nil, nil, cli.Usagef("--source %s delivers nothing: say with --own exec:CMD what to run per partition", cli.Redact(f.source))
	case qs.Names == nil && f.own != "":
		return nil, nil, nil, cli.Usagef("--own runs a command per partition, and --source %s delivers messages: use --handle, or --source none:?partitions=N", cli.Redact(f.source))
	case qs.Names != nil:
		if h.deed, err = parseDeed("own", f.own); err == nil && h.deed.kind != "exec" {
			err = cli.Usagef("--own %q: want exec:CMD", cli.RedactIfURL(f.own))
		}
		src = rota.Func(qs.Names, h.own)
	default:
		h.deed, err = parseDeed("handle", f.handle)
		h.handles, src = true, qs.Source
	}
	if err == nil && h.deed.runs() && f.lease < leastExec {
		err = cli.Usagef("--lease %v is too short for commands: %v of it are for ending commands, and on a busy machine that takes up to %v; use a lease of %v or more", f.lease, EndTime(f.lease), EndTime(leastExec), leastExec)
	}
	if err != nil || f.events == "" {
		return nil, h, src, err
	}
	j, err := line.OpenJournal(f.events, f.group, f.trace, stdout)
	if err != nil {
		err = cli.Usagef("--events: %v", err)
	}
	return j, h, src, err
}

func (f *memberFlags) config(store rota.Store, src rota.Source, h *handler) rota.Config {
	cfg := rota.Config{Group: f.group, Store: store, Source: src, Name: f.name, Labels: f.labels,
		Strategy: rota.Strategy(f.strategy), Mode: rota.Mode(f.rebalance),
		Lease: f.lease, Heartbeat: f.heartbeat, QuietTime: f.quietTime, StopTime: f.stopTime, Grace: f.grace, Orphan: f.orphan, Return: f.ret, ListEvery: f.listEvery, StallTime: f.stallTime,
		Attempts: f.attempts, BackoffFirst: f.backoffFirst, BackoffLast: f.backoffLast, HandleTime: max(f.handleTime, 0),
		Rejoin: f.rejoin, NewGroup: f.newGroup, OnStoreLoss: rota.OnStoreLoss(f.onStoreLoss), Quarantine: cmp.Or(f.quarantine, -1), Log: slog.New(slog.DiscardHandler)} // the command says it in its own words
	if cfg.Strategy == rota.Pack {
		cfg.Packing = f.packing.Packing
	}
	if f.own == "" {
		cfg.Handle = h.handle()
	}
	return cfg
}

// flagWords says in flags what the library says in fields.
func flagWords(err error) error {
	text := strings.TrimPrefix(err.Error(), "rota: ")
	text = strings.ReplaceAll(text, "; is a unit missing, as in 5*time.Second?", "")
	for field, flag := range map[string]string{
		"Lease": "lease", "Heartbeat": "heartbeat", "QuietTime": "quiet-time", "StopTime": "stop-time", "Grace": "grace", "Orphan": "orphan",
		"Return": "return", "ListEvery": "list-every", "StallTime": "stall-time", "BackoffFirst": "backoff-first", "BackoffLast": "backoff-last", "HandleTime": "handle-time", "Attempts": "attempts", "Group": "group", "Source": "source", "Name": "name", "Labels": "label", "Strategy": "strategy", "Mode": "rebalance", "OnStoreLoss": "on-store-loss",
		"Packing.Capacity": "capacity", "Packing.Target": "target", "Packing.Trigger": "trigger", "Packing.CatchUp": "catch-up", "Packing.Interval": "interval",
		"Packing.CoolDown": "cool-down", "Packing.Price": "price", "Packing.Budget": "budget", "Packing.Band": "band", "Packing.Unit": "unit", "Packing.Weights": "weight",
		"Scaling.Max": "scale", "Scaling.Min": "scale", "Scaling.Spare": "spare", "Scaling.Step": "scale-step", "Scaling.Band": "scale-band",
		"Scaling.UpAfter": "up-after", "Scaling.DownAfter": "down-after", "Scaling.Vanish": "vanish", "Scaling.DryRun": "scale-dry-run", "Scaler": "scaler",
	} {
		text = strings.ReplaceAll(text, "Config."+field, "--"+flag)
	}
	return errors.New(text)
}

// abort ends the process: a handler outlived its time, or the watchdog is gone.
func (f *memberFlags) abort(stderr io.Writer, j *line.Journal, err error) {
	fmt.Fprintln(stderr, "rota: aborted:", plain.Lines(strings.TrimPrefix(err.Error(), "rota: ")))
	if j != nil {
		written := make(chan struct{})
		go func() {
			j.Close()
			close(written)
		}()
		select {
		case <-written:
		case <-time.After(100 * time.Millisecond): // partitions of ours are somebody else's soon: a slow disk does not count
		}
	}
	os.Exit(cli.ExitAborted)
}

// waitFor waits until a file exists; it says so if it has to.
func waitFor(ctx context.Context, file string, say func()) error {
	if file == "" {
		return nil
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; said = true {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !said {
			say()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tethered ends with stdin: a supervisor that is gone cannot say so otherwise.
// Whatever does not end in good order then ends anyway.
func tethered(ctx context.Context, stdin io.Reader, lease time.Duration) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, stdin)
		cancel()
		time.Sleep(2*lease + 5*time.Second)
		os.Exit(cli.ExitAborted)
	}()
	return ctx
}

// ended is how a member's end becomes the program's.
func ended(err error) error {
	for _, end := range []struct {
		is   error
		code int
	}{
		{rota.ErrFenced, cli.ExitFenced}, {rota.ErrOrphaned, cli.ExitOrphaned}, {rota.ErrStoreLost, cli.ExitStoreLost},
		{rota.ErrPlanUnwritable, cli.ExitUnwritable}, {rota.ErrBug, cli.ExitBug}, {rota.ErrPermanent, cli.ExitUnreachable},
	} {
		if errors.Is(err, end.is) {
			return cli.Coded(flagWords(err), end.code)
		}
	}
	if err != nil {
		return flagWords(err)
	}
	return nil
}
