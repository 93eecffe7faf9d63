// Client connects to servers that others run.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

func main() {
	m, err := rota.New(rota.Config{
		Group:  "shop",
		Store:  rotanats.Store("nats://127.0.0.1:4222"),
		Source: rotanats.Source("nats://127.0.0.1:4222?stream=ORDERS&subject=orders.*&partitions=64"),
		Handle: func(context.Context, rota.Message) error { return nil },
	})
	if err == nil {
		err = m.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
}
