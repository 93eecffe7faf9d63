package connect

import (
	"context"
	"fmt"
	"slices"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/drivers/rotaaws"
)

// awsScaler opens aws:GROUP.
func awsScaler(raw string, _ bool) (rota.Scaler, error) {
	if err := rotaaws.Check(raw); err != nil {
		return nil, Words(err)
	}
	return rotaaws.Scaler(raw), nil
}

// labelSources are where a member may look for labels that it cannot be given: its
// machine knows them.
var labelSources = []labelSource{
	{"ec2", rotaaws.InstanceLabel, rotaaws.InstanceID},
}

type labelSource struct {
	name, label string
	read        func(context.Context) (string, error)
}

// LabelSources are the names of the places where labels can be looked for.
func LabelSources() (names []string) {
	for _, s := range labelSources {
		names = append(names, s.name)
	}
	return names
}

// LabelFrom looks for the label of one of LabelSources.
func LabelFrom(ctx context.Context, name string) (key, value string, err error) {
	s := labelSources[slices.IndexFunc(labelSources, func(s labelSource) bool { return s.name == name })]
	if value, err = s.read(ctx); err != nil {
		err = cli.Coded(fmt.Errorf("--label-from %s: %w", name, Words(err)), cli.ExitUnreachable)
	}
	return s.label, value, err
}

// CloudWatch returns metrics that are published in a namespace.
func CloudWatch(namespace string, failed func(error)) (*rotaaws.Metrics, error) {
	p, err := rotaaws.CloudWatch(namespace, rotaaws.Failed(failed))
	if err != nil {
		return nil, cli.Usagef("--cloudwatch: %v", Words(err))
	}
	return p, nil
}
