package rotaredis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

func TestGroupOnOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartRedis(t)
	rotatest.Group(t, func(*testing.T) rota.Store { return rotaredis.Store(s.URL()) }, rotatest.WithLoss(s))
}

// TestGroupAcrossAFailoverThatLosesWrites promotes a replica that has not got the last
// acknowledged writes of its master.
func TestGroupAcrossAFailoverThatLosesWrites(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	rotatest.Group(t, func(*testing.T) rota.Store { return rotaredis.Store(p.url()) }, rotatest.WithLoss(p))
}

// A pair is a master and its replica as one rotatest.Server. The snapshot of it is the
// replica, which from then on gets nothing more; to restore it is to promote the replica.
type pair struct {
	*rotatest.RealServer
	replica  *rotatest.RealServer
	doMaster func(words ...any) any
	do       func(words ...any) any // to the replica
}

func newPair(t testing.TB) *pair {
	a, b := rotatest.StartRedis(t), rotatest.StartRedis(t)
	p := &pair{a, b, admin(t, a), admin(t, b)}
	host, port, _ := strings.Cut(a.Addr(), ":")
	p.do("REPLICAOF", host, port)
	eventually(t, "the replica follows", func(context.Context) error {
		if up := info(p.do, "master_link_status"); up != "up" {
			return errors.New(up)
		}
		return nil
	})
	return p
}

func (p *pair) url() string { return "redis://" + p.Addr() + "," + p.replica.Addr() }

func (p *pair) Freeze() error { return nil }
func (p *pair) Thaw() error   { return nil }

func (p *pair) Snapshot() (rotatest.Snapshot, error) {
	p.doMaster("WAIT", 1, 1000)       // or the copy may be from before the group
	p.do("REPLICAOF", "127.0.0.1", 1) // where nobody is
	return rotatest.Snapshot{}, nil
}

func (p *pair) Restore(rotatest.Snapshot) error {
	p.do("REPLICAOF", "NO", "ONE")
	return nil
}

func (p *pair) Start(context.Context) error { return nil } // the master stays away

func TestGroupOnACluster(t *testing.T) {
	t.Parallel()
	f := startCluster(t, rotatest.RedisSetup{}, 0)
	rotatest.Group(t, func(*testing.T) rota.Store { return rotaredis.Store(f.URL()) })
}

func TestGroupBySentinels(t *testing.T) {
	t.Parallel()
	f, _, _ := startSentinel(t, rotatest.RedisSetup{})
	rotatest.Group(t, func(*testing.T) rota.Store { return rotaredis.Store(f.URL()) })
}

// A lone is the only member of its group.
type lone struct {
	t     testing.TB
	store rota.Store
	ended chan error
}

// newLone starts a member with this lease, and returns once it runs its partitions. In a
// group that is not known to be new, that takes a lease.
func newLone(t testing.TB, url string, lease time.Duration, newGroup bool) *lone {
	t.Helper()
	l := &lone{t, rotaredis.Store(url), make(chan error, 1)}
	m, err := rota.New(rota.Config{Group: slot0, Name: "c1", NewGroup: newGroup, Store: l.store, Source: rotatest.NewMemSource(8, "q0", "q1"),
		Lease: lease, Heartbeat: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Handle: func(context.Context, rota.Message) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-over
		l.store.Close()
	})
	go func() {
		defer close(over)
		l.ended <- m.Run(ctx)
	}()
	eventually(t, "it runs both", func(ctx context.Context) error {
		s, err := rota.Inspect(ctx, l.store, slot0)
		if err != nil {
			return err
		}
		if len(s.Partitions) != 2 || len(s.Waits) != 0 || s.Partitions[0].Owner == "" {
			return fmt.Errorf("%v", s)
		}
		return nil
	})
	return l
}

// beats waits until the member has written two further heartbeats, and returns the status
// of the group.
func (l *lone) beats() (s rota.Status) {
	l.t.Helper()
	seen := map[rota.Rev]bool{}
	eventually(l.t, "heartbeats", func(ctx context.Context) error {
		for batch, err := range l.store.Watch(ctx, slot0+"/member/") {
			if err != nil {
				return err
			}
			for _, e := range batch {
				seen[e.Rev] = true
			}
			break
		}
		if len(seen) < 3 {
			return errors.New("not yet")
		}
		var err error
		s, err = rota.Inspect(ctx, l.store, slot0)
		return err
	})
	return s
}

// TestARestartOfAServerOfClassBCostsNothing kills the server of a group and starts it
// again: another run id, and nothing lost. The class must have reached the member before.
func TestARestartOfAServerOfClassBCostsNothing(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedis(t)
	l := newLone(t, r.URL(), 8*time.Second, false) // with NewGroup a member does not wait until the class is known
	before := l.beats()
	if err := errors.Join(r.Kill(), r.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	after := l.beats()
	if after.Leader != before.Leader || after.Plan != before.Plan || after.Hold {
		t.Errorf("plan %d of %s became plan %d of %s", before.Plan, before.Leader, after.Plan, after.Leader)
	}
	select {
	case err := <-l.ended:
		t.Errorf("the member ended: %v", err)
	default:
	}
}

// TestAFailoverOfClassCEndsEverySession kills the master of a group. The new one may lack
// acknowledged writes, so the session ends although the lease would last.
func TestAFailoverOfClassCEndsEverySession(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (string, *rotatest.RealServer){"Sentinels": sentinelMaster, "Cluster": clusterMaster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, master := start(t)
			l := newLone(t, url, time.Minute, true)
			l.beats()
			if err := master.Kill(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-l.ended:
				if !errors.Is(err, rota.ErrStoreLost) {
					t.Errorf("the member ended with %v", err)
				}
			case <-time.After(patience):
				t.Error("the member goes on")
			}
		})
	}
}
