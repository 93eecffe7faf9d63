package rotaredis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

func TestStoreOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartRedis(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaredis.Store(s.URL()) }, rotatest.WithServer(s),
		rotatest.WithWire(s.Addr(), func(_ testing.TB, addr string) rota.Store { return rotaredis.Store("redis://" + addr) }),
		rotatest.WithLiar(liar(s)))
}

// liar publishes messages that look like those of the script.
func liar(s *rotatest.RealServer) rotatest.Liar {
	return func(t testing.TB, key string, value []byte, rev rota.Rev) {
		group, rest, _ := strings.Cut(key, "/")
		do := admin(t, s)
		for _, channel := range []string{"rota:{" + group + "}/dir/", "rota:{" + group + "}/" + rest} {
			for _, message := range []string{"1 /" + rest, fmt.Sprintf("%d /%s", rev, rest), "1 /" + rest + " " + string(value), "", "1 /other/k"} {
				do("PUBLISH", channel, message)
			}
		}
	}
}
