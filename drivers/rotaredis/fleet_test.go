package rotaredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

// A fleet is several servers that are treated as one.
type fleet struct {
	scheme, path string
	names        []*rotatest.RealServer // those that the URL names
	all          []*rotatest.RealServer // in the order to start them
	snaps        map[rotatest.Snapshot][]rotatest.Snapshot
}

// startSentinel runs a master, its replica and three Sentinels.
func startSentinel(t testing.TB, set rotatest.RedisSetup) (f *fleet, master, replica *rotatest.RealServer) {
	nodes, sentinels := rotatest.StartRedisSentinel(t, set)
	f = &fleet{scheme: "redis+sentinel://", path: "/" + rotatest.RedisMaster, names: sentinels, all: append(nodes[:2:2], sentinels...),
		snaps: map[rotatest.Snapshot][]rotatest.Snapshot{}}
	return f, nodes[0], nodes[1]
}

func startCluster(t testing.TB, set rotatest.RedisSetup, replicas int) *fleet {
	nodes := rotatest.StartRedisCluster(t, set, 3, replicas)
	return &fleet{scheme: "redis+cluster://", names: nodes, all: nodes, snaps: map[rotatest.Snapshot][]rotatest.Snapshot{}}
}

func (f *fleet) URL() string { return f.scheme + f.hosts() + f.path }

func (f *fleet) hosts() string {
	var hosts []string
	for _, s := range f.names {
		hosts = append(hosts, s.Addr())
	}
	return strings.Join(hosts, ",")
}

func (f *fleet) each(do func(*rotatest.RealServer) error) error {
	var errs []error
	for _, s := range f.all {
		errs = append(errs, do(s))
	}
	return errors.Join(errs...)
}

func (f *fleet) Start(ctx context.Context) error {
	if err := f.each(func(s *rotatest.RealServer) error { return s.Start(ctx) }); err != nil {
		return err
	}
	return f.whole(ctx)
}

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

// backwards ends the servers in the other order: a Sentinel that outlives the master would
// replace it.
func (f *fleet) backwards(do func(*rotatest.RealServer) error) error {
	var errs []error
	for i := len(f.all) - 1; i >= 0; i-- {
		errs = append(errs, do(f.all[i]))
	}
	return errors.Join(errs...)
}

func (f *fleet) Stop(ctx context.Context) error {
	return f.backwards(func(s *rotatest.RealServer) error { return s.Stop(ctx) })
}

func (f *fleet) Kill() error   { return f.backwards((*rotatest.RealServer).Kill) }
func (f *fleet) Freeze() error { return f.backwards((*rotatest.RealServer).Freeze) }
func (f *fleet) Thaw() error   { return f.each((*rotatest.RealServer).Thaw) }

func (f *fleet) Snapshot() (rotatest.Snapshot, error) {
	var all []rotatest.Snapshot
	err := f.each(func(s *rotatest.RealServer) error {
		snap, err := s.Snapshot()
		all = append(all, snap)
		return err
	})
	f.snaps[all[0]] = all
	return all[0], err
}

func (f *fleet) Restore(snap rotatest.Snapshot) error {
	i := 0
	return f.each(func(s *rotatest.RealServer) error {
		i++
		return s.Restore(f.snaps[snap][i-1])
	})
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
