package rota_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// HandleBatch gets all messages that were fetched, and returns how many from the front
// are done. After an error it is called again with the rest after a back-off, and the
// first message of the rest has one more attempt.
func ExampleConfig_handleBatch() {
	queues := rotatest.NewMemSource(4, "readings")
	queues.Publish("readings", []byte("20"), []byte("21"), []byte("?"), []byte("22"))

	ctx, stop := context.WithCancel(context.Background())
	m, err := rota.New(rota.Config{
		Group:    "weather",
		Store:    rotatest.NewMemStore(),
		NewGroup: true,
		Source:   queues,
		Attempts: 2,
		HandleBatch: func(ctx context.Context, msgs []rota.Message) (done int, err error) {
			fmt.Printf("a batch of %d, attempt %d\n", len(msgs), msgs[0].Attempt)
			for i, msg := range msgs {
				if string(msg.Value) == "?" {
					return i, errors.New("not a number")
				}
				if string(msg.Value) == "22" {
					stop()
				}
			}
			return len(msgs), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for _, msg := range queues.Dead() {
		fmt.Printf("dead letter: %s\n", msg.Value)
	}
	// Output:
	// a batch of 4, attempt 1
	// a batch of 2, attempt 2
	// a batch of 1, attempt 1
	// dead letter: ?
}
