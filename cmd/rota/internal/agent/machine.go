package agent

import (
	"context"
	"maps"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
)

// findLabel adds the label of --label-from to those of --label.
func (f *memberFlags) findLabel(ctx context.Context) error {
	if f.labelFrom == "" {
		return nil
	}
	key, value, err := connect.LabelFrom(ctx, f.labelFrom)
	if err != nil {
		return err
	}
	if given, both := f.labels[key]; both && given != value {
		return cli.Usagef("--label %s=%s and --label-from %s, which says %s: drop one of them", key, given, f.labelFrom, value)
	}
	labels := maps.Clone(f.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	f.labels = labels
	return nil
}

// metrics returns a function that publishes what --cloudwatch asks for until the member
// has ended, and returns a function that waits for that. Failures are conditions, which
// delay nothing.
func (f *memberFlags) metrics(m *rota.Member, store rota.Store, trace func(rota.Event)) (publish func(context.Context) (wait func()), err error) {
	if f.cloudwatch == "" {
		return func(context.Context) func() { return func() {} }, nil
	}
	published, err := connect.CloudWatch(f.cloudwatch, func(err error) {
		text := "cloudwatch: metrics are published again"
		if err != nil {
			text = err.Error()
		}
		trace(rota.Event{Kind: rota.EventCondition, Condition: "cloudwatch", Time: time.Now(), Member: m.Name(), Because: text})
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) func() {
		// A member that was asked to end is still there until it has left.
		return published.Publish(context.WithoutCancel(ctx), m, store)
	}, nil
}
