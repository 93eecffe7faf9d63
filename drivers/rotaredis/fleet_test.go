package rotaredis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

// A fleet is several servers that are treated as one.
type fleet struct {
	rotatest.Cluster
	scheme, path string
	names        []*rotatest.RealServer // those that the URL names
}

// startSentinel runs a master, its replica and three Sentinels.
func startSentinel(t testing.TB, set rotatest.RedisSetup) (f *fleet, master, replica *rotatest.RealServer) {
	nodes, sentinels := rotatest.StartRedisSentinel(t, set)
	return newFleet(nodes, sentinels), nodes[0], nodes[1]
}

// newFleet is servers that Sentinels know.
func newFleet(nodes, sentinels []*rotatest.RealServer) *fleet {
	f := &fleet{scheme: "redis+sentinel://", path: "/" + rotatest.RedisMaster, names: sentinels}
	f.Nodes, f.Whole = append(nodes[:2:2], sentinels...), f.whole
	return f
}

func startCluster(t testing.TB, set rotatest.RedisSetup, replicas int) *fleet {
	f := &fleet{scheme: "redis+cluster://", names: rotatest.StartRedisCluster(t, set, 3, replicas)}
	f.Nodes, f.Whole = f.names, f.whole
	return f
}

func (f *fleet) URL() string { return f.scheme + f.hosts() + f.path }

func (f *fleet) hosts() string { return (&rotatest.Cluster{Nodes: f.names}).Addrs() }

// whole returns once calls succeed for many groups, so on every node of a Cluster.
func (f *fleet) whole(ctx context.Context) error {
	s := rotaredis.Store(f.URL())
	defer s.Close()
	for _, group := range []string{"a", "b", "c", "d", "e", "f"} {
		for {
			once, cancel := context.WithTimeout(ctx, time.Second)
			_, err := s.Get(once, group+"/whole")
			cancel()
			if err == nil || errors.Is(err, rota.ErrNotFound) {
				break
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

func TestStoreSentinel(t *testing.T) {
	t.Parallel()
	f, _, _ := startSentinel(t, rotatest.RedisSetup{})
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaredis.Store(f.URL()) }, rotatest.WithServer(f))
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	f := startCluster(t, rotatest.RedisSetup{}, 0)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaredis.Store(f.URL()) }, rotatest.WithServer(f))
}
