//go:build linux

package processes

import (
	"fmt"
	"testing"
	"time"

	"github.com/rota-dev/rota/rotatest"
)

// activeMQ closes connections of AMQP that are silent for two seconds; by STOMP each client
// says that by itself.
var activeMQ = rotatest.Share(func(t testing.TB) *rotatest.RealServer {
	return rotatest.StartActiveMQ6(t, rotatest.ActiveMQSetup{Plugins: rotatest.ActiveMQStatistics, Beat: "2000"})
})

// activeBroker is an ActiveMQ by one of its protocols. It makes queues when they are first
// used, and tells nobody which there are. A broker that is behind with acknowledgements repeats what
// it has sent, or has not stored: the prefetch of 100 and a batch of 64. By AMQP it is a quarter of the
// prefetch more, for new credit is sent before what was handled for it is settled.
func activeBroker(scheme, protocol string) func(*testing.T) *broker {
	window := 100 + 64
	if scheme == "amqp10" {
		window += 25
	}
	return func(t *testing.T) *broker {
		return &broker{server: activeMQ.Server(t), addr: activeMQ.Server(t).At(protocol), like: ".%d", beat: 2 * time.Second, window: window, source: func(c *crew, addr string) string {
			return fmt.Sprintf("%s://%s?heartbeat=2s&queues=%s", scheme, addr, c.numbered())
		}}
	}
}
