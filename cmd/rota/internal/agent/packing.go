package agent

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/pack"
	"github.com/spf13/pflag"
)

// packing are the flags of --strategy pack.
type packing struct {
	rota.Packing
	unit    string
	weights map[string]string
}

var packingFlags = []string{"capacity", "target", "trigger", "catch-up", "interval", "cool-down", "price", "budget", "band", "unit", "weight"}

func (p *packing) flags(fl *pflag.FlagSet) {
	p.Packing = rota.Packing{Target: 0.8, Trigger: 0.9, CatchUp: 5 * time.Minute, Interval: 30 * time.Second, CoolDown: time.Minute, Price: pack.DefaultPrice}
	p.unit = string(rota.Messages)
	const with = "with --strategy pack: "
	fl.Var(cli.QuantityIn(&p.Capacity, 0, 1e12), "capacity", with+"units per second that a member sustains, if it has no --label capacity=N; 0: learnt")
	fl.Var(cli.QuantityIn(&p.Target, 0.01, 1), "target", with+"share of its capacity that a plan fills")
	fl.Var(cli.QuantityIn(&p.Trigger, 0.01, 100), "trigger", with+"share of its capacity above which a member is overloaded")
	fl.Var(cli.Span(&p.CatchUp), "catch-up", with+"time in which a backlog is to be worked off")
	fl.Var(cli.Span(&p.Interval), "interval", with+"how often the whole plan is looked at")
	fl.Var(cli.SpanOrNone(&p.CoolDown), "cool-down", with+"how long a partition that moved stays, if another can be moved")
	fl.Var(cli.QuantityIn(&p.Price, 0.01, 256), "price", with+"what one member fewer is worth, in members' capacities moved")
	fl.Var(cli.QuantityIn(&p.Budget, 0, 1e6), "budget", with+"most that a plan moves to save members, in members' capacities; 0: no limit")
	fl.Var(cli.QuantityIn(&p.Band, 0, 0.99), "band", with+"share of the members that must be saved before anything moves for it")
	fl.Var(cli.OneWord(&p.unit, string(rota.Messages), string(rota.Bytes)), "unit", with+"what speeds and capacities count")
	fl.StringToStringVar(&p.weights, "weight", nil, with+"PARTITION=UNITS per second, where the source does not measure; may be given more than once")
}

// check refuses flags that have no effect, or that are no numbers, and completes the
// settings.
func (p *packing) check(strategy string, changed func(string) bool) error {
	if strategy != string(rota.Pack) {
		if i := slices.IndexFunc(packingFlags, changed); i >= 0 {
			return cli.Usagef("--%s is for --strategy pack, and the strategy is %s: drop one of them", packingFlags[i], strategy)
		}
		return nil
	}
	if rota.Unit(p.unit) != rota.Messages {
		p.Unit = rota.Unit(p.unit)
	}
	for _, name := range slices.Sorted(maps.Keys(p.weights)) {
		v, err := strconv.ParseFloat(p.weights[name], 64)
		if err != nil || !(v >= 0 && v <= 1e12) {
			return cli.Usagef("--weight %s=%s: want units per second, from 0 to 1e12", name, p.weights[name])
		}
		if p.Weights == nil {
			p.Weights = map[string]float64{}
		}
		p.Weights[name] = v
	}
	return nil
}
