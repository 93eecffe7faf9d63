package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/spf13/cobra"
)

// A command can be frozen together with rota and the watchdog. When all of them wake up
// after the lease, nobody has ended the command yet, and only a look at a clock can tell
// it that its time is over. So each command has a file with the end of its time, which
// any language can read and compare with CLOCK_BOOTTIME.

// A span is the time in which a command may act: two readings of CLOCK_BOOTTIME. A look
// passes from since on and before end. A clock that is not the one since was read from,
// as in another time namespace, most likely reads less than since, and is refused.
type span struct{ since, end time.Duration }

// over is the span of a command whose lease was withdrawn: no clock is in it.
var over span

func (s span) holds(now time.Duration) bool { return s.since <= now && now < s.end }

// String is the span as it stands in the file and in the header Rota-Lease.
func (s span) String() string { return fmt.Sprintf("%d %d", int64(s.since), int64(s.end)) }

func parseSpan(text string) (span, error) {
	since, end, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
	a, err := strconv.ParseUint(since, 10, 63)
	b, err2 := strconv.ParseUint(end, 10, 63)
	if err := errors.Join(err, err2); err != nil {
		return over, fmt.Errorf("want two numbers of nanoseconds")
	}
	return span{time.Duration(a), time.Duration(b)}, nil
}

// A leaseholder tells how long it may still act: an ownership.
type leaseholder interface{ Remaining() time.Duration }

// spanOf is the time for work that must be gone a margin before the lease of by ends.
func spanOf(by leaseholder, margin time.Duration) span {
	now := clock.Boot()
	left := by.Remaining()
	// clock-before-lease: The clock is read before the remaining lease that is added to it.
	// Without it: The agent is frozen between the two. The command's time is counted from
	// the later clock and outlasts the lease by as long as the freeze.
	if rule.ClockBeforeLease.Off() {
		now = clock.Boot()
	}
	if left <= margin {
		return over
	}
	return span{now, now + left - margin}
}

// leaseFiles are the files in which commands find their span, one for each command.
type leaseFiles struct {
	scratch
	next atomic.Uint64
}

// A leaseFile is the file of one command; nil if it could not be written, and then the
// command has no such variable in its environment, and a look of it fails.
type leaseFile struct {
	path  string
	shows span
}

func (f *leaseFiles) create(s span) (*leaseFile, error) {
	dir, err := f.open("rota-run-")
	if err != nil {
		return nil, err
	}
	file := &leaseFile{filepath.Join(dir, strconv.FormatUint(f.next.Add(1), 10)), s}
	return file, os.WriteFile(file.path, []byte(s.String()+"\n"), 0o600) // nobody knows of it yet
}

// show writes a span. If that fails, the old one stands, which ends sooner.
func (f *leaseFile) show(s span) {
	if f == nil || f.shows == s {
		return
	}
	if replaceFile(f.path, s.String()) == nil {
		f.shows = s
	} else if s == over {
		f.remove() // a look fails without a file, too
	}
}

func (f *leaseFile) remove() {
	if f != nil {
		os.Remove(f.path)
	}
}

// LeaseCmd is for shells. The file is read before the clock: after a freeze between the
// two, the clock is late and the look is refused.
func LeaseCmd() *cobra.Command {
	var file string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "Tell a command whether its lease still lasts, and for how long",
		Long: `Lease is for commands that rota run has started, with --handle or --own. It exits
with 0 and prints the time that is left, if the command may still act; otherwise it exits
with 1. Call it directly before an effect: an earlier answer is stale if the process was
stopped since.

It reads the file that ROTA_LEASE_FILE names, two readings of CLOCK_BOOTTIME in
nanoseconds: the command may act from the first on and before the second. Programs can
read it by themselves, which takes microseconds: docs/cli.md has examples.`,
		Example: `  rota lease --quiet || exit 77     in a script, before each effect`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			left, err := readLease(file)
			if err == nil && !quiet {
				fmt.Fprintln(cmd.OutOrStdout(), left)
			}
			if err != nil && quiet && !cli.IsUsage(err) {
				return cli.Quietly(cli.ExitFailed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "lease-file", "", "the file with the end of the lease; rota run names it in ROTA_LEASE_FILE")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print nothing: the exit code tells")
	return cmd
}

// readLease is how long the span in a file still lasts.
func readLease(file string) (left time.Duration, err error) {
	if runtime.GOOS != "linux" {
		return 0, errors.New("there are no commands on this system, since exec: needs Linux")
	}
	if file == "" {
		return 0, cli.Usagef("no lease to look at: ROTA_LEASE_FILE is set for commands that rota run starts; or name the file with --lease-file")
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("the lease is over: %s is gone, and so is the command it was for", file)
	}
	if err != nil {
		return 0, fmt.Errorf("the lease cannot be read: %w", err)
	}
	s, err := parseSpan(string(b))
	now := clock.Boot()
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is no lease: %w", file, err)
	case s == over:
		return 0, errors.New("the lease is over: it was withdrawn")
	case now < s.since:
		return 0, fmt.Errorf("the clock reads %v, and the lease began at %v: this is another machine or time namespace than rota's", now, s.since)
	case !s.holds(now):
		return 0, fmt.Errorf("the lease is over: it ended %v ago", now-s.end)
	}
	return s.end - now, nil
}
