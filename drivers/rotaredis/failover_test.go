package rotaredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

// TestFailover ends or freezes a master that has a replica, or cuts it off in one direction. The store finds the new one by
// itself, names it differently, and no watch goes on as if nothing had happened.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start func(t *testing.T) (url string, master *rotatest.RealServer)
		away  func(*rotatest.RealServer) error
		back  func(*rotatest.RealServer) error
	}{
		"Sentinels, killed": {sentinelMaster, (*rotatest.RealServer).Kill, restart},
		"Sentinels, frozen": {sentinelMaster, (*rotatest.RealServer).Freeze, (*rotatest.RealServer).Thaw},
		"Sentinels, deaf":   {sentinelMasterApart, cutOff(true, false), cutOff(false, false)},
		"Sentinels, mute":   {sentinelMasterApart, cutOff(false, true), cutOff(false, false)},
		"Cluster, killed":   {clusterMaster, (*rotatest.RealServer).Kill, restart},
		"Cluster, frozen":   {clusterMaster, (*rotatest.RealServer).Freeze, (*rotatest.RealServer).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, master := c.start(t)
			s := rotaredis.Store(url)
			defer s.Close()
			put(t, s, slot0+"/k", "before")
			before := identity(t, s)
			w := watch(t, s, slot0+"/k")
			w.shows(t, "before", false)
			if err := c.away(master); err != nil {
				t.Fatal(err)
			}
			gone := time.Now()
			put(t, s, slot0+"/k", "after")
			t.Logf("writes go on after %v", time.Since(gone).Round(10*time.Millisecond))
			w.shows(t, "after", true)
			watch(t, s, slot0+"/k").shows(t, "after", false)
			if after := identity(t, s); after == before {
				t.Errorf("the new master is still %s", after)
			}
			if err := c.back(master); err != nil {
				t.Fatal(err)
			}
			put(t, s, slot0+"/k", "last") // the former master is a replica now, or will be
			fresh := rotaredis.Store(url)
			defer fresh.Close()
			eventually(t, "a new store finds the same master", func(ctx context.Context) error {
				e, err := fresh.Get(ctx, slot0+"/k")
				if err == nil && string(e.Value) != "last" {
					err = fmt.Errorf("it reads %s", e.Value)
				}
				return err
			})
			if a, b := identity(t, s), identity(t, fresh); a != b {
				t.Errorf("two stores name the master %s and %s", a, b)
			}
		})
	}
}

func sentinelMaster(t *testing.T) (string, *rotatest.RealServer) {
	f, master, _ := startSentinel(t, rotatest.RedisSetup{})
	return f.URL(), master
}

// sentinelMasterApart is a master that can be cut off in one direction: deaf, nothing arrives at
// it, and mute, nothing of it arrives anywhere.
func sentinelMasterApart(t *testing.T) (string, *rotatest.RealServer) {
	nodes, sentinels := rotatest.StartRedisSentinelApart(t, rotatest.RedisSetup{})
	return newFleet(nodes, sentinels).URL(), nodes[0]
}

func cutOff(deaf, mute bool) func(*rotatest.RealServer) error {
	return func(s *rotatest.RealServer) error { return s.CutOff(deaf, mute) }
}

func clusterMaster(t *testing.T) (string, *rotatest.RealServer) {
	f := startCluster(t, rotatest.RedisSetup{}, 1)
	return f.URL(), f.Nodes[0]
}

func restart(s *rotatest.RealServer) error { return s.Start(context.Background()) }

// slot0 is a group whose slot is that of the first master of a Cluster of three.
const slot0 = "b"

// TestPromotedAgain makes a master a replica and a master again. It is the same process
// with other data: it must have another name.
func TestPromotedAgain(t *testing.T) {
	t.Parallel()
	a, b := rotatest.StartRedis(t), rotatest.StartRedis(t)
	doA, doB := admin(t, a), admin(t, b)
	s := rotaredis.Store("redis://" + a.Addr() + "," + b.Addr())
	defer s.Close()
	names := map[string]string{}
	turn := func(what string, to, from *rotatest.RealServer, doTo, doFrom func(...any) any) {
		t.Helper()
		host, port, _ := strings.Cut(to.Addr(), ":")
		doTo("REPLICAOF", "NO", "ONE")
		doFrom("REPLICAOF", host, port)
		eventually(t, what+": the replica follows", func(context.Context) error {
			if up := info(doFrom, "master_link_status"); up != "up" {
				return errors.New(up)
			}
			return nil
		})
		put(t, s, "g/k", what)
		if got := doTo("HGET", "rota:{g}", "/k").(string); !strings.HasSuffix(got, " "+what) {
			t.Errorf("%s: the master has %q", what, got)
		}
		id := identity(t, s)
		if other := names[id]; other != "" {
			t.Errorf("%s, the master is %s, as it was when %s", what, id, other)
		}
		names[id] = what
	}
	turn("a leads", a, b, doA, doB)
	turn("b leads", b, a, doB, doA)
	turn("a leads again", a, b, doA, doB)
}

// TestALostRevisionNeverComesAgain promotes a replica that has not got the last writes, and
// makes as many others on it. The count of changes is the same then; the revision is not,
// so a compare-and-set by a client of the former master is refused.
func TestALostRevisionNeverComesAgain(t *testing.T) {
	t.Parallel()
	a, b := rotatest.StartRedis(t), rotatest.StartRedis(t)
	doB := admin(t, b)
	old, next := rotaredis.Store(a.URL()), rotaredis.Store(b.URL())
	defer old.Close()
	defer next.Close()
	host, port, _ := strings.Cut(a.Addr(), ":")
	doB("REPLICAOF", host, port)
	shared := put(t, old, "g/k", "shared")
	eventually(t, "the replica has it", func(context.Context) error {
		if doB("HEXISTS", "rota:{g}", "/k").(int64) != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	doB("REPLICAOF", "NO", "ONE")
	ctx := t.Context()
	lost, err := old.Put(ctx, "g/k", []byte("lost"), shared)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := next.Put(ctx, "g/k", []byte("kept"), shared)
	if err != nil {
		t.Fatal(err)
	}
	if lost == kept {
		t.Errorf("revision %d is of two values", lost)
	}
	if _, err := next.Put(ctx, "g/k", []byte("wrong"), lost); !errors.Is(err, rota.ErrConflict) {
		t.Errorf("a write over a revision that was lost: %v", err)
	}
}

// TestSlotMoves moves the slot of a group to another node of a Cluster while it is used.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	f := startCluster(t, rotatest.RedisSetup{}, 0)
	from, to := admin(t, f.Nodes[0]), admin(t, f.Nodes[1])
	s := rotaredis.Store(f.URL())
	defer s.Close()
	put(t, s, slot0+"/k", "before")
	w := watch(t, s, slot0+"/k")
	slot := from("CLUSTER", "KEYSLOT", "rota:{"+slot0+"}")
	fromID, toID := from("CLUSTER", "MYID"), to("CLUSTER", "MYID")
	to("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	put(t, s, slot0+"/k", "not yet moved")
	w.shows(t, "not yet moved", false)
	host, port, _ := strings.Cut(f.Nodes[1].Addr(), ":")
	from("MIGRATE", host, port, "rota:{"+slot0+"}", 0, 5000)
	put(t, s, slot0+"/k", "the slot is not, the key is") // by ASK
	asked := time.Now()
	w.shows(t, "the slot is not, the key is", true)
	if d := time.Since(asked); d > 12*time.Second { // all records are read every 15 to 45 s
		t.Errorf("the watch noticed that it had missed a change after %v only", d)
	}
	for i := len(f.Nodes) - 1; i >= 0; i-- {
		admin(t, f.Nodes[i])("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	put(t, s, slot0+"/k", "moved") // by MOVED
	w2 := watch(t, s, slot0+"/k")
	w2.shows(t, "moved", false)
	put(t, s, slot0+"/k", "and on")
	w2.shows(t, "and on", false)
	if n := to("EXISTS", "rota:{"+slot0+"}").(int64); n != 1 {
		t.Error("the new node does not have the group")
	}
}

// TestGroupMadeAnew deletes all records of a group under a watch and writes others, whose
// count begins at 1 again, or replaces them by those of another group with more changes.
func TestGroupMadeAnew(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedis(t)
	do := admin(t, r)
	for _, prefix := range []string{"g/k", "g/"} {
		for what, replace := range map[string]func(s rota.Store){
			"deleted": func(s rota.Store) {
				do("DEL", "rota:{g}")
				put(t, s, "g/k", "new")
			},
			"replaced": func(s rota.Store) {
				for i := range 10 {
					put(t, s, "h/k", fmt.Sprint("new ", i))
				}
				do("RENAME", "rota:{h}", "rota:{g}")
				do("PUBLISH", "rota:{g}/", "1 /k")
				do("PUBLISH", "rota:{g}/k", "1 /k")
			},
		} {
			do("DEL", "rota:{g}")
			s := rotaredis.Store(r.URL())
			defer s.Close()
			for i := range 5 {
				put(t, s, "g/k", fmt.Sprint(i))
			}
			w := watch(t, s, prefix)
			w.shows(t, "4", false)
			replace(s)
			if err := w.until(func() bool { return w.value() != "4" && w.value() != "" }); err == nil {
				t.Errorf("%s: the watch of %s goes on and shows %s", what, prefix, w.value())
			}
		}
	}
}
