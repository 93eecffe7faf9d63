package connect

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// natsStore opens nats://…, tls://…, ws://… and wss://….
func natsStore(raw string, looks bool) (rota.Store, error) {
	if err := rotanats.Check(raw); err != nil {
		return nil, Words(err)
	}
	return rotanats.Store(raw, options(looks)...), nil
}

// embedStore opens embed:DIR: the first process of the host to come serves it.
func embedStore(raw string, looks bool) (rota.Store, error) {
	if err := rotanats.Check(raw); err != nil {
		return nil, Words(err)
	}
	return embedded.Store(FolderURL(raw), options(looks)...), nil
}

// folderStore opens folder:DIR, which is what commands without --store mean: it
// connects to whoever serves the folder, and never serves it itself. A member
// that did would keep the folder when its rota up has ended.
func folderStore(raw string, looks bool) (rota.Store, error) {
	if err := rotanats.Check(raw); err != nil {
		return nil, Words(err)
	}
	return rotanats.Store(WithParameter(FolderURL(raw), "name=rota"), options(looks)...), nil
}

// natsSource opens nats://…?stream=S&subject=orders.*&partitions=N, and the same
// with embed:DIR.
func natsSource(raw string, _ bool) (queueSource, error) {
	if err := rotanats.Check(raw); err != nil {
		return queueSource{}, Words(err)
	}
	q := cli.Parameters(raw)
	if q.Get("stream") == "" || q.Get("subject") == "" {
		return queueSource{}, fmt.Errorf("it needs a stream and a subject: ?stream=ORDERS&subject=orders.*&partitions=64")
	}
	if strings.Count(q.Get("subject"), "*") != 1 {
		return queueSource{}, fmt.Errorf("the subject needs one star, for the partition: orders.*")
	}
	return queueSource{Source: rotanats.Source(FolderURL(raw))}, nil
}

func options(looks bool) []rotanats.Option {
	if looks {
		return []rotanats.Option{rotanats.AsItIs()}
	}
	return nil
}

// Words takes the driver's name off: the flag is named instead.
func Words(err error) error {
	text := err.Error()
	if driver, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(driver, "rota") && !strings.Contains(driver, " ") {
		text = rest
	}
	return plainError(text)
}

type plainError string

func (e plainError) Error() string { return string(e) }

// Dial connects to what a source URL names, to publish there.
func Dial(ctx context.Context, raw string) (*nats.Conn, error) {
	more := []nats.Option{nats.Name("rota produce"), nats.Timeout(StoreTime), nats.MaxReconnects(-1)}
	if dir, ok := strings.CutPrefix(raw, "embed:"); ok {
		dir, _, _ = strings.Cut(dir, "?")
		if err := served(dir, "--source with a server"); err != nil {
			return nil, err
		}
	}
	nc, err := rotanats.Connect(FolderURL(raw), more)
	if err != nil {
		return nil, cli.Unreachable(raw, Words(err))
	}
	return nc, ctx.Err()
}
