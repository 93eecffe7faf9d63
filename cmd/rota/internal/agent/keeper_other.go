//go:build !linux

package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
)

type keeper struct{ holds string }

type leaseholder interface{ Remaining() time.Duration }

type command struct {
	about     string
	argv, env []string
	stdin     []byte
	out, err  *os.File
	stop      <-chan struct{}
}

var errNoKeeper = errors.New("exec: needs a watchdog process, which this system has none of yet; use http:, or Linux")

func startKeeper(time.Duration, []string, func(error), ...string) (*keeper, error) {
	return nil, errNoKeeper
}

func (k *keeper) Close() error { return nil }

func (k *keeper) kill() {}

func (k *keeper) onEscape(func(string, int, string)) {}

func (k *keeper) run(context.Context, leaseholder, command) error { return errNoKeeper }

func WatchdogCmd() *cobra.Command {
	return &cobra.Command{Use: "watchdog", Hidden: true, Args: cobra.NoArgs, Example: "  rota run --handle exec:CMD",
		RunE: func(*cobra.Command, []string) error { return errNoKeeper }}
}
