package connect

import (
	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/drivers/rotazk"
)

// etcdStore opens etcd://….
func etcdStore(raw string, _ bool) (rota.Store, error) {
	if err := rotaetcd.Check(raw); err != nil {
		return nil, Words(err)
	}
	return rotaetcd.Store(raw), nil
}

// zkStore opens zk://….
func zkStore(raw string, _ bool) (rota.Store, error) {
	if err := rotazk.Check(raw); err != nil {
		return nil, Words(err)
	}
	return rotazk.Store(raw), nil
}

// redisStore opens redis://…, redis+sentinel://… and redis+cluster://…, and those with
// rediss for TLS.
func redisStore(raw string, _ bool) (rota.Store, error) {
	if err := rotaredis.Check(raw); err != nil {
		return nil, Words(err)
	}
	return rotaredis.Store(raw), nil
}
