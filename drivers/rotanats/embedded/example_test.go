package embedded_test

import (
	"context"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// The processes of one host need no separate server: the first of them runs it.
func ExampleStore() {
	m, err := rota.New(rota.Config{
		Group:  "shop",
		Store:  embedded.Store("embed:./data"),
		Source: rotanats.Source("embed:./data?stream=ORDERS&subject=orders.*&partitions=64&create=true"),
		Handle: func(context.Context, rota.Message) error { return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// A server alone, for the processes of this host and for clients that know a token.
func ExampleServe() {
	s, err := embedded.Serve("embed:./data", "nats://0.0.0.0:4222?token-file=token&cert=server.pem&key=server.key")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	<-s.Done() // its folder was removed
	log.Fatal(s.Err())
}
