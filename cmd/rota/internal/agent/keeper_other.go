//go:build !linux

package agent

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

type keeper struct{ holds string }

type running struct{}

// An exitError is a command that ended otherwise than by exit 0; there is none here.
type exitError struct {
	error
	late bool
}

func (exitError) status() int { return 0 }

var errNoKeeper = errors.New("exec: needs a watchdog process, which this system has none of yet; use http:, or Linux")

func startKeeper(time.Duration, []string, func(error), ...string) (*keeper, error) {
	return nil, errNoKeeper
}

func (k *keeper) Close() error { return nil }

func (k *keeper) folder() *scratch { return &scratch{} }

func (k *keeper) kill() {}

func (k *keeper) onEscape(func(string, int, string)) {}

func (k *keeper) run(_ context.Context, _ leaseholder, c command) error {
	c.sent()
	return errNoKeeper
}

func WatchdogCmd() *cobra.Command {
	return &cobra.Command{Use: "watchdog", Hidden: true, Args: cobra.NoArgs, Example: "  rota run --handle exec:CMD",
		RunE: func(*cobra.Command, []string) error { return errNoKeeper }}
}
