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
// accepts it. Drivers need not import internal/servers, and may not: besides the methods
// of Server it has
//
//	Addr() string               HOST:PORT
//	URL() string                the same as a URL, for clients that want one
//	At(protocol string) string  HOST:PORT of one protocol, if it speaks several
//	Admin() string              HOST:PORT of its administration, if it has one
//	Log() string                the file of its log
//	CutOff(deaf, mute bool)     see StartEtcdApart
type RealServer = servers.Server

// These start a real server. If it is not installed, the test is skipped with a line
// that says how to install it; with ROTA_REQUIRE_REAL=1 the test fails instead.
func StartRedis(t testing.TB) *RealServer    { return StartWith(t, servers.Redis) }
func StartRabbitMQ(t testing.TB) *RealServer { return StartWith(t, servers.RabbitMQ) }
func StartActiveMQ(t testing.TB) *RealServer { return StartWith(t, servers.ActiveMQ) }

// StartZooKeeper runs one ZooKeeper, with these options of java besides its own.
func StartZooKeeper(t testing.TB, options ...string) *RealServer {
	return StartWith(t, func(ctx context.Context) (*RealServer, error) { return servers.ZooKeeper(ctx, options...) })
}

// A RabbitSetup says how RabbitMQ is run: with TLS.
type RabbitSetup = servers.RabbitSetup

// StartRabbitMQWith runs RabbitMQ with a setup of its own.
func StartRabbitMQWith(t testing.TB, set RabbitSetup) *RealServer {
	return StartWith(t, func(ctx context.Context) (*RealServer, error) { return servers.RabbitMQWith(ctx, set) })
}

// StartRabbitMQCluster runs n nodes of RabbitMQ as one cluster. Ready of a node returns once it
// may be killed: every quorum queue has a majority without it.
func StartRabbitMQCluster(t testing.TB, set RabbitSetup, n int) []*RealServer {
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) {
		nodes, mapper, err := servers.RabbitMQCluster(ctx, set, n)
		return append(nodes, mapper), err
	})[:n]
}

// RabbitNode is the name that the i-th node of a cluster has for RabbitMQ, from 1.
func RabbitNode(i int) string { return servers.RabbitNode(i) }

// A SharedServer is a server that all tests of a package share. It starts with the first
// test that needs it; TestMain closes it.
type SharedServer struct {
	start func(testing.TB) *RealServer
	mu    sync.Mutex
	s     *RealServer
	ends  []func()
}

// Share shares a server that start starts, such as StartRabbitMQ.
func Share(start func(testing.TB) *RealServer) *SharedServer { return &SharedServer{start: start} }

// Server returns the server.
func (s *SharedServer) Server(t testing.TB) *RealServer {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.s == nil {
		s.s = s.start(&outliving{t, s})
	}
	return s.s
}

// Close ends the server.
func (s *SharedServer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range s.ends {
		end()
	}
	s.s, s.ends = nil, nil
}

// outliving is a test whose cleanups wait for the end of the package.
type outliving struct {
	testing.TB
	s *SharedServer
}

func (o *outliving) Cleanup(f func()) { o.s.ends = append(o.s.ends, f) }

func (o *outliving) Context() context.Context { return context.Background() }

// Failed is asked by cleanups, when nobody can log any more.
func (o *outliving) Failed() bool { return false }

func (o *outliving) Error(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// A KafkaSetup says how a Kafka broker is run: with TLS, with users.
type KafkaSetup = servers.KafkaSetup

// StartKafka runs one Kafka broker, from the jars of test/kafka/pom.xml.
func StartKafka(t testing.TB) *RealServer { return StartKafkaWith(t, KafkaSetup{}) }

// StartKafkaWith runs a Kafka broker with a setup of its own.
func StartKafkaWith(t testing.TB, set KafkaSetup) *RealServer {
	return StartWith(t, func(ctx context.Context) (*RealServer, error) {
		jars, err := servers.KafkaJars()
		if err != nil {
			return nil, err
		}
		return servers.KafkaWith(ctx, jars, set)
	})
}

// KafkaSigned and KafkaMutual are the addresses of a broker whose setup has a certificate:
// where clients sign in by SASL over TLS, and where they show a certificate.
func KafkaSigned(s *RealServer) string { return servers.KafkaSigned(s) }
func KafkaMutual(s *RealServer) string { return servers.KafkaMutual(s) }

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

// An ActiveMQSetup says how an ActiveMQ broker is run: with users, with TLS.
type ActiveMQSetup = servers.ActiveMQSetup

// ActiveMQStatistics is the plugin of a broker that answers questions for statistics.
const ActiveMQStatistics = servers.ActiveMQStatistics

// StartActiveMQ6 runs a broker that speaks STOMP and AMQP 1.0.
func StartActiveMQ6(t testing.TB, set ActiveMQSetup) *RealServer {
	return StartWith(t, func(ctx context.Context) (*RealServer, error) { return servers.ActiveMQ6(ctx, set) })
}

// StartActiveMQPair runs two brokers over one directory of messages: one serves, the other
// waits until the first has ended.
func StartActiveMQPair(t testing.TB, set ActiveMQSetup) []*RealServer {
	return startAll(t, func(ctx context.Context) ([]*RealServer, error) { return servers.ActiveMQPair(ctx, set) })
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

// starts is a semaphore: a server that starts needs a processor, and tests have more of them
// than there are processors.
var starts = make(chan struct{}, 2)

func startAll(t testing.TB, start func(context.Context) ([]*RealServer, error)) []*RealServer {
	t.Helper()
	starts <- struct{}{}
	begun := time.Now()
	list, err := start(t.Context())
	<-starts
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
