package rota_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// The first member of a group owns every queue. In a program the store would be
// a server, the source a broker, and ctx would come from signal.NotifyContext.
func Example() {
	queues := rotatest.NewMemSource(0, "orders.0", "orders.1")
	queues.Publish("orders.1", []byte("a pair of shoes"))

	ctx, stop := context.WithCancel(context.Background())
	m, err := rota.New(rota.Config{
		Group:    "shop",
		Store:    rotatest.NewMemStore(),
		NewGroup: true, // the store is new, so there is no old lease to wait for
		Source:   queues,
		Handle: func(ctx context.Context, msg rota.Message) error {
			fmt.Printf("%s: %s\n", msg.Partition, msg.Value)
			stop() // the shop closes
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil { // joins, consumes, hands over, leaves
		log.Fatal(err)
	}
	fmt.Println("left, with a backlog of", queues.Backlog("orders.1"))
	// Output:
	// orders.1: a pair of shoes
	// left, with a backlog of 0
}
