// Package start ties real servers to tests: they are started for one test and
// gone after it. A server that is not installed skips the test, with one line
// that says how to install it; with ROTA_REQUIRE_REAL=1 it fails the test.
package start

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
	"github.com/rota-dev/rota/test/kafka"
)

func Redis(t testing.TB) *servers.Server     { return one(t, servers.Redis) }
func Etcd(t testing.TB) *servers.Server      { return one(t, servers.Etcd) }
func ZooKeeper(t testing.TB) *servers.Server { return one(t, servers.ZooKeeper) }
func RabbitMQ(t testing.TB) *servers.Server  { return one(t, servers.RabbitMQ) }
func ActiveMQ(t testing.TB) *servers.Server  { return one(t, servers.ActiveMQ) }

// Kafka runs a broker from the jars of test/kafka/pom.xml.
func Kafka(t testing.TB) *servers.Server {
	return one(t, func(ctx context.Context) (*servers.Server, error) {
		jars, err := kafka.Jars()
		if err != nil {
			return nil, err
		}
		return servers.Kafka(ctx, jars)
	})
}

// NATS runs the server that test/go.mod names as a tool.
func NATS(t testing.TB) *servers.Server {
	return one(t, func(ctx context.Context) (*servers.Server, error) {
		bin, err := natsServer()
		if err != nil {
			return nil, err
		}
		return servers.NATS(ctx, bin)
	})
}

// NATSCluster runs n of them as one cluster.
func NATSCluster(t testing.TB, n int) []*servers.Server {
	return all(t, func(ctx context.Context) ([]*servers.Server, error) {
		bin, err := natsServer()
		if err != nil {
			return nil, err
		}
		return servers.NATSCluster(ctx, bin, n)
	})
}

// natsServer builds nats-server, or finds it in the build cache.
var natsServer = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "nats-server")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n nats-server: %w\n%s", err, &complaint)
	}
	return strings.TrimSpace(string(out)), nil
})

func one(t testing.TB, start func(context.Context) (*servers.Server, error)) *servers.Server {
	t.Helper()
	return all(t, func(ctx context.Context) ([]*servers.Server, error) {
		s, err := start(ctx)
		return []*servers.Server{s}, err
	})[0]
}

func all(t testing.TB, start func(context.Context) ([]*servers.Server, error)) []*servers.Server {
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
