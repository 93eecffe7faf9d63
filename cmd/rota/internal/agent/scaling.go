package agent

import (
	"slices"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/spf13/pflag"
)

// scaling are the flags of --scaler.
type scaling struct {
	rota.Scaling
	url string
}

var scalingFlags = []string{"scale", "spare", "scale-step", "scale-band", "up-after", "down-after", "vanish"}

func (s *scaling) flags(fl *pflag.FlagSet) {
	s.Scaling = rota.Scaling{Spare: 1, Step: 4, Band: 0.1, UpAfter: 10 * time.Second, DownAfter: time.Minute, Vanish: 2 * time.Minute}
	fl.StringVar(&s.url, "scaler", "", "who starts and ends members, as the load needs them: "+connect.ScalerExamples())
	fl.Var(cli.Sizes(&s.Min, &s.Max), "scale", "with --scaler: how many members there may be, as 2..16")
	fl.Var(cli.Whole(&s.Spare, 0, 1000), "spare", "with --scaler: members beyond those that the load needs")
	fl.Var(cli.Whole(&s.Step, 1, 1000), "scale-step", "with --scaler: by how many members the size changes at once, at most")
	fl.Var(cli.QuantityIn(&s.Band, 0.01, 10), "scale-band", "with --scaler: how much more load must fit, as a share, before the group shrinks")
	fl.Var(cli.SpanOrNone(&s.UpAfter), "up-after", "with --scaler: how long after the group was made to grow it may be again")
	fl.Var(cli.SpanOrNone(&s.DownAfter), "down-after", "with --scaler: how long after any change of size the group may shrink")
	fl.Var(cli.Span(&s.Vanish), "vanish", "with --scaler: how long a member may take to vanish; then it is used again")
	fl.BoolVar(&s.DryRun, "scale-dry-run", false, "decide how many members are needed and tell, and ask nobody")
}

// check refuses flags that have no effect, and those that lack another.
func (s *scaling) check(strategy string, changed func(string) bool) error {
	if s.url == "" && !s.DryRun {
		if i := slices.IndexFunc(scalingFlags, changed); i >= 0 {
			return cli.Usagef("--%s is for --scaler, which is missing: say who starts and ends members, such as %s", scalingFlags[i], connect.ScalerExamples())
		}
		return nil
	}
	if s.Max == 0 {
		return cli.Usagef("--scaler needs --scale: say how many members there may be, as --scale 2..16")
	}
	if strategy != string(rota.Pack) {
		return cli.Usagef("--scaler is for --strategy pack, and the strategy is %s: only measured load says how many members are needed", strategy)
	}
	return nil
}

// config puts the settings into cfg.
func (s *scaling) config(cfg *rota.Config) error {
	if s.url == "" && !s.DryRun {
		return nil
	}
	cfg.Scaling = s.Scaling
	if cfg.Scaling.Spare == 0 {
		cfg.Scaling.Spare = -1
	}
	if s.url == "" {
		return nil
	}
	x, err := connect.OpenScaler(s.url)
	cfg.Scaler = x
	return err
}
