// Rabbitmq handles the orders of RabbitMQ queues. However many processes of it run, each queue
// is handled by one of them at a time, in order.
//
//	go run ./examples/rabbitmq -source 'amqp://guest:guest@localhost?queues=orders.{0..7}&declare=quorum'
//	rota produce --source 'amqp://guest:guest@localhost?queues=orders.{0..7}&declare=quorum' shoes socks hats
//
// It needs a NATS server with JetStream, where the processes meet: -store. Start it a second
// time, kill one, and look with rota status --group orders --store nats://localhost.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotarabbit"
)

func main() {
	store := flag.String("store", "nats://localhost:4222", "where processes meet")
	source := flag.String("source", "amqp://guest:guest@localhost?queues=orders.{0..7}&declare=quorum", "the queues")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *store, *source); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is a member of the group until ctx ends. Then it finishes what it has begun, hands its
// queues over and leaves.
func run(ctx context.Context, store, source string) error {
	m, err := rota.New(rota.Config{
		Group:  "orders",
		Store:  rotanats.Store(store),
		Source: rotarabbit.Source(source),
		Handle: handle,
		Log:    slog.Default(),
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// handle runs for one message of a queue at a time. An error means that the message is tried
// again, and those behind it wait; only a message that is wrong in itself becomes a dead
// letter: rota dead list shows it.
func handle(_ context.Context, msg rota.Message) error {
	if len(msg.Value) == 0 {
		return fmt.Errorf("%w: an order of nothing", rota.ErrBad)
	}
	fmt.Printf("%s %s\n", msg.Partition, msg.Value)
	return nil
}
