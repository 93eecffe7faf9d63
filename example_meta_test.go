package rota_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// crawls is a Source of sites to visit, with a rate for each.
type crawls struct{ done func() }

func (crawls) Partitions(context.Context) ([]rota.Partition, error) {
	return []rota.Partition{{Name: "example.org", Meta: rota.Meta{"per-minute": "30"}}}, nil
}

// Consume follows changes of the metadata without a restart.
func (c crawls) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	own.Started()
	for {
		meta, changed := own.Meta()
		fmt.Println(own.Partition(), "at", meta["per-minute"], "a minute")
		c.done()
		select {
		case <-changed:
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Metadata belongs to a partition and follows it from owner to owner.
func ExampleOwnership_Meta() {
	ctx, stop := context.WithCancel(context.Background())
	m, err := rota.New(rota.Config{
		Group:    "crawler",
		Store:    rotatest.NewMemStore(),
		NewGroup: true,
		Source:   crawls{done: stop},
		Handle:   func(context.Context, rota.Message) error { return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// example.org at 30 a minute
}
