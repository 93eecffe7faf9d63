package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
)

// benchGroup is the name of a group that nobody else uses.
func benchGroup() string { return "bench-" + strings.ToLower(rand.Text()[:10]) }

// clearGroup deletes everything that a store has of a group without members, until
// nothing is there.
func clearGroup(ctx context.Context, s rota.Store, group string) error {
	for {
		batch, err := listGroup(ctx, s, group)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return connect.Remove(ctx, s, group)
		}
		for _, e := range batch {
			if err := s.Delete(ctx, e.Key, e.Rev); err != nil && !errors.Is(err, rota.ErrConflict) {
				return err
			}
		}
	}
}

// listGroup reads all records of a group.
func listGroup(ctx context.Context, s rota.Store, group string) ([]rota.Entry, error) {
	for batch, err := range s.Watch(ctx, group+"/") {
		return batch, err
	}
	return nil, ctx.Err()
}
