package lab

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/failover"
	"github.com/rota-dev/rota/cmd/rota/internal/ops"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// benchPageCmd makes docs/performance.md of what scripts/bench-failover.sh has
// measured.
func benchPageCmd() *cobra.Command {
	output := "table"
	cmd := &cobra.Command{
		Use:     "page FOLDER",
		Short:   "Compare the figures in a folder, or write docs/performance.md of them",
		Long:    "Page reads what rota bench failover --report FOLDER has left there, of one system or of several.",
		Example: "  rota-dev bench page build/bench\n  rota-dev bench page -o page build/bench >docs/performance.md",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := readBench(os.DirFS(args[0]))
			if err != nil {
				return err
			}
			bursts, err := readBursts(os.DirFS(args[0]))
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if output == "page" {
				writePerformance(out, all, bursts)
			} else {
				io.WriteString(out, comparison(all))
			}
			return out.Flush()
		},
	}
	cmd.Flags().VarP(cli.OneWord(&output, "table", "page"), "output", "o", "what to print")
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "page"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// readBench pools the runs of each system; ours is the first.
func readBench(dir fs.FS) ([]*benchReport, error) {
	files, err := fs.Glob(dir, "*-[0-9]*.json")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no figures there: run make bench-failover first, or rota bench failover --report FOLDER")
	}
	single, err := readAll[benchReport](dir, "*-[0-9]*.json")
	if err != nil {
		return nil, err
	}
	var all []*benchReport
	for i := range single {
		s := plain.Copy(&single[i]) // whoever wrote the file
		at := slices.IndexFunc(all, func(r *benchReport) bool { return r.System == s.System })
		if at < 0 {
			s.Broken = []string{}
			all = append(all, s)
			continue
		}
		all[at].Runs = append(all[at].Runs, s.Runs...)
	}
	slices.SortFunc(all, func(a, b *benchReport) int { return strings.Compare(usFirst(a.System), usFirst(b.System)) })
	for _, r := range all {
		r.sum()
	}
	return all, nil
}

func usFirst(system string) string {
	if system == "rota" {
		return ""
	}
	return system
}

// failoverTable tells a person what the runs of one system came to.
func failoverTable(r *benchReport) string {
	var out strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	p("%s: %s, lease %.3g s, heartbeat %.3g s, W %.3g s, %s messages/s of %.3g ms each", r.System, cli.Count(r.Partitions, "partition"), r.Lease, r.Heartbeat, r.Wait, cli.Grouped(r.Rate), r.Handler)
	p("%s, at most %.0f %% busy, of that %.0f points with this%s", cli.Count(r.Machine.Cores, "core"), 100*r.Busy, 100*r.Own, priority(r.Machine.Nice))
	if r.Cost != (cost{}) { // older figures do not tell
		p("processor per message: %v", r.Cost)
	}
	if n := len(r.Disturbed); n > 0 {
		p("not counted: %s more that others disturbed, who had up to %.0f %% of the processor", cli.Count(n, "run"), 100*slices.Max(r.Disturbed))
	}
	p("")
	p("%-27s %4s  %-8s %-15s  %-17s  %5s %5s  %-15s  %-15s  %s", "", "runs", "median", "best to worst", "excess: mid worst", "plans", "moved", "idle ms: mid 99%", "gap ms 99.9%", "overlaps")
	for _, row := range r.Rows {
		excess := ""
		if row.ExcessMedian != nil {
			excess = fmt.Sprintf("%7.3f %7.3f s", *row.ExcessMedian, *row.ExcessWorst)
		}
		p("%-27s %4d  %6.3f s %6.3f–%6.3f s  %-17s  %5d %5d  %7.1f %8.1f  %6.1f → %6.1f  %d", row.Event, row.Runs, row.Median, row.Best, row.Worst, excess,
			row.Plans, row.Moved, row.IdleMedian, row.IdleP99, row.GapBefore, row.GapDuring, row.Overlaps)
	}
	p("")
	p("idle: from the old owner's last message to the new one's first; of a kill that includes the lease.")
	p("gap: between two messages of a partition that did not move, in the %.3g s before and meanwhile.", r.Lease)
	if r.System == "rota" && r.Lease == 5 {
		for _, text := range missed(r.Rows) {
			p("above its bound: %s", text)
		}
	}
	for _, w := range r.Broken {
		p("broken promise: %s", w)
	}
	return out.String()
}

// missed are the bounds that were not kept.
func missed(rows []failover.Row) (out []string) {
	over := func(row failover.Row, what string, got, most float64, unit string) {
		if most > 0 && got > most {
			out = append(out, fmt.Sprintf("%s, %s: %.4g%s, bound %.4g%s", row.Event, what, got, unit, most, unit))
		}
	}
	for _, row := range rows {
		b := failover.Bounds[row.Event]
		over(row, "worst", row.Worst, b.Worst, " s")
		if row.ExcessMedian != nil {
			over(row, "median excess", *row.ExcessMedian, b.ExcessMedian, " s")
			over(row, "worst excess", *row.ExcessWorst, b.ExcessWorst, " s")
		}
		over(row, "plans", float64(row.Plans), float64(b.Plans), "")
		over(row, "median idle time", row.IdleMedian, b.IdleMedian, " ms")
		over(row, "99.9 % of gaps where nothing moved, meanwhile against before", row.GapDuring/max(row.GapBefore, 0.001), b.Gap, "×")
	}
	return out
}

// comparison is one table of all systems.
func comparison(all []*benchReport) string {
	var out strings.Builder
	for _, r := range all {
		out.WriteString(failoverTable(r) + "\n")
	}
	if len(all) > 1 {
		fmt.Fprintf(&out, "median seconds, and how many times rota's\n")
		for _, line := range ratios(all) {
			fmt.Fprintln(&out, strings.Join(line, "  "))
		}
	}
	return out.String()
}

// ratios has a line per event and a cell per system.
func ratios(all []*benchReport) (lines [][]string) {
	head := []string{fmt.Sprintf("%-27s", "")}
	for _, r := range all {
		head = append(head, fmt.Sprintf("%18s", r.System))
	}
	lines = append(lines, head)
	cell := func(event string, figure func(failover.Row) float64, form string) {
		line := []string{fmt.Sprintf("%-27s", event)}
		base := 0.0
		name, _, _ := strings.Cut(event, ", idle")
		for i, r := range all {
			at := slices.IndexFunc(r.Rows, func(row failover.Row) bool { return row.Event == name })
			if at < 0 {
				line = append(line, fmt.Sprintf("%18s", "—"))
				continue
			}
			v := figure(r.Rows[at])
			text := fmt.Sprintf(form, v)
			if i == 0 {
				base = v
			} else if base > 0 {
				text += fmt.Sprintf(" (%.1f×)", v/base)
			}
			line = append(line, fmt.Sprintf("%18s", text))
		}
		lines = append(lines, line)
	}
	for _, event := range failover.Events {
		cell(event, func(r failover.Row) float64 { return r.Median }, "%.3f s")
	}
	for _, event := range failover.Events[:3] {
		cell(event+", idle", func(r failover.Row) float64 { return r.IdleMedian }, "%.1f ms")
	}
	return lines
}

// writePerformance writes docs/performance.md.
func writePerformance(w io.Writer, all []*benchReport, bursts []burst) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	us := all[0]
	p("# Performance\n")
	p("Made by `make performance` from what `make bench-failover` measured; not edited by hand.")
	p("%s, %s, %s, %s%s.\n", cli.Count(us.Machine.Cores, "core"), us.Machine.CPU, us.Machine.Kernel, us.Machine.Go, priority(us.Machine.Nice))
	p("## When members come, go and die\n")
	p("`rota bench failover`: %s, lease %.3g s, heartbeat %.3g s; server and members are", cli.Count(us.Partitions, "partition"), us.Lease, us.Heartbeat)
	p("processes of their own on one machine; a message takes its handler %.3g ms, about %s", us.Handler, cli.Count(int(us.Rate), "message"))
	p("a second in all; every partition always has a backlog. In the busiest run %.0f %% of all", 100*us.Busy)
	p("cores were busy, and never more than %.0f %% with this. Every run has each event once.\n", 100*us.Own)
	p("| event | members | runs | median s | best – worst s | excess, median s | excess, worst s | plans | moved | idle ms, median | idle ms, p99 | overlaps |")
	p("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, row := range us.Rows {
		median, worst := "—", "—"
		if row.ExcessMedian != nil {
			median, worst = fmt.Sprintf("%.3f", *row.ExcessMedian), fmt.Sprintf("%.3f", *row.ExcessWorst)
		}
		p("| %s | %s | %d | %.3f | %.3f – %.3f | %s | %s | %d | %d | %.1f | %.1f | %d |", row.Event, sizes[row.Event], row.Runs, row.Median, row.Best, row.Worst, median, worst,
			row.Plans, row.Moved, row.IdleMedian, row.IdleP99, row.Overlaps)
	}
	p("\nThe clocks: `rota bench failover --help`. Excess is what a kill took above W (%.3g s) minus the", us.Wait)
	p("age of the victim's last heartbeat, counted from when the heartbeat was sent; kills come at")
	p("ten phases of the heartbeat. Idle is the time from the old owner's last message to the new")
	p("owner's first, per partition that moved; of a kill it includes the lease. Plans, moved and")
	p("overlaps are the most of any run. For half a second after each event the driver neither reads")
	p("lines nor publishes. After each run `rota check` judged every event line: %s.\n", ops.Well(len(us.Broken)))
	p("Partitions that do not move, time between two messages, 99.9 %% of all; before, the driver was")
	p("at work, too:\n")
	p("| event | in the %.3g s before, ms | meanwhile, ms |", us.Lease)
	p("|---|---:|---:|")
	for _, row := range us.Rows {
		p("| %s | %.1f | %.1f |", row.Event, row.GapBefore, row.GapDuring)
	}
	p("\nThe bounds are those of [MISSION.md](MISSION.md): joins 0.3 s, leaving 0.2 s, excess 0.1 s in")
	p("the median and 0.4 s at worst, one plan each, idle 20 ms in the median, gaps twice those before.\n")
	if bad := missed(us.Rows); len(bad) == 0 {
		p("All of them were kept.\n")
	} else {
		p("Not kept:\n")
		for _, text := range bad {
			p("- %s", text)
		}
		p("")
	}
	if len(all) > 1 {
		writeComparison(p, all)
	}
	writeBursts(p, bursts)
	p("## What is not measured\n")
	p("- One machine: no network between members and server, and all of them share its cores.")
	p("- One server without replicas; its own records are synced to disk, the messages are in memory.")
	p("- Other brokers than JetStream, other numbers of partitions, handlers that take long to stop.")
	p("- A real Kafka: kfake speaks its protocol, and keeps everything in memory of one process.")
}

// priority is worth a word when it is not the usual one: then the machine had
// other work to do.
func priority(nice int) string {
	if nice == 0 {
		return ""
	}
	return fmt.Sprintf("; everything measured ran at nice %d, on a machine shared with other work", nice)
}

// sizes of the group, before and after.
var sizes = map[string]string{"2nd joins": "1 → 2", "5 join": "2 → 7", "leave": "7 → 6", "kill": "6 → 5", "leader and follower killed": "5 → 3", "leader killed": "3 → 2"}

func writeComparison(p func(string, ...any), all []*benchReport) {
	p("## Beside franz-go's consumer groups\n")
	p("`make bench-failover` measures the same events, by the same driver and the same event lines,")
	p("of franz-go v1.22.2 on kfake: session %.3g s, heartbeat %.3g s, cooperative-sticky (classic) or", all[0].Lease, all[0].Heartbeat)
	p("the broker's own assignment (KIP-848); what was handled is committed before a partition is")
	p("given up, a leaver says so, and fetches wait 20 ms at most. In KIP-848 nobody leads: the oldest")
	p("member is killed instead. Median, and how many times rota's:\n")
	for i, line := range ratios(all) {
		for j := range line {
			line[j] = strings.TrimSpace(line[j])
		}
		p("| %s |", strings.Join(line, " | "))
		if i == 0 {
			p("|---%s|", strings.Repeat("|---:", len(line)-1))
		}
	}
	p("\nRuns, when, and the share of all cores that was busy, median: %s.", whens(all))
	if text := costs(all); text != "" {
		p("What each kind of process used of the processor for a message, median: %s.", text)
	}
	p("A kill is bound by lease or session, whoever waits for it: rota waits W, 5.2 s, to be safe")
	p("with clocks that are 1 %% off, a broker 5 s by its own clock. Excess over each one's own floor,")
	p("median and worst:\n")
	p("| event | %s |", strings.Join(names(all), " | "))
	p("|---%s|", strings.Repeat("|---:", len(all)))
	for _, event := range failover.Events[3:] {
		line := "| " + event
		for _, r := range all {
			cell := "—"
			for _, row := range r.Rows {
				if row.Event == event && row.ExcessMedian != nil {
					cell = fmt.Sprintf("%.3f, %.3f s", *row.ExcessMedian, *row.ExcessWorst)
				}
			}
			line += " | " + cell
		}
		p("%s |", line)
	}
	p("\nTwo owners at work on one partition, most in a run: %s.\n", overlapsOf(all))
}

// whens tells under what conditions each system was measured: they should be the
// same ones.
func whens(all []*benchReport) string {
	var out []string
	for _, r := range all {
		var from, to time.Time
		var busy []float64
		for _, run := range r.Runs {
			if from.IsZero() || run.At.Before(from) {
				from = run.At
			}
			if run.At.After(to) {
				to = run.At
			}
			busy = append(busy, run.Busy)
		}
		out = append(out, fmt.Sprintf("%s %d, %s–%s, %.0f %%", r.System, len(r.Runs), from.Format("2006-01-02 15:04"), to.Format("15:04 MST"), 100*failover.Quantile(busy, 0.5)))
	}
	return strings.Join(out, "; ")
}

func costs(all []*benchReport) string {
	var out []string
	for _, r := range all {
		if r.Cost != (cost{}) {
			out = append(out, fmt.Sprintf("%s: %v", r.System, r.Cost))
		}
	}
	return strings.Join(out, "; ")
}

func names(all []*benchReport) (out []string) {
	for _, r := range all {
		out = append(out, r.System)
	}
	return out
}

func overlapsOf(all []*benchReport) string {
	var out []string
	for _, r := range all {
		n := 0
		for _, row := range r.Rows {
			n = max(n, row.Overlaps)
		}
		out = append(out, fmt.Sprintf("%s %d", r.System, n))
	}
	return strings.Join(out, ", ")
}
