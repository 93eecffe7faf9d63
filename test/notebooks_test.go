package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-zookeeper/zk"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	etcd "go.etcd.io/etcd/client/v3"

	"github.com/rota-dev/rota/internal/servers"
)

// patience is the most a single call may take, the freeze included.
const patience = 30 * time.Second

func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience)
}

// A book is a notebook out of functions that are given a connection.
type book[C any] struct {
	dial  func(context.Context) (C, func(), error)
	note  func(context.Context, C, string) error
	words func(context.Context, C) ([]string, error)
}

func (b book[C]) write(ctx context.Context, word string) error {
	ctx, cancel := within(ctx)
	defer cancel()
	c, hangUp, err := b.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer hangUp()
	if err := b.note(ctx, c, word); err != nil {
		return fmt.Errorf("write %q: %w", word, err)
	}
	return nil
}

func (b book[C]) read(ctx context.Context) ([]string, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	c, hangUp, err := b.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer hangUp()
	words, err := b.words(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	slices.Sort(words)
	return words, nil
}

func redisBook(s *servers.Server) notebook {
	return book[*redis.Client]{
		dial: func(context.Context) (*redis.Client, func(), error) {
			c := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: patience})
			return c, func() { c.Close() }, nil
		},
		note: func(ctx context.Context, c *redis.Client, word string) error {
			return c.SAdd(ctx, "words", word).Err()
		},
		words: func(ctx context.Context, c *redis.Client) ([]string, error) {
			return c.SMembers(ctx, "words").Result()
		},
	}
}

func etcdBook(s *servers.Server) notebook {
	return book[*etcd.Client]{
		dial: func(context.Context) (*etcd.Client, func(), error) {
			c, err := etcd.New(etcd.Config{Endpoints: []string{s.URL()}})
			return c, func() { c.Close() }, err
		},
		note: func(ctx context.Context, c *etcd.Client, word string) error {
			_, err := c.Put(ctx, "words/"+word, "")
			return err
		},
		words: func(ctx context.Context, c *etcd.Client) (words []string, err error) {
			resp, err := c.Get(ctx, "words/", etcd.WithPrefix())
			if err != nil {
				return nil, err
			}
			for _, kv := range resp.Kvs {
				words = append(words, strings.TrimPrefix(string(kv.Key), "words/"))
			}
			return words, nil
		},
	}
}

func zooKeeperBook(s *servers.Server) notebook {
	return book[*zk.Conn]{
		dial: func(context.Context) (*zk.Conn, func(), error) {
			c, _, err := zk.Connect([]string{s.Addr()}, 10*time.Second, zk.WithLogger(silent{}))
			return c, func() { c.Close() }, err
		},
		note: func(_ context.Context, c *zk.Conn, word string) error {
			_, err := c.Create("/"+word, nil, 0, zk.WorldACL(zk.PermAll))
			return err
		},
		words: func(_ context.Context, c *zk.Conn) ([]string, error) {
			words, _, err := c.Children("/")
			return slices.DeleteFunc(words, func(w string) bool { return w == "zookeeper" }), err
		},
	}
}

// silent keeps the client's remarks out of the output.
type silent struct{}

func (silent) Printf(string, ...any) {}

func natsBook(s *servers.Server) notebook { return jetStreamBook(s.URL(), 1) }

func natsClusterBook(nodes []*servers.Server) notebook {
	var urls []string
	for _, s := range nodes {
		urls = append(urls, s.URL())
	}
	return jetStreamBook(strings.Join(urls, ","), len(nodes))
}

func jetStreamBook(url string, replicas int) notebook {
	return book[jetstream.KeyValue]{
		dial: func(ctx context.Context) (jetstream.KeyValue, func(), error) {
			nc, err := nats.Connect(url, nats.Timeout(patience))
			if err != nil {
				return nil, nil, err
			}
			js, err := jetstream.New(nc)
			if err != nil {
				return nil, nil, err
			}
			var kv jetstream.KeyValue
			err = leaderless(ctx, func(ctx context.Context) (err error) {
				kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "words", Replicas: replicas})
				return err
			})
			return kv, nc.Close, err
		},
		note: func(ctx context.Context, kv jetstream.KeyValue, word string) error {
			return leaderless(ctx, func(ctx context.Context) error {
				_, err := kv.PutString(ctx, word, "")
				return err
			})
		},
		words: func(ctx context.Context, kv jetstream.KeyValue) ([]string, error) {
			var words []string
			err := leaderless(ctx, func(ctx context.Context) (err error) {
				words, err = kv.Keys(ctx)
				if errors.Is(err, jetstream.ErrNoKeysFound) {
					err = nil
				}
				return err
			})
			return words, err
		},
	}
}

// leaderless tries again while a cluster has no leader: then nobody answers.
func leaderless(ctx context.Context, call func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		err := call(once)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		var api *jetstream.APIError
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) && !errors.As(err, &api) {
			return err
		}
	}
}

func rabbitBook(s *servers.Server) notebook {
	type channel = *amqp.Channel
	return book[channel]{
		dial: func(context.Context) (channel, func(), error) {
			conn, err := amqp.DialConfig(s.URL(), amqp.Config{Dial: amqp.DefaultDial(patience)})
			if err != nil {
				return nil, nil, err
			}
			ch, err := conn.Channel()
			if err == nil {
				err = ch.Confirm(false)
			}
			// Of a queue that was declared the moment before, a kill can leave the
			// declaration without the word that it holds, and all that was confirmed
			// in it is gone, see servers.RabbitMQ. Another one pushes that word out.
			for _, name := range []string{"words", "another"} {
				if err == nil {
					_, err = ch.QueueDeclare(name, true, false, false, false, nil)
				}
			}
			return ch, func() { conn.Close() }, err
		},
		note: func(ctx context.Context, ch channel, word string) error {
			confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", "words", true, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(word)})
			if err != nil {
				return err
			}
			if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
				return fmt.Errorf("confirmed %v: %w", ok, err)
			}
			return nil
		},
		// What is fetched and not settled goes back to the queue at the hang-up.
		words: func(_ context.Context, ch channel) (words []string, err error) {
			for {
				m, ok, err := ch.Get("words", false)
				if err != nil || !ok {
					return words, err
				}
				words = append(words, string(m.Body))
			}
		},
	}
}

func activeBook(s *servers.Server) notebook {
	return book[*stomp.Conn]{
		dial: func(context.Context) (*stomp.Conn, func(), error) {
			c, err := stomp.Dial("tcp", s.Addr(), stomp.ConnOpt.HeartBeat(0, 0))
			return c, func() { c.Disconnect() }, err
		},
		note: func(_ context.Context, c *stomp.Conn, word string) error {
			return c.Send("/queue/words", "text/plain", []byte(word), stomp.SendOpt.Receipt, stomp.SendOpt.Header("persistent", "true"))
		},
		// A browser is told all there is, then the end.
		words: func(ctx context.Context, c *stomp.Conn) (words []string, err error) {
			sub, err := c.Subscribe("/queue/words", stomp.AckAuto, stomp.SubscribeOpt.Header("browser", "true"))
			if err != nil {
				return nil, err
			}
			for {
				select {
				case m := <-sub.C:
					switch {
					case m == nil:
						return nil, errors.New("the subscription ended")
					case m.Err != nil:
						return nil, m.Err
					case m.Header.Get("browser") == "end":
						return words, sub.Unsubscribe()
					}
					words = append(words, string(m.Body))
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		},
	}
}

func kafkaBook(s *servers.Server) notebook {
	return book[*kgo.Client]{
		dial: func(context.Context) (*kgo.Client, func(), error) {
			c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("words"))
			return c, c.Close, err
		},
		note: func(ctx context.Context, c *kgo.Client, word string) error {
			return c.ProduceSync(ctx, kgo.StringRecord(word)).FirstErr()
		},
		words: func(ctx context.Context, c *kgo.Client) (words []string, err error) {
			ends, err := kadm.NewClient(c).ListEndOffsets(ctx, "words")
			if err == nil {
				err = ends.Error()
			}
			if err != nil {
				return nil, err
			}
			end, _ := ends.Lookup("words", 0)
			c.AddConsumeTopics("words")
			for int64(len(words)) < end.Offset {
				fetches := c.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					return nil, err
				}
				for r := range fetches.RecordsAll() {
					words = append(words, string(r.Value))
				}
			}
			return words, nil
		},
	}
}
