package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/spf13/cobra"
)

func ProduceCmd() *cobra.Command {
	var source, dir string
	var partition string
	rate, howMany, size := 0, 0, 64
	cmd := &cobra.Command{
		Use:   "produce [VALUE...]",
		Short: "Publish messages to a source",
		Long: `Produce publishes messages, to one partition or to all of them in turn: the values
given, or the lines of standard input with -, or, with --count or --rate, messages
that it makes up. Each is acknowledged by the broker before it counts.

Without --source it publishes to the stream of the rota up of this folder.`,
		Example: `  rota produce --partition demo.3 hello
  cat orders.txt | rota produce --partition demo.3 -
  rota produce --count 10000
  rota produce --rate 500                        until Ctrl-C
  rota produce --source 'nats://localhost?stream=ORDERS&subject=orders.*&partitions=64' --count 100`,
		RunE: func(cmd *cobra.Command, values []string) error {
			var added []string
			if source == "" {
				of, err := connect.FolderSource(dir)
				if err != nil {
					return err
				}
				if of == "" {
					return cli.Usagef("--source is missing: say where to publish, such as %s", connect.ExampleSource())
				}
				source = of
				if partition != "" {
					added = connect.FolderNames(cmd.Context(), dir)
				}
			}
			if len(values) == 0 && rate == 0 && howMany == 0 {
				return cli.Usagef("nothing to publish: give values, - for standard input, --count or --rate")
			}
			if len(values) > 0 && (rate > 0 || howMany > 0) {
				return cli.Usagef("values, or --count and --rate: not both")
			}
			p, err := NewProducer(cmd.Context(), source, partition, added...)
			if err != nil {
				return err
			}
			defer p.Close()
			switch {
			case len(values) == 1 && values[0] == "-":
				err = p.lines(cmd.InOrStdin())
			case len(values) > 0:
				for _, v := range values {
					if err = p.publish([]byte(v)); err != nil {
						break
					}
				}
			default:
				err = p.steady(cmd.Context(), rate, howMany, size)
			}
			if err = errors.Join(err, p.flush()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "published %s\n", cli.Count(p.sent, "message"))
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&source, "source", "", "where to publish: "+connect.ExampleSource()+" (default: the stream of the rota up of this folder)")
	fl.Var(connect.Dir(&dir), "dir", "the folder of that rota up")
	fl.StringVar(&partition, "partition", "", "publish to this one alone (default: to all in turn)")
	fl.Var(cli.Whole(&rate, 0, 1_000_000), "rate", "messages per second; 0 as fast as they are taken")
	fl.Var(cli.Whole(&howMany, 0, 1_000_000_000), "count", "how many; 0 until Ctrl-C")
	fl.Var(cli.Whole(&size, 1, 1<<20), "size", "bytes per message that it makes up")
	return cmd
}

// A Producer publishes to the partitions of one source.
type Producer struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	queues   *queues // of a source that publishes by itself; nil for JetStream
	subjects []string
	next     int
	sent     int
	bad      chan error
}

// NewProducer makes a Producer for one partition of a source, or for all. added are
// partitions that the group has beside those that the source is said to have.
func NewProducer(ctx context.Context, source, partition string, added ...string) (*Producer, error) {
	q := cli.Parameters(source)
	opened, err := connect.OpenSource(source)
	if err != nil {
		return nil, err
	}
	if to, ok := opened.Source.(publisher); ok {
		return newQueues(ctx, source, to, partition)
	}
	if q.Get("stream") == "" {
		return nil, cli.Usagef("--source %s: nothing can be published there", cli.Redact(source))
	}
	p := &Producer{bad: make(chan error, 1)}
	n, _ := strconv.Atoi(q.Get("partitions"))
	for i := range n {
		p.subjects = append(p.subjects, strings.Replace(q.Get("subject"), "*", strconv.Itoa(i), 1))
	}
	switch {
	case partition != "":
		if err := cli.Known("partition", p.subjects, partition); n > 0 && err != nil && !slices.Contains(added, partition) {
			return nil, cli.BadUsage(err)
		}
		p.subjects = []string{partition}
	case n == 0:
		return nil, cli.Usagef("--source %s does not say how many partitions there are: add &partitions=N, or name one with --partition", cli.Redact(source))
	}
	if p.nc, err = connect.Dial(ctx, source); err != nil {
		return nil, err
	}
	p.js, err = jetstream.New(p.nc, jetstream.WithPublishAsyncMaxPending(256), jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
		select {
		case p.bad <- err:
		default:
		}
	}))
	if err != nil {
		p.nc.Close()
		return nil, err
	}
	return p, nil
}

func (p *Producer) Close() {
	if p.queues != nil {
		p.queues.close()
		return
	}
	p.nc.Close()
}

// MakeStream makes the stream that it publishes to.
func (p *Producer) MakeStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return p.js.CreateStream(ctx, cfg)
}

// publish publishes to all partitions in turn.
func (p *Producer) publish(value []byte) error {
	p.next++
	return p.PublishTo(p.next-1, value)
}

func (p *Producer) PublishTo(partition int, value []byte) error {
	select {
	case err := <-p.bad:
		return fmt.Errorf("publish: %w", err)
	default:
	}
	subject := p.subjects[partition%len(p.subjects)]
	if p.queues != nil {
		p.sent++
		return p.queues.add(subject, value)
	}
	if _, err := p.js.PublishAsync(subject, value, jetstream.WithStallWait(connect.StoreTime)); err != nil {
		return fmt.Errorf("publish to %s: %w", subject, err)
	}
	p.sent++
	return nil
}

// flush waits until everything was acknowledged.
func (p *Producer) flush() error {
	if p.queues != nil {
		return p.queues.flush()
	}
	select {
	case <-p.js.PublishAsyncComplete():
	case <-time.After(connect.StoreTime):
		return fmt.Errorf("publish: %d messages were not acknowledged within %v", p.js.PublishAsyncPending(), connect.StoreTime)
	}
	select {
	case err := <-p.bad:
		return fmt.Errorf("publish: %w", err)
	default:
		return nil
	}
}

func (p *Producer) lines(r io.Reader) error {
	if p.queues != nil {
		r = unhurried{r, p.queues}
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), 1<<20)
	for s.Scan() {
		if err := p.publish(s.Bytes()); err != nil {
			return err
		}
	}
	return s.Err()
}

// steady publishes at an even rate, until ctx ends or there were enough.
func (p *Producer) steady(ctx context.Context, rate, most, size int) error {
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for most == 0 || p.sent < most {
		due := p.sent + 1
		if rate > 0 {
			due = int(time.Since(began).Seconds() * float64(rate))
		}
		if most > 0 {
			due = min(due, most)
		}
		for p.sent < due && ctx.Err() == nil {
			if err := p.publish(made(p.sent, size)); err != nil {
				return err
			}
		}
		if rate == 0 {
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		if p.queues != nil {
			if err := p.queues.flush(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// made is a message that tells its number and is as long as asked for.
func made(n, size int) []byte {
	b := []byte("message " + strconv.Itoa(n) + " ")
	for len(b) < size {
		b = append(b, '.')
	}
	return b[:size]
}
