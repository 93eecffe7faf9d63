// Member runs a member with a server of its own, in the folder that it is given, and
// ends when it has handled a message.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	folder := "embed:" + os.Args[1]
	store := embedded.Store(folder)
	source := rotanats.Source(folder + "?stream=ORDERS&subject=orders.*&partitions=2&create=true")
	if _, err := store.Get(ctx, "none"); err != nil && err != rota.ErrNotFound { // the server runs now
		log.Fatal(err)
	}
	if _, err := source.Partitions(ctx); err != nil { // and has the stream
		log.Fatal(err)
	}
	nc, err := rotanats.Connect(folder, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("orders.1", []byte("seven apples")); err != nil {
		log.Fatal(err)
	}
	m, err := rota.New(rota.Config{
		Group: "shop", Store: store, NewGroup: true, Source: source,
		Handle: func(_ context.Context, msg rota.Message) error {
			fmt.Printf("%s: %s\n", msg.Partition, msg.Value)
			stop()
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
