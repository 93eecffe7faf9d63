package connect

import (
	"context"
	"errors"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/rotatest"
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

// Connections returns a function that opens one more connection to a store each time it
// is called, as members of several processes have them.
func Connections(raw string) (func() (rota.Store, error), error) {
	s, err := OpenStore(raw)
	if err != nil {
		return nil, err
	}
	if m, ok := s.(*rotatest.MemStore); ok { // another MemStore would be another store
		return func() (rota.Store, error) { return m.Open(), nil }, nil
	}
	return func() (rota.Store, error) { return OpenStore(raw) }, s.Close()
}

// A remover is a Store that keeps something of a group whose records are all deleted, and
// can remove that as well.
type remover interface {
	Remove(ctx context.Context, group string) error
}

// Remove removes what a store still keeps of a group that has no records.
func Remove(ctx context.Context, s rota.Store, group string) error {
	if r, ok := s.(remover); ok {
		return r.Remove(ctx, group)
	}
	return nil
}

// A lister is a Store that knows which groups it has.
type lister interface {
	Groups(ctx context.Context) ([]string, error)
}

// Groups returns the names of the groups of a store. Some may have no record any more.
func Groups(ctx context.Context, s rota.Store) ([]string, error) {
	if l, ok := s.(lister); ok {
		return l.Groups(ctx)
	}
	return nil, errors.ErrUnsupported
}
