package rotanats_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

func ship(ctx context.Context, order []byte, token rota.Token) error { return nil }

// These are the lines of the README.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, err := rota.New(rota.Config{
		Group:  "shop",
		Store:  rotanats.Store("nats://n1,n2,n3?sync=always"),
		Source: rotanats.Source("nats://n1,n2,n3?stream=ORDERS&subject=orders.*&partitions=64"),
		Handle: func(ctx context.Context, msg rota.Message) error {
			return ship(ctx, msg.Value, msg.Token) // a sink that checks the token refuses every former owner
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil { // joins, works, and leaves in good order when ctx ends
		log.Fatal(err)
	}
}
