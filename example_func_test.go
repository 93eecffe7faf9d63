package rota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// Work need not come as messages: here one member of the group at a time keeps the
// books of each city, in a loop of its own.
func ExampleFunc() {
	ctx, stop := context.WithCancel(context.Background())
	books := rota.Func([]string{"Lisbon"}, func(ctx context.Context, own rota.Ownership) error {
		for day := 1; ; day++ {
			select {
			case <-own.Stop(): // told to stop: there is time to finish
				fmt.Println(own.Partition(), "is closed in good order")
				return nil
			case <-ctx.Done(): // the lease is lost: another member may have begun
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
			if err := own.Check(); err != nil { // directly before each effect
				return err
			}
			if day <= 2 {
				fmt.Println(own.Partition(), "day", day)
			}
			if day == 2 {
				stop()
			}
			own.Progress(1)
		}
	})
	m, err := rota.New(rota.Config{Group: "books", Store: rotatest.NewMemStore(), NewGroup: true, Source: books})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Lisbon day 1
	// Lisbon day 2
	// Lisbon is closed in good order
}
