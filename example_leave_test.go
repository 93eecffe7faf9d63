package rota_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A member leaves in good order: it finishes and settles what it has fetched,
// gives its queues back and returns. Whoever takes over goes on behind it, with
// nothing lost and nothing done twice.
func ExampleMember_Run() {
	store := rotatest.NewMemStore()
	queues := rotatest.NewMemSource(0, "orders")
	handled := make(chan bool)

	join := func(name string) (leave func()) {
		m, err := rota.New(rota.Config{
			Group: "shop", Store: store, NewGroup: true, Source: queues, Name: name,
			Handle: func(ctx context.Context, msg rota.Message) error {
				fmt.Printf("%s handles order %s\n", name, msg.Value)
				handled <- true
				return nil
			},
		})
		if err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background()) // or signal.NotifyContext
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				log.Fatal(err)
			}
			fmt.Println(name, "has left")
		}
	}

	queues.Publish("orders", []byte("1"))
	leaveAnn := join("Ann")
	<-handled
	leaveBob := join("Bob") // there is one queue: he stands by
	queues.Publish("orders", []byte("2"))
	<-handled
	leaveAnn()
	queues.Publish("orders", []byte("3"))
	<-handled
	leaveBob()
	// Output:
	// Ann handles order 1
	// Ann handles order 2
	// Ann has left
	// Bob handles order 3
	// Bob has left
}
