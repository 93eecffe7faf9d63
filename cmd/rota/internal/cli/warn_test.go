package cli

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

func TestWarningsAreSentences(t *testing.T) {
	var out strings.Builder
	log := slog.New(warnTo(&out))
	log.Info("not this")
	log.With("folder", "d").Warn("nats-server", "says", "a"+trial.Hostile, "more", 3)
	log.Error("no room", "folder", "e\n", "err", errors.New("full"))
	trial.Tame(t, "warnings", out.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `  warning: nats-server (folder d): "aq\x1b`) || !strings.HasSuffix(lines[0], ` (and 3 more like it)`) ||
		!strings.HasSuffix(lines[1], `  error: no room (folder "e\n"): full`) {
		t.Errorf("%q", lines)
	}
}
