package rotaredis_test

import (
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

func TestGroupOnOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartRedis(t)
	rotatest.Group(t, func(*testing.T) rota.Store { return rotaredis.Store(s.URL()) })
}

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
