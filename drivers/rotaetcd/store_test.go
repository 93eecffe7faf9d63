package rotaetcd_test

import (
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

func TestStoreOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartEtcd(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaetcd.Store("etcd://" + s.Addr() + "/suite") }, rotatest.WithServer(s),
		rotatest.WithWire(s.Addr(), func(_ testing.TB, addr string) rota.Store { return rotaetcd.Store("etcd://" + addr + "/suite") }))
}
