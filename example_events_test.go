package rota_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// Events yields what happens to a member. A slow reader blocks nothing: it gets the
// number of events it missed.
func ExampleMember_Events() {
	m, err := rota.New(rota.Config{
		Group:    "shop",
		Store:    rotatest.NewMemStore(),
		NewGroup: true,
		Source:   rotatest.NewMemSource(0, "orders"),
		Handle:   func(context.Context, rota.Message) error { return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	events := m.Events(context.Background()) // from now on, and until Run has returned

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		if err := m.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}()
	for e := range events {
		fmt.Print(e.Kind, " ")
		if e.Kind == rota.EventStart {
			stop()
		}
	}
	// Output:
	// joined leader plan grant starting start leaving stop stopped left
}
