// Fenced-sink handles orders and saves each in a sink that checks tokens: SQLite, Redis, a NATS
// key-value bucket or Kafka. A process that was frozen in the middle of a handler, for longer than
// its lease, and wakes when another one has its partition, is refused by the sink.
//
//	go run ./examples/fenced-sink -source 'nats://localhost?stream=ORDERS&subject=orders.*&partitions=8&create=true' -sink sqlite:orders.db
//	… -sink redis://localhost:6379
//	… -sink nats://localhost:4222?bucket=orders
//	… -sink kafka://localhost:9092?topic=saved
//
// It needs a NATS server with JetStream, where the processes meet: -store.
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
)

func main() {
	store := flag.String("store", "nats://localhost:4222", "where processes meet")
	source := flag.String("source", "nats://localhost:4222?stream=ORDERS&subject=orders.*&partitions=8&create=true", "the orders")
	sink := flag.String("sink", "sqlite:orders.db", "where they are saved")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *store, *source, *sink); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is a member of the group until ctx ends.
func run(ctx context.Context, store, source, url string) error {
	sink, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer sink.Close()
	m, err := rota.New(rota.Config{
		Group:  "orders",
		Store:  rotanats.Store(store),
		Source: rotanats.Source(source),
		Handle: sink.Save,
		Log:    slog.Default(),
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}
