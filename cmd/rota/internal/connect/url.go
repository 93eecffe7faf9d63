package connect

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/rotatest"
)

// Stores and sources by URL: one table each, and no registry anywhere else.

// A scheme is one kind of URL.
type scheme[T any] struct {
	name string
	like string                                  // an example, for people; "" if it is not for them
	open func(raw string, looks bool) (T, error) // looks: it makes nothing that is not there
}

var stores = []scheme[rota.Store]{
	{"embed", "embed:./rota-data", embedStore},
	{"nats", "nats://HOST:4222", natsStore},
	{"tls", "tls://HOST:4222", natsStore},
	{"ws", "", natsStore},
	{"wss", "wss://HOST", natsStore},
	{"etcd", "etcd://HOST:2379", etcdStore},
	{"etcds", "", etcdStore},
	{"zk", "zk://HOST:2181", zkStore},
	{"zks", "", zkStore},
	{"redis", "redis://HOST:6379", redisStore},
	{"rediss", "rediss://HOST:6379", redisStore},
	{"redis+sentinel", "redis+sentinel://HOST:26379/NAME", redisStore},
	{"rediss+sentinel", "", redisStore},
	{"redis+cluster", "redis+cluster://HOST:6379", redisStore},
	{"rediss+cluster", "", redisStore},
	{"folder", "", folderStore},
	{"mem", "mem:", func(raw string, _ bool) (rota.Store, error) {
		if raw != "mem:" {
			return nil, fmt.Errorf("write mem: and nothing else")
		}
		return rotatest.NewMemStore(), nil
	}},
}

// A queueSource is what a source URL names. names is set when it delivers
// nothing: its partitions are worked on by --own.
type queueSource struct {
	rota.Source
	Names []string
}

var sources = []scheme[queueSource]{
	{"nats", "nats://HOST:4222?stream=ORDERS&subject=orders.*&partitions=64", natsSource},
	{"tls", "tls://HOST:4222?…", natsSource},
	{"ws", "", natsSource},
	{"wss", "wss://HOST?…", natsSource},
	{"embed", "embed:DIR?…", natsSource},
	{"folder", "", natsSource},
	{"amqp", "amqp://HOST:5672/VHOST?queues=orders.{0..63}&declare=quorum", rabbitSource},
	{"amqps", "", rabbitSource},
	{"kafka", "kafka://HOST:9092?topic=orders", kafkaSource},
	{"kafka+ssl", "", kafkaSource},
	{"stomp", "stomp://HOST:61613?queues=orders.{0..63}", activeSource},
	{"stomp+ssl", "", activeSource},
	{"amqp10", "amqp10://HOST:5672?queues=orders.{0..63}", activeSource},
	{"amqp10s", "", activeSource},
	{"none", "none:?partitions=64", openNone},
}

// openNone reads none:?partitions=N or none:?names=a,b,c.
func openNone(raw string, _ bool) (queueSource, error) {
	rest := strings.TrimPrefix(raw, "none:")
	q, err := url.ParseQuery(strings.TrimPrefix(rest, "?"))
	if err != nil || rest != "" && rest[0] != '?' {
		return queueSource{}, fmt.Errorf("want none:?partitions=N or none:?names=a,b,c")
	}
	for k := range q {
		if k != "partitions" && k != "names" {
			return queueSource{}, fmt.Errorf("it has no %q; known are partitions and names", k)
		}
	}
	if names := q.Get("names"); names != "" {
		list := strings.Split(names, ",")
		for i, n := range list {
			if n == "" || slices.Contains(list[:i], n) {
				return queueSource{}, fmt.Errorf("names: %q is empty or there twice", n)
			}
		}
		return queueSource{Names: list}, nil
	}
	n, err := partitionCount(q.Get("partitions"))
	if err != nil {
		return queueSource{}, err
	}
	out := make([]string, n)
	for i := range out {
		out[i] = "p" + strconv.Itoa(i)
	}
	return queueSource{Names: out}, nil
}

const mostPartitions = 100_000

func partitionCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > mostPartitions {
		return 0, fmt.Errorf("partitions is %q: want a number from 1 to %d", s, mostPartitions)
	}
	return n, nil
}

// OpenStore opens the store of a member.
func OpenStore(raw string) (rota.Store, error) { return open("store", stores, raw, false) }

// LookAt opens the store of a command that looks at a group, or gives orders to it: it
// makes nothing that is not there.
func LookAt(raw string) (rota.Store, error) { return open("store", stores, raw, true) }

func OpenSource(raw string) (queueSource, error) { return open("source", sources, raw, false) }

func open[T any](flag string, table []scheme[T], raw string, looks bool) (T, error) {
	var none T
	name, _, ok := strings.Cut(raw, ":")
	i := slices.IndexFunc(table, func(s scheme[T]) bool { return s.name == name })
	if !ok || i < 0 {
		return none, cli.Usagef("--%s %q: unknown kind of URL; known are %s", flag, cli.Redact(raw), examples(table))
	}
	v, err := table[i].open(raw, looks)
	if err != nil {
		return none, cli.Usagef("--%s %q: %v", flag, cli.Redact(raw), err)
	}
	return v, nil
}

func examples[T any](table []scheme[T]) string {
	var out []string
	for _, s := range table {
		if s.like != "" {
			out = append(out, s.like)
		}
	}
	return strings.Join(out, ", ")
}

// ExampleSource is a source that messages can be published to, for people.
func ExampleSource() string { return sources[0].like }

// StoreExamples and SourceExamples are the kinds of URL there are, for people.
func StoreExamples() string { return examples(stores) }

func SourceExamples() string { return examples(sources) }
