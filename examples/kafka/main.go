// Kafka turns orders into bills: it consumes the topic orders and produces to the topic bills.
// Readers of committed messages see one bill for each order, also when a process was killed.
// However many processes of it run, each partition is handled by one of them at a time, in order.
//
//	go run ./examples/kafka -source 'kafka://localhost:9092?topic=orders' -bills bills
//	rota produce --source 'kafka://localhost:9092?topic=orders' shoes socks hats
//
// It needs a NATS server with JetStream, where the processes meet: -store. Both topics must be
// there.
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
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	store := flag.String("store", "nats://localhost:4222", "where processes meet")
	source := flag.String("source", "kafka://localhost:9092?topic=orders", "the orders")
	bills := flag.String("bills", "bills", "the topic of the bills")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *store, *source, *bills); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is a member of the group until ctx ends. Then it finishes what it has begun, hands its
// partitions over and leaves.
func run(ctx context.Context, store, source, bills string) error {
	orders := rotakafka.Source(source)
	m, err := rota.New(rota.Config{
		Group:  "orders",
		Store:  rotanats.Store(store),
		Source: orders,
		// The bill is produced in the transaction that commits the offset of its order. What
		// this prints is no part of that: a process that is killed may print a line again.
		Handle: func(_ context.Context, msg rota.Message) error {
			fmt.Printf("%s %s\n", msg.Partition, msg.Value)
			return rotakafka.Produce(orders, msg, &kgo.Record{Topic: bills, Key: []byte(msg.Partition), Value: fmt.Appendf(nil, "bill for %s", msg.Value)})
		},
		Log: slog.Default(),
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}
