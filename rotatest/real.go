package rotatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/servers"
)

// A RealServer is a server that was started for one test and ends with it. WithServer
// accepts it. Drivers need not import internal/servers, and may not.
type RealServer = servers.Server

// These start a real server. If it is not installed, the test is skipped with a line
// that says how to install it; with ROTA_REQUIRE_REAL=1 the test fails instead.
func StartRedis(t testing.TB) *RealServer     { return StartWith(t, servers.Redis) }
func StartZooKeeper(t testing.TB) *RealServer { return StartWith(t, servers.ZooKeeper) }
func StartRabbitMQ(t testing.TB) *RealServer  { return StartWith(t, servers.RabbitMQ) }
func StartActiveMQ(t testing.TB) *RealServer  { return StartWith(t, servers.ActiveMQ) }

// StartEtcd runs one etcd, with these flags besides its own.
func StartEtcd(t testing.TB, flags ...string) *RealServer {
	return StartEtcdCluster(t, 1, flags...)[0]
}

// StartEtcdCluster runs n etcds as one cluster, with these flags besides their own.
func StartEtcdCluster(t testing.TB, n int, flags ...string) []*RealServer {
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) { return servers.EtcdCluster(ctx, n, flags...) })
}

// StartNATS runs the nats-server that a go.mod names as a tool: in this repository the
// go.mod of test, elsewhere your own.
func StartNATS(t testing.TB) *RealServer {
	return StartWith(t, func(ctx context.Context) (*RealServer, error) {
		bin, err := natsServer()
		if err != nil {
			return nil, err
		}
		return servers.NATS(ctx, bin)
	})
}

// StartNATSCluster runs n nats-servers as one cluster.
func StartNATSCluster(t testing.TB, n int) []*RealServer {
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) {
		bin, err := natsServer()
		if err != nil {
			return nil, err
		}
		return servers.NATSCluster(ctx, bin, n)
	})
}

// StartZooKeeperCluster runs n servers as one ensemble.
func StartZooKeeperCluster(t testing.TB, n int) []*RealServer {
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) { return servers.ZooKeeperCluster(ctx, n) })
}

// StartZooKeeperTLS runs a server that speaks TLS with its certificate and key, in one
// file, and asks clients for a certificate of the authority.
func StartZooKeeperTLS(t testing.TB, pair, authority string) *RealServer {
	return StartWith(t, func(ctx context.Context) (*RealServer, error) { return servers.ZooKeeperTLS(ctx, pair, authority) })
}

// natsServer builds nats-server, or finds it in the build cache.
var natsServer = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "nats-server")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n nats-server: %w; where no go.mod names it, go get -tool github.com/nats-io/nats-server/v2\n%s", err, &complaint)
	}
	return strings.TrimSpace(string(out)), nil
})

// A RedisSetup says how Redis servers are run: with a password, with TLS.
type RedisSetup = servers.RedisSetup

// RedisMaster is the name that the Sentinels of StartRedisSentinel know the master by.
const RedisMaster = servers.RedisMaster

// StartRedisSentinel runs a master, a replica and three Sentinels.
func StartRedisSentinel(t testing.TB, set RedisSetup) (nodes, sentinels []*RealServer) {
	all := startAll(t, func(ctx context.Context) ([]*RealServer, error) {
		nodes, sentinels, err := servers.RedisSentinel(ctx, set)
		return append(nodes, sentinels...), err
	})
	return all[:2], all[2:]
}

// StartRedisCluster runs a Redis Cluster. The replicas come last; the first is that of the
// first master.
func StartRedisCluster(t testing.TB, set RedisSetup, masters, replicas int) []*RealServer {
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) {
		return servers.RedisCluster(ctx, set, masters, replicas)
	})
}

// StartRedisWith runs a Redis server with a setup of its own.
func StartRedisWith(t testing.TB, set RedisSetup) *RealServer {
	return StartWith(t, func(ctx context.Context) (*RealServer, error) { return servers.RedisWith(ctx, set) })
}

// StartWith runs a server by start, with the cleanup and skipping of the functions
// above.
func StartWith(t testing.TB, start func(context.Context) (*RealServer, error)) *RealServer {
	t.Helper()
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) {
		s, err := start(ctx)
		return []*RealServer{s}, err
	})[0]
}

func startAll(t testing.TB, start func(context.Context) ([]*RealServer, error)) []*RealServer {
	t.Helper()
	begun := time.Now()
	list, err := start(t.Context())
	var m *servers.Missing
	if errors.As(err, &m) {
		if os.Getenv("ROTA_REQUIRE_REAL") == "1" {
			t.Fatalf("MISSING %v", m)
		}
		t.Skipf("SKIP %v", m)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is ready after %v", list[0].Name, time.Since(begun).Round(time.Millisecond))
	t.Cleanup(func() {
		for _, s := range list {
			if t.Failed() {
				t.Logf("the log of %s ends with:\n%s", s.Name, s.Tail())
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return list
}
