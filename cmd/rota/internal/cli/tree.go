package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Run runs a tree of commands, prints an error once and returns the code to exit
// with. look sees each command when its settings are known.
func Run(ctx context.Context, root *cobra.Command, look func(*cobra.Command), args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(badFlag)
	root.SilenceErrors, root.SilenceUsage = true, true // they are printed here, once
	addDefaults(root)

	began := false
	prepare(root, func() { began = true }, look)
	err := root.ExecuteContext(ctx)
	code, silent := ExitCode(err, began)
	if !silent {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), plain.Lines(err.Error()))
	}
	return code
}

func badFlag(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Usagef("--%s %q: %v; see %s --help", bad.GetFlag().Name, RedactIfURL(bad.GetValue()), bad.Unwrap(), cmd.CommandPath())
	}
	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok && cmd.Flags().Lookup(renamed[bad.GetSpecifiedName()]) != nil {
		return Usagef("--%s is called --%s now; see %s --help", bad.GetSpecifiedName(), renamed[bad.GetSpecifiedName()], cmd.CommandPath())
	}
	return Usagef("%v; see %s --help", err, cmd.CommandPath())
}

// prepare makes every command of the tree call began when its own work starts, and
// look when its settings are known.
// A command that only holds others prints its help, and refuses what it does
// not know; cobra by itself would print help and report success.
func prepare(cmd *cobra.Command, began func(), look func(*cobra.Command)) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = knownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		cmd.DisableFlagsInUseLine = true
		cmd.SuggestionsMinimumDistance = 2
	}
	if args := cmd.Args; args != nil && !cmd.HasSubCommands() && cmd.Name() != "help" {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			err := args(cmd, given)
			if err != nil && strings.HasPrefix(err.Error(), "unknown") {
				return unknownArgument(cmd, given)
			}
			if err != nil {
				return Usagef("want %s; see %s --help", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
			}
			return err
		}
	}
	if do := cmd.RunE; do != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			began()
			warnOfSecrets(cmd)
			warnOfVariables(cmd, os.Environ())
			if err := ApplySettings(cmd); err != nil {
				return err
			}
			look(cmd)
			return do(cmd, args)
		}
	}
	completeChoices(cmd)
	for _, sub := range cmd.Commands() {
		prepare(sub, began, look)
	}
}

// addDefaults adds cobra's own commands, which take note of where to print when
// they are made.
func addDefaults(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = knownTopic
	}
}

// unknownArgument is cobra's refusal of arguments where none are wanted. The
// argument may be a URL whose flag was forgotten.
func unknownArgument(cmd *cobra.Command, given []string) error {
	return Usagef("unknown command %q for %q", RedactIfURL(given[0]), cmd.CommandPath())
}

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("unknown command %q, did you mean %s?", RedactIfURL(args[0]), strings.Join(near, " or "))
	}
	return Usagef("unknown command %q; see %s --help", RedactIfURL(args[0]), cmd.CommandPath())
}

func knownTopic(help *cobra.Command, args []string) error {
	_, rest, err := help.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return Usagef("no help on %q; see rota --help", RedactIfURL(strings.Join(args, " ")))
	}
	return nil
}
