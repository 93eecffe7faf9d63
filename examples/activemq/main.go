// Activemq handles the orders of ActiveMQ queues, each message once as far as this process
// knows: by STOMP, or by AMQP 1.0 with another URL. However many processes of it run, each queue
// is handled by one of them at a time, in order.
//
//	go run ./examples/activemq -source 'stomp://localhost:61613?queues=orders.{0..7}'
//	go run ./examples/activemq -source 'amqp10://localhost:5672?queues=orders.{0..7}'
//	rota produce --source 'stomp://localhost:61613?queues=orders.{0..7}' shoes socks hats
//
// It needs a NATS server with JetStream, where the processes meet: -store. A broker and its
// standby are two hosts of one URL: stomp://b1:61613,b2:61613.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaactive"
	"github.com/rota-dev/rota/drivers/rotanats"
)

func main() {
	store := flag.String("store", "nats://localhost:4222", "where processes meet")
	source := flag.String("source", "stomp://localhost:61613?queues=orders.{0..7}", "the queues")
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
	var h handler
	m, err := rota.New(rota.Config{
		Group:  "orders",
		Store:  rotanats.Store(store),
		Source: rotaactive.Source(source),
		Handle: h.handle,
		Log:    slog.Default(),
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// A handler leaves out what it has handled before. When a broker dies it can have forgotten
// that messages were settled, and delivers them again, each under the ID that it had. A
// process that dies forgets as well: to be sure across that, keep the IDs where the effects are.
type handler struct{ last sync.Map } // queue → ID of the last message

func (h *handler) handle(_ context.Context, msg rota.Message) error {
	if id, known := h.last.Swap(msg.Partition, msg.ID); known && msg.ID != "" && id == msg.ID {
		return nil
	}
	fmt.Printf("%s %s\n", msg.Partition, msg.Value)
	return nil
}
