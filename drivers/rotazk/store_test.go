package rotazk_test

import (
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/rotatest"
)

func TestStoreOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartZooKeeper(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotazk.Store(s.URL()) }, rotatest.WithServer(s),
		rotatest.WithWire(s.Addr(), func(_ testing.TB, addr string) rota.Store { return rotazk.Store("zk://" + addr) }))
}
