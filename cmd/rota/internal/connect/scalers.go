package connect

import (
	"errors"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/scale"
)

// scalers are the kinds of --scaler.
var scalers = []scheme[rota.Scaler]{
	{"local", "local:rota-data/rota.scale", scalerOf(scale.Local)},
	{"webhook", "webhook:https://HOST/PATH?secret-file=FILE", scalerOf(scale.Webhook)},
	{"k8s", "k8s:deployment/NAME, k8s:statefulset/NAME", scalerOf(scale.Kubernetes)},
	{"aws", "aws:GROUP?region=REGION", awsScaler},
}

// scalerOf takes the package's name off an error: the flag is named instead.
func scalerOf(open func(string) (rota.Scaler, error)) func(string, bool) (rota.Scaler, error) {
	return func(raw string, _ bool) (rota.Scaler, error) {
		s, err := open(raw)
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "scale: "))
		}
		return s, nil
	}
}

// OpenScaler makes the scaler that a URL names. It connects to nothing.
func OpenScaler(raw string) (rota.Scaler, error) { return open("scaler", scalers, raw, false) }

// ScalerExamples are the kinds of URL there are, for people.
func ScalerExamples() string { return examples(scalers) }
