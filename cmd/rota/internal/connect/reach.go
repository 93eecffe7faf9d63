package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/plain"
)

// StoreTime is how long a store may take to answer before it counts as
// unreachable.
const StoreTime = 5 * time.Second

// Reach asks the store anything, so that a wrong address is told at once.
func Reach(ctx context.Context, store rota.Store, group string) error {
	ctx, cancel := context.WithTimeout(ctx, StoreTime)
	defer cancel()
	_, err := store.Get(ctx, group+"/plan")
	switch {
	case errors.Is(err, rota.ErrNotFound):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return silence(store)
	}
	return err
}

// silence tells that there was no answer, and what else is known of it: a right that
// is missing, most likely.
func silence(of any) error {
	text := fmt.Sprintf("no answer within %v", StoreTime)
	if w, ok := of.(rota.Warner); ok {
		for _, why := range w.Warnings() {
			text += "; " + plain.Text(why)
		}
	}
	return errors.New(text)
}

// ReachSource asks the source for its partitions: every member needs it, though
// only the leader asks.
func ReachSource(ctx context.Context, src rota.Source) error {
	ctx, cancel := context.WithTimeout(ctx, StoreTime)
	defer cancel()
	_, err := src.Partitions(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return silence(src)
	}
	if err != nil {
		return Words(err)
	}
	return nil
}
