package main

import (
	"context"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

// rotaRuns runs the whole program within the test.
func rotaRuns(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}
