// Package shop is a program of a user of rota: members ship orders, and a warehouse
// checks their tokens.
package shop

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rota-dev/rota"
)

// A Warehouse is a sink that checks tokens: it refuses a former owner of a partition.
type Warehouse struct {
	mu      sync.Mutex
	newest  map[string]rota.Token // by partition
	shipped []string
}

// Ship is the effect. The error tells rota that this owner comes too late: nothing is
// settled then.
func (w *Warehouse) Ship(partition string, token rota.Token, order string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token < w.newest[partition] {
		return fmt.Errorf("%s: token %d, and %d was here: %w", partition, token, w.newest[partition], rota.ErrLost)
	}
	if w.newest == nil {
		w.newest = map[string]rota.Token{}
	}
	w.newest[partition] = token
	w.shipped = append(w.shipped, order)
	return nil
}

// Shipped are the orders that went out, oldest first.
func (w *Warehouse) Shipped() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.shipped)
}

// Member is what each process of the shop runs.
func Member(name string, store rota.Store, orders rota.Source, w *Warehouse) rota.Config {
	return rota.Config{
		Group:  "shop",
		Name:   name,
		Store:  store,
		Source: orders,
		Rejoin: true, // after a lost lease it comes back as a new session
		Handle: func(_ context.Context, msg rota.Message) error {
			return w.Ship(msg.Partition, msg.Token, string(msg.Value))
		},
	}
}
