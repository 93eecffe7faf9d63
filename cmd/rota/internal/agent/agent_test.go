package agent

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/spf13/cobra"
)

// agentRoot is the program, as far as this room has commands of it.
func agentRoot() *cobra.Command {
	root := &cobra.Command{Use: "rota"}
	root.AddCommand(RunCmd(), LeaseCmd(), WatchdogCmd())
	return root
}

func agentRuns(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, agentRoot(), func(*cobra.Command) {}, args, stdout, stderr)
}

func TestMain(m *testing.M) { trial.Main(m, func() { cli.Main(agentRuns) }) }

// What a source can do beside its two verbs the member finds by asking it. A wrapper
// would hide that.
func TestTheMemberHasTheSourceItself(t *testing.T) {
	f := &memberFlags{group: "g", source: "nats://127.0.0.1:1?stream=S&subject=a.*&partitions=3", handle: "none", lease: 5 * time.Second}
	_, h, src, err := f.prepare(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.config(nil, src, h)
	if _, ok := cfg.Source.(rota.Preparer); !ok {
		t.Error("the member cannot prepare its source")
	}
	if _, ok := cfg.Source.(rota.Warner); !ok {
		t.Error("the member does not hear what its source warns of")
	}
	if _, ok := cfg.Source.(io.Closer); !ok {
		t.Error("the source cannot be closed")
	}
}

func TestAnOldVariableIsRefusedWithItsNewName(t *testing.T) {
	for old, name := range map[string]string{"ROTA_SETTLE": "ROTA_QUIET_TIME", "ROTA_DRAIN": "ROTA_STOP_TIME"} {
		t.Run(old, func(t *testing.T) {
			t.Setenv(old, "1s")
			var stderr strings.Builder
			code := agentRuns(t.Context(), []string{"run", "--group", "g", "--store", "mem:", "--source", "none:?partitions=2", "--own", "exec:true"}, io.Discard, &stderr)
			if want := old + ": it is called " + name + " now"; code != cli.ExitUsage || !strings.Contains(stderr.String(), want) {
				t.Errorf("exit %d, says %q; want %q", code, stderr.String(), want)
			}
		})
	}
}
