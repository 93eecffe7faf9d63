package rotaetcd_test

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

func TestStoreOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartEtcd(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaetcd.Store("etcd://" + s.Addr() + "/suite") }, rotatest.WithServer(s),
		rotatest.WithWire(s.Addr(), func(_ testing.TB, addr string) rota.Store { return rotaetcd.Store("etcd://" + addr + "/suite") }),
		rotatest.WithCompaction(compaction(t, s.Addr())))
	t.Run("group", func(t *testing.T) {
		rotatest.Group(t, func(*testing.T) rota.Store { return rotaetcd.Store("etcd://" + s.Addr() + "/group") }, rotatest.WithLoss(s))
	})
}

// compaction makes an etcd forget all revisions but the newest. Its connection is there
// before, so that it is quick.
func compaction(t testing.TB, addr string) func(testing.TB) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	kv := pb.NewKVClient(conn)
	return func(t testing.TB) {
		t.Helper()
		now, err := kv.Range(t.Context(), &pb.RangeRequest{Key: []byte("any")})
		if err == nil {
			_, err = kv.Compact(t.Context(), &pb.CompactionRequest{Revision: now.Header.Revision})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
