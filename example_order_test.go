package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A program gives an order, as an operator would by rota pause, and waits until the group
// obeys it.
func ExampleGive() {
	ctx, cancel := context.WithCancel(context.Background())
	store := rotatest.NewMemStore()
	m, err := rota.New(rota.Config{Group: "shop", Store: store, NewGroup: true, Source: rotatest.NewMemSource(0, "orders.0", "orders.1"),
		Handle: func(context.Context, rota.Message) error { return nil }})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	for m.Ready(ctx) != nil {
		time.Sleep(time.Millisecond)
	}

	ver, _, err := rota.Give(ctx, store, "shop", rota.Order{Do: "pause", Args: []string{"orders.1"}, Who: "deployer", Why: "the ledger is closed"})
	if err != nil {
		log.Fatal(err)
	}
	for {
		st, err := rota.Inspect(ctx, store, "shop")
		if err != nil {
			log.Fatal(err)
		}
		if st.Orders.Obeyed >= ver && len(st.Waits) == 0 {
			fmt.Println(st.Partitions[0].Name, st.Partitions[0].State)
			fmt.Println(st.Partitions[1].Name, st.Partitions[1].State, st.Partitions[1].Reason)
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output:
	// orders.0 OWNED
	// orders.1 FREE paused
}
