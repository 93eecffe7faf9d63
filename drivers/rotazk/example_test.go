package rotazk_test

import (
	"context"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotazk"
)

// A group whose records are in an ensemble of three servers.
func ExampleStore() {
	store := rotazk.Store("zk://z1,z2,z3/rota")
	defer store.Close()
	m, err := rota.New(rota.Config{
		Group: "orders",
		Store: store,
		Source: rota.Func([]string{"q0", "q1"}, func(ctx context.Context, own rota.Ownership) error {
			<-own.Stop() // work on own.Partition() until then, and ask own.Check() before each effect
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
