// First is a member in Go of the group that rota up runs: a program to begin with.
//
//	go run ./cmd/rota up       # in one terminal
//	go run ./examples/first    # in another, in the same folder; again in a third
//
// It gets its share of the partitions, handles their messages in order, and hands them over
// when Ctrl-C ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

func main() {
	dir := flag.String("dir", "rota-data", "the folder of rota up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err := rota.New(rota.Config{
		Group:  "demo",
		Store:  rotanats.Store("folder:" + *dir),
		Source: rotanats.Source("folder:" + *dir + "?stream=DEMO&subject=demo.*&partitions=16"),
		Handle: handle,
	})
	if err == nil {
		err = m.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// handle runs for one message of a partition at a time. After an error the message is tried
// again, and those behind it wait.
func handle(_ context.Context, msg rota.Message) error {
	fmt.Printf("%s, under token %d: %s\n", msg.Partition, msg.Token, msg.Value)
	return nil
}
