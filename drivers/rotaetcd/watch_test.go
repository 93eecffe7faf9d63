package rotaetcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
)

// compaction compacts everything after each of many writes, while watches begin and go on:
// each sees the newest version, or ends.
func compaction(t *testing.T, addr string) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, r := rotaetcd.Store("etcd://"+addr+"/compaction"), rotaetcd.Store("etcd://"+addr+"/compaction")
	defer w.Close()
	defer r.Close()
	var rev rota.Rev
	const rounds = 40
	watches := make([]*shown, rounds)
	for i := range rounds {
		watches[i] = follow(t, r, "dir/")
		if rev, err = w.Put(t.Context(), "dir/k", fmt.Append(nil, i), rev); err != nil {
			t.Fatal(err)
		}
		if _, err := pb.NewKVClient(conn).Compact(t.Context(), &pb.CompactionRequest{Revision: int64(rev)}); err != nil {
			t.Fatal(err)
		}
	}
	gaps := 0
	for i, shown := range watches {
		if !shown.showsOrEnds(t.Context(), rev) {
			t.Errorf("watch %d of %d neither shows the newest version nor ends", i, rounds)
		}
		if len(shown.ended) > 0 {
			gaps++
		}
	}
	t.Logf("%d of %d watches ended for a gap", gaps, rounds)
}

// showsOrEnds waits until a watch has shown a revision, or has ended.
func (w *shown) showsOrEnds(ctx context.Context, rev rota.Rev) bool {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		select {
		case got := <-w.revs:
			if got == rev {
				return true
			}
		case err := <-w.ended:
			w.ended <- err
			return true
		case <-ctx.Done():
			return false
		}
	}
}
