package rotakafka_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota/drivers/rotakafka"
)

// TestSlowConnections opens connections of which some take long, in every order: a
// partition must not be left to a lane that has looked before.
func TestSlowConnections(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	b.publish(b.names[0], 1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var wg sync.WaitGroup
	for range 40 {
		src := b.open(rotakafka.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(time.Duration(rand.IntN(2)) * 300 * time.Millisecond) // a slow network
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}))
		wg.Go(func() {
			first, end, err := rotakafka.Watch(ctx, src, b.names[0], 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer end()
			select {
			case <-first:
			case <-ctx.Done():
				t.Error("the first record does not come")
			}
		})
	}
	wg.Wait()
}
