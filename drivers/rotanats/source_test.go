package rotanats_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A broker is one stream of a server.
type broker struct {
	t      testing.TB
	js     jetstream.JetStream
	url    string
	stream string
	names  []string
}

// newBroker makes a stream with three partitions. tune may change it.
func newBroker(t *testing.T, url string, tune ...func(*jetstream.StreamConfig)) *broker {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, js: js, url: url, stream: "S" + rand.Text()[:8]}
	c := jetstream.StreamConfig{Name: b.stream, Subjects: []string{b.stream + ".in.*"}, MaxMsgSize: 2 << 20}
	for _, f := range tune {
		f(&c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := js.CreateStream(ctx, c); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		b.names = append(b.names, fmt.Sprintf("%s.in.%d", b.stream, i))
	}
	return b
}

func (b *broker) Source() rota.Source {
	s := rotanats.Source(b.url, rotanats.Stream(b.stream), rotanats.Subject(b.stream+".in.*"), rotanats.Partitions(len(b.names)))
	b.t.Cleanup(func() { s.(interface{ Close() error }).Close() })
	return s
}

func (b *broker) Partitions() []string { return b.names }

// Publish tries again until the broker has it: the server may be away. A message
// that was stored without an answer is not stored twice.
func (b *broker) Publish(partition string, values ...[]byte) error {
	for _, v := range values {
		msg := &nats.Msg{Subject: partition, Data: v}
		opts := []jetstream.PublishOpt{jetstream.WithMsgID(rand.Text())}
		if len(v) >= 1<<20 {
			opts = nil // with a header it would be more than the server takes
		}
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			_, err = b.js.PublishMsg(ctx, msg, opts...)
			cancel()
			if err == nil || errors.Is(err, nats.ErrMaxPayload) {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *broker) Dead() (out [][]byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := b.js.Stream(ctx, b.stream+"_dead")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			return nil, err
		}
		out = append(out, m.Data)
	}
	return out, nil
}

func TestSourceOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newBroker(t, s.URL()) })
}

func TestSourceWorkQueue(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker {
		return newBroker(t, s.URL(), func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy })
	})
}

func TestSourceEmbedded(t *testing.T) {
	t.Parallel()
	s, err := rotanats.Serve(filepath.Join(t.TempDir(), "data"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newBroker(t, s.URL()) })
}

func TestSourceCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker {
		return newBroker(t, c.URL(), func(c *jetstream.StreamConfig) { c.Replicas = 3 })
	})
}
