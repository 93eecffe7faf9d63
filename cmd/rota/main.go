// Rota is the one binary: it runs members, shows groups and checks both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	if err := notSetuid(); err != nil {
		refuse(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal asks to end, the second one kills
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program but for the process around it: it prints an error
// once and says with which code to exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addDefaults(root)

	began := false
	prepare(root, func() { began = true }, warnOfExposed)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, silent := errors.AsType[silentExit](err); silent {
		return int(code)
	}
	fmt.Fprintf(stderr, "rota: %s\n", plain.Lines(err.Error()))
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code
	}
	if _, usage := errors.AsType[usageError](err); usage || !began {
		return exitUsage
	}
	return exitFailed
}

func rootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "rota",
		Short: "Keep a duty roster for queues",
		Long: `Rota keeps a duty roster for queues: at every moment at most one member may
act on a partition, and none is idle for longer than it must be.`,
		Example: `  rota up                  a group at work on this machine: processes, messages, all real
  rota run                 one more member for it, in another terminal of the same folder
  rota status              who leads, who owns what, what is waited for
  rota explain demo.3      the same in words, for one partition
  rota sim                 look for broken promises in 20000 simulated schedules
  rota bench failover      how long partitions wait when members come, go and die
  rota help sim            more about one command
  rota completion bash     completion for your shell`,
		SilenceErrors: true, // run prints them, once
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			return usagef("--%s %q: %v; see %s --help", bad.GetFlag().Name, redactIfURL(bad.GetValue()), bad.Unwrap(), cmd.CommandPath())
		}
		return usagef("%v; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		upCmd(),
		runCmd(),
		serveCmd(),
		produceCmd(),
		statusCmd(),
		explainCmd(),
		partitionsCmd(),
		groupCmd(),
		declareDeadCmd(),
		checkCmd(),
		simCmd(),
		exploreCmd(),
		planCmd(),
		benchCmd(),
		evidenceCmd(),
		watchdogCmd(),
		versionCmd(),
	)
	root.AddCommand(orderCmds()...)
	root.PersistentFlags().String("config", "", "read settings from this YAML file: lease: 5s for --lease 5s; ROTA_LEASE wins over it, a flag over both")
	root.PersistentFlags().BoolFunc("shared-folder", "use a folder that belongs to another user or that others may write to; they can replace what is in it", func(v string) error {
		on, err := strconv.ParseBool(v)
		sharedFolder.Store(on)
		return err
	})
	return root
}
