package rota_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A member leaves in good order: it finishes and settles the messages it has fetched,
// hands its queues over and returns. The next owner continues after the last settled
// message: none is lost and none is handled twice.
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
	leaveBob := join("Bob") // there is one queue: Bob is a standby
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
