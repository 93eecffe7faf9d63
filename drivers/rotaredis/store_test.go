package rotaredis_test

import (
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

func TestStoreOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartRedis(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaredis.Store(s.URL()) }, rotatest.WithServer(s),
		rotatest.WithWire(s.Addr(), func(_ testing.TB, addr string) rota.Store { return rotaredis.Store("redis://" + addr) }))
}
