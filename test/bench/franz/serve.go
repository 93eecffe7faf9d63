//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// serve runs a broker and publishes what standard input asks for: lines of a
// partition and a number of messages.
func (s *settings) serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(s.partitions), topic), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{
			"group.consumer.heartbeat.interval.ms": ms(s.heartbeat),
			"group.consumer.session.timeout.ms":    ms(s.lease),
		}))
	if err != nil {
		return err
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	bad := make(chan error, 1)
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var partition, n int
			if _, err := fmt.Sscan(in.Text(), &partition, &n); err != nil {
				trySend(bad, fmt.Errorf("%q: want a partition and a number", in.Text()))
				return
			}
			for range n {
				cl.Produce(ctx, &kgo.Record{Partition: int32(partition), Value: []byte("a message")}, func(_ *kgo.Record, err error) {
					if err != nil && ctx.Err() == nil {
						trySend(bad, err)
					}
				})
			}
		}
	}()
	fmt.Println("serving at", c.ListenAddrs()[0])
	select {
	case <-ctx.Done():
		return nil
	case err := <-bad:
		return err
	case <-cut:
		time.Sleep(2 * time.Second) // members leave first
		if s.scratch != "" {
			return os.RemoveAll(s.scratch)
		}
		return errors.New("standard input has ended")
	}
}

func trySend(to chan<- error, err error) {
	select {
	case to <- err:
	default:
	}
}
