package rotatest

import (
	"context"
	"errors"
	"testing"

	"github.com/rota-dev/rota/internal/servers"
)

// These start a cluster whose servers have a network of their own each, so that RealServer.CutOff
// can cut one off, in one direction too. Where the kernel does not allow such networks, the test
// is skipped with a line that begins with NOT ALLOWED.

// StartEtcdApart runs n etcds as one cluster.
func StartEtcdApart(t testing.TB, n int) []*RealServer {
	return startApart(t, n, func(ctx context.Context, x *servers.Net) ([]*RealServer, error) { return x.EtcdCluster(ctx, n) })
}

// StartZooKeeperApart runs n servers as one ensemble.
func StartZooKeeperApart(t testing.TB, n int) []*RealServer {
	return startApart(t, n, func(ctx context.Context, x *servers.Net) ([]*RealServer, error) { return x.ZooKeeperCluster(ctx, n) })
}

// StartNATSApart runs n nats-servers as one cluster.
func StartNATSApart(t testing.TB, n int) []*RealServer {
	return startApart(t, n, func(ctx context.Context, x *servers.Net) ([]*RealServer, error) {
		bin, err := natsServer()
		if err != nil {
			return nil, err
		}
		return x.NATSCluster(ctx, bin, n)
	})
}

// StartRedisSentinelApart runs a master and a replica, which have a network of their own each,
// and three Sentinels.
func StartRedisSentinelApart(t testing.TB, set RedisSetup) (nodes, sentinels []*RealServer) {
	all := startApart(t, 2, func(ctx context.Context, x *servers.Net) ([]*RealServer, error) {
		nodes, sentinels, err := x.RedisSentinel(ctx, set)
		return append(nodes, sentinels...), err
	})
	return all[:2], all[2:]
}

func startApart(t testing.TB, n int, start func(context.Context, *servers.Net) ([]*RealServer, error)) []*RealServer {
	t.Helper()
	x, err := servers.NewNet(n)
	if refused, ok := errors.AsType[*servers.Refused](err); ok {
		t.Skipf("NOT ALLOWED: %v", refused)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the servers have ended
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) { return start(ctx, x) })
}
