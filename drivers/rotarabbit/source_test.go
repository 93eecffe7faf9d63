package rotarabbit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/rotatest"
)

var kinds = []string{"classic", "single", "quorum"}

func TestSource(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := rabbit.Server(t)
			rotatest.Source(t, func(t *testing.T) rotatest.Broker {
				if kind == "single" {
					return newFinding(t, s, kind)
				}
				return newBroker(t, s, kind)
			})
		})
	}
}

// TestSourceServer stops, kills and freezes a broker of its own.
func TestSourceServer(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := rotatest.StartRabbitMQ(t)
			rotatest.Source(t, func(t *testing.T) rotatest.Broker {
				b := newBroker(t, s, kind)
				if strings.Contains(t.Name(), "killed") || strings.Contains(t.Name(), "without_a_broker") {
					time.Sleep(2 * time.Second) // RabbitMQ 3.10 loses queues that were declared just before a kill, and shows nobody when it will not
				}
				return b
			}, rotatest.WithServer(s))
		})
	}
}
